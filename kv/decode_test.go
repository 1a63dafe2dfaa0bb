package kv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

const cas = 0x1122334455667788

var (
	be32     = []byte{0x02, 0, 0, 6}
	tokenOf  = []byte{0, 0, 0, 0, 0, 0, 0xab, 0xcd, 0, 0, 0, 0, 0, 0, 0, 9}
	eight    = []byte{0, 0, 0, 0, 0, 0, 0, 12}
	meta     = append([]byte{0, 0, 0, 0, 0x02, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 1)
	deleted  = append([]byte{0, 0, 0, 1}, meta[4:]...)
	idOf     = []byte{0, 0, 0, 0, 0, 0, 0, 0x1f, 0, 0, 0, 0x0a}
	duration = []byte{0x02, 0, 21}
)

// A successful answer becomes these results.
func TestDecode(t *testing.T) {
	key := []byte("abc")
	result := kv.Result{CAS: cas, Endpoint: fakeEndpoint}
	token := kv.MutationToken{Bucket: "travel", VBucket: 115, UUID: 0xabcd, Seqno: 9}
	get := kv.GetResult{Result: result, Value: []byte("doc"), Flags: 0x02000006, Datatype: memd.DatatypeJSON}
	replica := get
	replica.FromReplica = true
	mutation := kv.MutationResult{Result: result, Token: token}
	noToken := kv.MutationResult{Result: result}
	counter := kv.CounterResult{MutationResult: mutation, Value: 12}
	for _, c := range []struct {
		op     subject
		extras []byte
		value  string
		want   any
	}{
		{on("get", kv.Get{Key: key}), be32, "doc", get},
		{on("get-and-lock", kv.GetAndLock{Key: key}), be32, "doc", get},
		{on("get-and-touch", kv.GetAndTouch{Key: key}), be32, "doc", get},
		{on("get-replica", kv.GetReplica{Key: key, Replica: 1}), be32, "doc", replica},
		{on("exists", kv.Exists{Key: key}), meta, "", kv.ExistsResult{Result: result, Exists: true}},
		{on("exists, version 1", kv.Exists{Key: key}), meta[:20], "", kv.ExistsResult{Result: result, Exists: true}},
		{on("exists, a tombstone", kv.Exists{Key: key}), deleted, "", kv.ExistsResult{Result: kv.Result{Endpoint: fakeEndpoint}}},
		{on("upsert", kv.Upsert{Key: key}), tokenOf, "", mutation},
		{on("upsert, no token", kv.Upsert{Key: key}), nil, "", noToken},
		{on("insert", kv.Insert{Key: key}), tokenOf, "", mutation},
		{on("replace", kv.Replace{Key: key}), tokenOf, "", mutation},
		{on("remove", kv.Remove{Key: key}), tokenOf, "", mutation},
		{on("append", kv.Append{Key: key}), tokenOf, "", mutation},
		{on("prepend", kv.Prepend{Key: key}), tokenOf, "", mutation},
		{on("touch", kv.Touch{Key: key}), nil, "", noToken},
		{on("touch, a token", kv.Touch{Key: key}), tokenOf, "", mutation},
		{on("unlock", kv.Unlock{Key: key, CAS: 1}), nil, "", result},
		{on("increment", kv.Increment{Key: key}), tokenOf, string(eight), counter},
		{on("decrement", kv.Decrement{Key: key}), tokenOf, string(eight), counter},
		{on("noop", kv.Noop{}), nil, "", result},
		{on("get-collection-id", kv.GetCollectionID{Path: "a.b"}), idOf, "", kv.CollectionID{Result: result, ManifestUID: 0x1f, ID: 10}},
		{on("get-cluster-config", kv.GetClusterConfig{}), nil, "{}", kv.ClusterConfig{Result: result, JSON: []byte("{}")}},
		{on("get-cluster-config, nothing newer", kv.GetClusterConfig{}), nil, "", kv.ClusterConfig{Result: result}},
	} {
		f := answering(memd.Packet{CAS: cas, Datatype: memd.DatatypeJSON, Extras: c.extras, Value: []byte(c.value)})
		got, err := c.op.do(testContext(t), f)
		require.NoError(t, err, c.op.name)
		require.Equal(t, c.want, got, c.op.name)
		require.EqualValues(t, 1, f.dispatched.Load())
		require.EqualValues(t, 1, f.released.Load())
	}
}

// A successful answer that lacks something is an error that says what, and never a panic. A write that was acknowledged
// that way has been applied, so its error is ambiguous.
func TestATooShortAnswerIsADecodingFailure(t *testing.T) {
	key := []byte("abc")
	type lack struct {
		op    subject
		field string
		lens  []int // that do not suffice
		want  int
	}
	var below4, not12, not8 []int
	for n := range 24 {
		if n < 4 {
			below4 = append(below4, n)
		}
		if n != 12 {
			not12 = append(not12, n)
		}
		if n != 8 {
			not8 = append(not8, n)
		}
	}
	for _, c := range []lack{
		{on("get", kv.Get{Key: key}), "extras", below4, 4},
		{on("get-and-lock", kv.GetAndLock{Key: key}), "extras", below4, 4},
		{on("get-and-touch", kv.GetAndTouch{Key: key}), "extras", below4, 4},
		{on("get-replica", kv.GetReplica{Key: key, Replica: 1}), "extras", below4, 4},
		{on("exists", kv.Exists{Key: key}), "extras", below4, 4},
		{on("get-collection-id", kv.GetCollectionID{}), "extras", not12, 12},
		{on("increment", kv.Increment{Key: key}), "value", not8, 8},
		{on("decrement", kv.Decrement{Key: key}), "value", not8, 8},
	} {
		for _, n := range c.lens {
			p := memd.Packet{Extras: make([]byte, n)}
			if c.field == "value" {
				p = memd.Packet{Value: make([]byte, n)}
			}
			_, err := c.op.do(testContext(t), answering(p))
			e := kvError(t, err)
			require.ErrorIs(t, e, cberr.DecodingFailure)
			require.Equal(t, c.op.name, e.Op)
			require.Equal(t, fakeEndpoint, e.Endpoint)
			require.True(t, e.Answered)
			require.Equal(t, memd.StatusSuccess, e.Status)
			require.Equal(t, kv.SpecByName(c.op.name).Has(kv.Mutates), e.Ambiguous())
			var re *kv.ResponseError
			require.ErrorAs(t, e, &re)
			require.Equal(t, kv.ResponseError{Opcode: re.Opcode, Field: c.field, Len: n, Want: c.want}, *re)
			require.ErrorContains(t, e, fmt.Sprintf("%s has %d bytes, needs %d", c.field, n, c.want))
		}
	}
}

func TestFramesOfAnAnswer(t *testing.T) {
	frames := append([]byte{}, duration...)
	frames = append(frames, 0x12, 0, 3, 0x22, 0, 4) // read and write units
	frames = append(frames, 0xf2, 0x20, 1, 2)       // an unknown one
	frames = append(frames, 0x01, 9, 0x03, 9, 9, 9) // durations of the wrong length
	for n := range len(frames) + 1 {
		res, err := kv.Do(testContext(t), answering(memd.Packet{Frames: frames[:n]}), kv.Noop{})
		require.NoError(t, err)
		d, ok := res.ServerDuration()
		require.Equal(t, n >= 3, ok)
		if ok {
			require.InDelta(t, 100, float64(d)/float64(time.Microsecond), 5)
		} else {
			require.Zero(t, d)
		}
		reads, writes := res.Units()
		require.Equal(t, n >= 6, reads == 3)
		require.Equal(t, n >= 9, writes == 4)
	}
}

func TestAValueIsTheCallersOwn(t *testing.T) {
	shared := []byte("document")
	packet := memd.Packet{Extras: be32, Value: shared}
	res, err := kv.Do(testContext(t), answering(packet), kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	shared[0] = 'X'
	require.Equal(t, "document", string(res.Value))
	require.Equal(t, len(res.Value), cap(res.Value), "allocated exactly")

	shared[0] = 'd'
	into := append(make([]byte, 0, 64), "head:"...)
	res, err = kv.Do(testContext(t), answering(packet), kv.Get{Key: []byte("k"), Into: into})
	require.NoError(t, err)
	require.Equal(t, "head:document", string(res.Value))
	require.Same(t, &into[0], &res.Value[0])

	owned := newFake(func(c *kv.Call) {
		p := packet
		c.Succeed(&p, true)
	})
	res, err = kv.Do(testContext(t), owned, kv.Get{Key: []byte("k"), Into: into})
	require.NoError(t, err)
	require.Same(t, &shared[0], &res.Value[0], "memory of its own is handed over, not copied")
}

// A missing document is what Exists was asked about, in whichever form it is given.
func TestExistsMakesAResultOfNotFound(t *testing.T) {
	f := refusing(memd.StatusKeyNotFound, 0, "")
	for _, op := range []subject{on("", kv.Exists{Key: []byte("k")}), on("", &kv.Exists{Key: []byte("k")})} {
		res, err := op.do(context.Background(), f)
		require.NoError(t, err)
		require.Equal(t, kv.ExistsResult{Result: kv.Result{Endpoint: fakeEndpoint}}, res)
	}
	_, err := kv.Do(testContext(t), f, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	_, err = kv.Do(testContext(t), refusing(memd.StatusTooBig, 0, ""), kv.Exists{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.ValueTooLarge)
}
