package kv_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
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
	var below4, below20, not12, not16, not8 []int
	for n := range 24 {
		if n < 4 {
			below4 = append(below4, n)
		}
		if n < 20 {
			below20 = append(below20, n)
		}
		if n != 16 {
			not16 = append(not16, n)
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
		{on("exists", kv.Exists{Key: key}), "extras", below20, 20},
		{on("get-collection-id", kv.GetCollectionID{Path: "s.c"}), "extras", not12, 12},
		{on("get-ex", kv.GetEx{Key: key}), "extras", below4, 4},
		{on("get-ex-replica", kv.GetEx{Key: key, Replica: 1}), "extras", below4, 4},
		{on("get-random", kv.GetRandom{}), "extras", below4, 4},
		{on("get-meta", kv.GetMeta{Key: key}), "extras", below20, 20},
		{on("get-scope-id", kv.GetScopeID{}), "extras", not12, 12},
		{on("range-scan-create", kv.RangeScanCreate{Range: &kv.ScanRange{}}), "value", not16, 16},
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
			var re *kv.ResponseError
			require.ErrorAs(t, e, &re)
			require.Equal(t, call.SpecOf(re.Opcode).Has(call.Mutates), e.Ambiguous())
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

	owned := newFake(func(c *call.Call) {
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
		require.Equal(t, kv.MetaResult{Result: kv.ResultVia(fakeVia, 0, 42)}, res)
	}
	_, err := kv.Do(testContext(t), f, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	_, err = kv.Do(testContext(t), refusing(memd.StatusTooBig, 0, ""), kv.Exists{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.ValueTooLarge)
}

func TestGetOrNullMakesAResultOfNotFound(t *testing.T) {
	f := refusing(memd.StatusKeyNotFound, 0, "")
	for _, op := range []subject{on("", kv.GetOrNull{Key: []byte("k")}), on("", &kv.GetOrNull{Key: []byte("k")})} {
		res, err := op.do(context.Background(), f)
		require.NoError(t, err)
		require.Equal(t, kv.GetResult{Result: kv.ResultVia(fakeVia, 0, 42), Absent: true}, res)
	}
	_, err := kv.Do(testContext(t), refusing(memd.StatusAccess, 0, ""), kv.GetOrNull{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.AuthenticationFailure)
	require.Equal(t, "get-or-null", kvError(t, err).Op)
}

// A missing document that was asked after is not a failure, to observers of calls (spans, durations) either.
func TestAMissingDocumentIsObservedAsSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		op   subject
		want bool
	}{
		"get-or-null": {on("", kv.GetOrNull{Key: []byte("k")}), true},
		"exists":      {on("", kv.Exists{Key: []byte("k")}), true},
		"get":         {on("", kv.Get{Key: []byte("k")}), false},
	} {
		var seen []error
		f := newFake(func(c *call.Call) {
			c.ObserveAttempts(outcomes(func(err error) { seen = append(seen, err) }))
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: memd.StatusKeyNotFound})
		})
		_, _ = c.op.do(testContext(t), f)
		require.Len(t, seen, 1, name)
		require.Equal(t, c.want, seen[0] == nil, name)
	}
}

// B52: units of all attempts are counted, whether the call succeeds in the end or not.
func TestUnitsOfAllAttempts_B52(t *testing.T) {
	frames := []byte{0x12, 0, 3, 0x22, 0, 4}
	locked := func(c *call.Call) *kv.Error {
		p := &memd.Packet{Opcode: c.Req.Opcode, Status: memd.StatusLocked, Frames: frames}
		return c.StatusError(p, call.Classify(p.Opcode, p.Status, false))
	}
	for _, last := range []memd.Status{memd.StatusSuccess, memd.StatusLocked, memd.StatusKeyNotFound} {
		f := newFake(func(c *call.Call) {
			c.Share()
			_ = locked(c)
			_ = locked(c)
			give(c, &memd.Packet{Opcode: c.Req.Opcode, Status: last, Frames: frames, Extras: be32})
		})
		res, err := kv.Do(testContext(t), f, kv.GetOrNull{Key: []byte("k")})
		reads, writes := res.Units()
		if err != nil {
			reads, writes = kvError(t, err).Units()
		}
		require.EqualValues(t, 9, reads, last)
		require.EqualValues(t, 12, writes, last)
	}
}
