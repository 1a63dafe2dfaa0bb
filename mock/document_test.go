package mock_test

import (
	"encoding/binary"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func withExpiry(op memd.Opcode, key, value string, expiry uint32) memd.Packet {
	p := storePacket(op, key, value)
	binary.BigEndian.PutUint32(p.Extras[4:], expiry)
	return p
}

func counterPacket(op memd.Opcode, key string, delta, initial uint64, expiry uint32) memd.Packet {
	x := binary.BigEndian.AppendUint64(nil, delta)
	x = binary.BigEndian.AppendUint64(x, initial)
	return memd.Packet{Opcode: op, Key: docKey(key), Extras: binary.BigEndian.AppendUint32(x, expiry)}
}

func withCAS(p memd.Packet, cas uint64) memd.Packet {
	p.CAS = cas
	return p
}

func keyed(op memd.Opcode, key string) memd.Packet { return memd.Packet{Opcode: op, Key: docKey(key)} }

// TestDocumentsMissing is what each operation answers for a document that does not exist.
func TestDocumentsMissing(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	rows := []struct {
		p    memd.Packet
		want memd.Status
	}{
		{getPacket("a"), memd.StatusKeyNotFound},
		{keyed(memd.OpGetMeta, "b"), memd.StatusKeyNotFound},
		{storePacket(memd.OpSet, "c", "v"), memd.StatusSuccess},
		{withCAS(storePacket(memd.OpSet, "d", "v"), 5), memd.StatusKeyNotFound},
		{storePacket(memd.OpAdd, "e", "v"), memd.StatusSuccess},
		{storePacket(memd.OpReplace, "f", "v"), memd.StatusKeyNotFound},
		{keyed(memd.OpDelete, "g"), memd.StatusKeyNotFound},
		{memd.Packet{Opcode: memd.OpAppend, Key: docKey("h"), Value: []byte("v")}, memd.StatusNotStored},
		{memd.Packet{Opcode: memd.OpPrepend, Key: docKey("i"), Value: []byte("v")}, memd.StatusNotStored},
		{memd.Packet{Opcode: memd.OpTouch, Key: docKey("j"), Extras: make([]byte, 4)}, memd.StatusKeyNotFound},
		{memd.Packet{Opcode: memd.OpGAT, Key: docKey("k"), Extras: make([]byte, 4)}, memd.StatusKeyNotFound},
		{keyed(memd.OpGetLocked, "l"), memd.StatusKeyNotFound},
		{withCAS(keyed(memd.OpUnlockKey, "m"), 5), memd.StatusKeyNotFound},
		{counterPacket(memd.OpIncrement, "n", 1, 7, 0), memd.StatusSuccess},
		{counterPacket(memd.OpIncrement, "o", 1, 7, math.MaxUint32), memd.StatusKeyNotFound},
		{counterPacket(memd.OpDecrement, "p", 1, 7, 0), memd.StatusSuccess},
	}
	for _, row := range rows {
		before := len(c.ApplyLog("default"))
		p := r.call(row.p)
		require.Equal(t, row.want, p.Status, "%v", row.p.Opcode)
		applied := len(c.ApplyLog("default")) - before
		if row.want == memd.StatusSuccess {
			require.NotZero(t, p.CAS)
			require.Equal(t, 1, applied, "%v", row.p.Opcode)
		} else {
			require.Zero(t, applied, "%v", row.p.Opcode)
		}
	}
}

func TestCASGuardsEveryMutation(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	cas := r.call(storePacket(memd.OpSet, "k", "1")).CAS
	require.Equal(t, memd.StatusKeyExists, r.call(storePacket(memd.OpAdd, "k", "v")).Status)
	for _, p := range []memd.Packet{
		storePacket(memd.OpSet, "k", "2"), storePacket(memd.OpReplace, "k", "3"),
		{Opcode: memd.OpAppend, Key: docKey("k"), Value: []byte("4")},
		{Opcode: memd.OpPrepend, Key: docKey("k"), Value: []byte("5")},
		keyed(memd.OpDelete, "k"),
	} {
		require.Equal(t, memd.StatusKeyExists, r.call(withCAS(p, cas+1)).Status, "%v", p.Opcode)
		res := r.call(withCAS(p, cas))
		require.Equal(t, memd.StatusSuccess, res.Status, "%v", p.Opcode)
		require.Greater(t, res.CAS, cas)
		log := c.ApplyLog("default")
		last := log[len(log)-1]
		require.Equal(t, cas, last.CASBefore)
		require.Equal(t, res.CAS, last.CASAfter)
		require.Equal(t, p.Opcode, last.Opcode)
		require.Equal(t, "k", last.Key)
		cas = res.CAS
	}
	meta := r.call(keyed(memd.OpGetMeta, "k"))
	require.Equal(t, memd.StatusSuccess, meta.Status, "the tombstone is seen")
	require.EqualValues(t, 1, binary.BigEndian.Uint32(meta.Extras))
}

func TestCounters(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	number := func(p memd.Packet) uint64 {
		t.Helper()
		require.Equal(t, memd.StatusSuccess, p.Status)
		return binary.BigEndian.Uint64(p.Value)
	}
	require.EqualValues(t, 10, number(r.call(counterPacket(memd.OpIncrement, "n", 3, 10, 0))))
	require.EqualValues(t, 13, number(r.call(counterPacket(memd.OpIncrement, "n", 3, 10, 0))))
	require.EqualValues(t, 0, number(r.call(counterPacket(memd.OpDecrement, "n", 20, 0, 0))), "stops at zero")
	require.Equal(t, uint64(math.MaxUint64), number(r.call(counterPacket(memd.OpIncrement, "n", math.MaxUint64, 0, 0))))
	require.EqualValues(t, 1, number(r.call(counterPacket(memd.OpIncrement, "n", 2, 0, 0))), "wraps")
	require.Equal(t, "1", string(r.call(getPacket("n")).Value))
	require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "text", "x")).Status)
	require.Equal(t, memd.StatusDeltaBadVal, r.call(counterPacket(memd.OpIncrement, "text", 1, 0, 0)).Status)
}

func TestLocks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual())
		r := login(t, c, baseFeatures...)
		require.NoError(t, r.nc.SetDeadline(time.Time{}))
		lock := func(seconds uint32) memd.Packet {
			p := keyed(memd.OpGetLocked, "k")
			p.Extras = binary.BigEndian.AppendUint32(nil, seconds)
			return r.call(p)
		}
		cas := r.call(storePacket(memd.OpSet, "k", "v")).CAS
		require.Equal(t, memd.StatusNotLocked, r.call(withCAS(keyed(memd.OpUnlockKey, "k"), cas)).Status)
		p := lock(10)
		require.Equal(t, memd.StatusSuccess, p.Status)
		require.Equal(t, "v", string(p.Value))
		require.NotEqual(t, cas, p.CAS)
		require.Equal(t, uint64(math.MaxUint64), r.call(getPacket("k")).CAS, "reads hide the CAS")
		require.Equal(t, memd.StatusLocked, lock(10).Status)
		require.Equal(t, memd.StatusLocked, r.call(storePacket(memd.OpSet, "k", "w")).Status)
		require.Equal(t, memd.StatusLocked, r.call(withCAS(storePacket(memd.OpSet, "k", "w"), cas)).Status)
		require.Equal(t, memd.StatusLocked, r.call(withCAS(keyed(memd.OpUnlockKey, "k"), cas)).Status)
		require.Equal(t, memd.StatusSuccess, r.call(withCAS(keyed(memd.OpUnlockKey, "k"), p.CAS)).Status)
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "w")).Status)

		p = lock(10)
		require.Equal(t, memd.StatusSuccess, r.call(withCAS(storePacket(memd.OpSet, "k", "x"), p.CAS)).Status)
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "y")).Status,
			"the write has unlocked it")
		for _, row := range []struct{ asked, lasts uint32 }{{0, 15}, {31, 15}, {30, 30}, {1, 1}} {
			require.Equal(t, memd.StatusSuccess, lock(row.asked).Status)
			time.Sleep(time.Duration(row.lasts)*time.Second - time.Millisecond)
			require.Equal(t, memd.StatusLocked, lock(row.asked).Status, "%d", row.asked)
			time.Sleep(time.Millisecond)
			require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpSet, "k", "z")).Status, "%d", row.asked)
		}

		old := login(t, c, memd.FeatureCollections) // without XERROR
		require.NoError(t, old.nc.SetDeadline(time.Time{}))
		require.Equal(t, memd.StatusTmpFail, old.call(withCAS(keyed(memd.OpUnlockKey, "k"), 5)).Status)
		require.Equal(t, memd.StatusSuccess, lock(10).Status)
		require.Equal(t, memd.StatusTmpFail, old.call(keyed(memd.OpGetLocked, "k")).Status)
		require.Equal(t, memd.StatusKeyExists, old.call(storePacket(memd.OpSet, "k", "w")).Status)
	})
}

func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual())
		r := login(t, c, baseFeatures...)
		require.NoError(t, r.nc.SetDeadline(time.Time{}))
		there := func(key string) bool {
			t.Helper()
			return r.call(getPacket(key)).Status == memd.StatusSuccess
		}
		expiry := func(key string) int64 {
			t.Helper()
			p := r.call(keyed(memd.OpGetMeta, key))
			require.Equal(t, memd.StatusSuccess, p.Status)
			return int64(binary.BigEndian.Uint32(p.Extras[8:]))
		}
		start := time.Now().Unix()
		for _, p := range []memd.Packet{
			withExpiry(memd.OpSet, "relative", "v", 10), withExpiry(memd.OpSet, "absolute", "v", uint32(start)+10),
			storePacket(memd.OpSet, "touched", "v"), storePacket(memd.OpSet, "kept", "v"),
			withExpiry(memd.OpSet, "preserved", "v", 10), withExpiry(memd.OpSet, "lost", "v", 10),
			withExpiry(memd.OpSet, "appended", "v", 10), counterPacket(memd.OpIncrement, "counter", 1, 1, 10),
			{Opcode: memd.OpTouch, Key: docKey("touched"), Extras: []byte{0, 0, 0, 10}},
			{
				Magic: memd.MagicReqExt, Frames: []byte{0x50}, Opcode: memd.OpSet, Key: docKey("preserved"),
				Extras: make([]byte, 8),
			},
			storePacket(memd.OpSet, "lost", "v"),
			{Opcode: memd.OpAppend, Key: docKey("appended"), Value: []byte("w")},
		} {
			require.Equal(t, memd.StatusSuccess, r.call(p).Status, "%v %q", p.Opcode, p.Key)
		}
		for _, key := range []string{"relative", "absolute", "touched", "preserved", "appended", "counter"} {
			require.Equal(t, start+10, expiry(key), key)
		}
		for _, key := range []string{"kept", "lost"} {
			require.Zero(t, expiry(key), key)
		}
		gat := memd.Packet{Opcode: memd.OpGAT, Key: docKey("absolute"), Extras: []byte{0, 0, 0, 20}}
		p := r.call(gat)
		require.Equal(t, "v", string(p.Value))
		require.Len(t, p.Extras, 4, "flags, no token")
		time.Sleep(10 * time.Second)
		require.True(t, there("relative"))
		time.Sleep(time.Second)
		for _, key := range []string{"relative", "touched", "preserved", "appended", "counter"} {
			require.False(t, there(key), key)
		}
		for _, key := range []string{"kept", "lost", "absolute"} {
			require.True(t, there(key), key)
		}
		require.Equal(t, memd.StatusSuccess, r.call(storePacket(memd.OpAdd, "relative", "new")).Status)
		time.Sleep(10 * time.Second)
		require.False(t, there("absolute"))
	})
}

// A document has the whole second that its expiry names, as in kv_engine (StoredValue::isExpired): one that was stored
// late in a second, with an expiry of 1 s, was gone after less than that.
func TestNoDocumentExpiresEarlier_D280(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Virtual())
		r := login(t, c, baseFeatures...)
		get := func() memd.Status { return r.call(getPacket("k")).Status }
		time.Sleep(900 * time.Millisecond) // the bubble begins with a second
		require.Equal(t, memd.StatusSuccess, r.call(withExpiry(memd.OpSet, "k", "v", 1)).Status)
		time.Sleep(999 * time.Millisecond)
		require.Equal(t, memd.StatusSuccess, get(), "not before its time")
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, memd.StatusSuccess, get(), "the last moment of the second")
		time.Sleep(time.Millisecond)
		require.Equal(t, memd.StatusKeyNotFound, get())
		require.Equal(t, memd.StatusSuccess, r.call(withExpiry(memd.OpAdd, "k", "v", uint32(time.Now().Unix()))).Status)
		require.Equal(t, memd.StatusSuccess, get(), "an expiry that is now")
		time.Sleep(time.Second)
		require.Equal(t, memd.StatusKeyNotFound, get())
	})
}

func TestJoinedValues(t *testing.T) {
	c := mock.Start(t)
	r := login(t, c, baseFeatures...)
	set := storePacket(memd.OpSet, "k", `{"a":`)
	binary.BigEndian.PutUint32(set.Extras, 0x02000000)
	require.Equal(t, memd.StatusSuccess, r.call(set).Status)
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{
		Opcode: memd.OpAppend, Key: docKey("k"),
		Value: []byte("1}"),
	}).Status)
	p := r.call(getPacket("k"))
	require.Equal(t, `{"a":1}`, string(p.Value))
	require.Equal(t, memd.DatatypeJSON, p.Datatype, "the node looks again")
	require.EqualValues(t, 0x02000000, binary.BigEndian.Uint32(p.Extras), "flags stay")
	require.Equal(t, memd.StatusSuccess, r.call(memd.Packet{
		Opcode: memd.OpPrepend, Key: docKey("k"),
		Value: []byte("x"),
	}).Status)
	p = r.call(getPacket("k"))
	require.Equal(t, `x{"a":1}`, string(p.Value))
	require.Zero(t, p.Datatype)
}

func TestApplyLogTellsWhatWasApplied(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 2, mock.WithCollection("s", "c")))
	r := loginAt(t, c, 1, baseFeatures...)
	p := memd.Packet{
		Opcode: memd.OpSet, Key: inCollection(8, []byte("k")), VBucket: 1, Value: []byte("token-01 and more"),
		Extras: make([]byte, 8),
	}
	res := r.call(p)
	require.Equal(t, memd.StatusSuccess, res.Status)
	log := c.ApplyLog("default")
	require.Len(t, log, 1)
	a := log[0]
	require.Equal(t, 1, a.Node)
	require.EqualValues(t, 1, a.VBucket)
	require.Equal(t, memd.OpSet, a.Opcode)
	require.EqualValues(t, 8, a.Collection)
	require.Equal(t, "k", a.Key)
	require.Equal(t, "token-01", a.Token[:8])
	require.Zero(t, a.CASBefore)
	require.Equal(t, res.CAS, a.CASAfter)
	require.False(t, a.At.IsZero())
	require.Nil(t, c.ApplyLog("nope"))
}
