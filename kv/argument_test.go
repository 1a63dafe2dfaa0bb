package kv_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// raw is a request that only an operation from elsewhere can make.
type raw struct {
	op     memd.Opcode
	extras int
	change func(r *call.Request)
}

func (o raw) Encode(r *call.Request) error {
	r.Opcode, r.Key = o.op, []byte("k")
	r.SetExtras(make([]byte, o.extras))
	if o.change != nil {
		o.change(r)
	}
	return nil
}

func (o raw) Decode(*call.Response) (int, error) { return 0, nil }

func TestBadArgumentsAreRefusedBeforeAnythingIsSent(t *testing.T) {
	long := func(n int) []byte { return make([]byte, n) }
	key := []byte("k")
	named := kv.Common{Scope: "s", Collection: "c"}
	for _, c := range []struct {
		op   subject
		text string
		kind error
	}{
		{on("get", kv.Get{}), "key: is empty, 1 to 250 bytes allowed", nil},
		{on("get", kv.Get{Common: named}), "key: is empty, 1 to 246 bytes allowed", nil},
		{on("get", kv.Get{Key: long(251)}), "key length is 251, limit 250", nil},
		{on("get", kv.Get{Common: named, Key: long(247)}), "key length is 247, limit 246", nil},
		{
			on("upsert", kv.Upsert{Key: key, Value: long(kv.MaxValueLen + 1)}),
			"value length is 20971521, limit 20971520",
			cberr.ValueTooLarge,
		},
		{on("get", kv.Get{Common: kv.Common{Timeout: -1}, Key: key}), "timeout: is negative", nil},
		{on("upsert", kv.Upsert{Key: key, Durability: 4}), "durability level is 4, limit 3", nil},
		{on("unlock", kv.Unlock{Key: key}), "cas: unlock needs the CAS of the lock", nil},
		{
			on("get", kv.Get{Common: kv.Common{OnBehalfOf: string(long(224))}, Key: key}),
			"on behalf of length is 224, limit 223", nil,
		},
		{
			on("get", kv.Get{Common: kv.Common{Scope: string(long(252))}, Key: key}),
			"scope name length is 252, limit 251", nil,
		},
		{
			on("get", kv.Get{Common: kv.Common{Collection: "a.b"}, Key: key}), "collection name: byte 1 is not one of",
			nil,
		},
		{on("get-replica", kv.GetReplica{Key: key}), "replica is 0, limit 3", nil},
		{on("get-replica", kv.GetReplica{Key: key, Replica: 4}), "replica is 4, limit 3", nil},
		{on("get-and-lock", kv.GetAndLock{Key: key, LockTime: -1}), "lock time: is negative", nil},
		{
			on("get-and-lock", kv.GetAndLock{Key: key, LockTime: kv.MaxLockTime + 1}),
			"lock time in seconds is 31, limit 30", nil,
		},
		{
			on("upsert", kv.Upsert{Key: key, Datatype: memd.DatatypeXattr}),
			"datatype: is xattr, upsert takes json,snappy", nil,
		},
		{
			on("get", kv.Seal(raw{op: memd.OpGet, change: func(r *call.Request) { r.Datatype = memd.DatatypeJSON }})),
			"datatype: is json, get takes raw", nil,
		},
		{on("HELLO", kv.Seal(raw{op: memd.OpHello})), "opcode: HELLO is not an operation of this client", nil},
		{on("Opcode(0xff)", kv.Seal(raw{op: 0xff})), "opcode: Opcode(0xff) is not an operation of this client", nil},
		{on("get", kv.Seal(raw{op: memd.OpGet, extras: 4})), "extras: have 4 bytes, get takes [0]", nil},
		{on("upsert", kv.Seal(raw{op: memd.OpSet})), "extras: have 0 bytes, upsert takes [8]", nil},
		{on("upsert", kv.Seal(raw{op: memd.OpSet, extras: 40})), "extras: have 32 bytes, upsert takes [8]", nil},
		{
			on("get", kv.Seal(raw{op: memd.OpGet, change: func(r *call.Request) { r.Durability = 1 }})),
			"durability level: not accepted by get", nil,
		},
		{
			on("insert", kv.Seal(raw{
				op: memd.OpAdd, extras: 8, change: func(r *call.Request) { r.PreserveExpiry = true },
			})),
			"preserve expiry: not accepted by insert", nil,
		},
	} {
		f := newFake(nil)
		_, err := c.op.do(testContext(t), f)
		e := kvError(t, err)
		require.Equal(t, c.op.name, e.Op, c.text)
		require.ErrorContains(t, e, c.text)
		want := c.kind
		if want == nil {
			want = cberr.InvalidArgument
		}
		require.ErrorIs(t, e, want, c.text)
		var a *kv.ArgumentError
		require.ErrorAs(t, e, &a)
		require.False(t, e.Ambiguous())
		require.Zero(t, f.dispatched.Load())
		require.EqualValues(t, 1, f.released.Load())
	}
}

// The limits themselves are allowed.
func TestArgumentsAtTheirLimit(t *testing.T) {
	name := func(n int) string { return string(bytesOf('a', n)) }
	for _, op := range []subject{
		on("", kv.Get{Key: bytesOf('k', 250)}),
		on("", kv.Get{Common: kv.Common{Scope: "_default", Collection: "_default"}, Key: bytesOf('k', 250)}),
		on("", kv.Get{Common: kv.Common{Scope: name(251), Collection: "aZ09_-%"}, Key: bytesOf('k', 246)}),
		on("", kv.Get{Common: kv.Common{OnBehalfOf: name(kv.MaxUserLen)}, Key: []byte("k")}),
		on("", kv.Upsert{
			Key: []byte("k"), Value: make([]byte, kv.MaxValueLen), Durability: 3, PreserveExpiry: true,
			Common: kv.Common{OnBehalfOf: name(kv.MaxUserLen)},
		}),
		on("", kv.GetReplica{Key: []byte("k"), Replica: 3}),
	} {
		w := withDurability(65534)
		w.CollectionID = 0xffffffff
		wire, err := op.encoded(w)
		require.NoError(t, err)
		var p memd.Packet
		_, err = p.Parse(wire, 0)
		require.NoError(t, err)
	}
}

func bytesOf(c byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = c
	}
	return b
}
