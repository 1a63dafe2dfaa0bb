package kv_test

import (
	"context"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// A call that is used again shows nothing of its earlier use, whatever that was.
func TestAReusedCallIsAsNew(t *testing.T) {
	token := make([]byte, 16)
	frames, err := memd.AppendFrame(nil, memd.FrameServerDuration, []byte{1, 2})
	require.NoError(t, err)
	units, err := memd.AppendFrame(nil, memd.FrameReadUnits, []byte{0, 3})
	require.NoError(t, err)
	d := newFake(func(c *call.Call) {
		c.Route = call.Route{Hash: 1, CollectionID: 2, Opaque: 3, Map: 4, VBucket: 5, Prefixed: true, Reads: 6}
		c.SetVia(&call.Via{Endpoint: "e", Local: "l"})
		if c.Req.Opcode == memd.OpAppend { // only a call that others have seen has that
			c.Lend()
			c.Slow().LostRaces, c.Slow().ForwardRev = 7, 8
		}
		c.ObserveAttempts(outcomes(func(error) {}))
		c.State.Deadline = time.Time{} // of this fake dispatcher alone: others leave it to Describe
		if c.Req.Opcode == memd.OpGet {
			c.SetStrategy(retry.BestEffort{}) // as a policy does, also for a request that names none
		}
		if c.Req.Durability != 0 {
			c.Req.Own().DurabilityMS = 7
		}
		if string(c.Req.Key) == "missing" {
			c.Lend()
			p := memd.Packet{
				Opcode: c.Req.Opcode, Status: memd.StatusKeyNotFound, Value: []byte("{}"),
				Datatype: memd.DatatypeJSON, Frames: units,
			}
			c.Refuse(c.StatusError(&p, call.Classify(p.Opcode, p.Status, false)))
			return
		}
		p := memd.Packet{
			Opcode: c.Req.Opcode, CAS: 9, Extras: be32, Value: []byte("v"), Datatype: memd.DatatypeJSON,
			Frames: frames,
		}
		switch c.Req.Opcode {
		case memd.OpSet, memd.OpAppend:
			p.Extras = token
		case memd.OpGetMeta:
			p.Extras, p.Key = make([]byte, 21), []byte("k")
		default:
		}
		require.True(t, c.Succeed(&p, false))
	})
	all := kv.Common{
		Scope: "s", Collection: "c", CollectionID: 8, OnBehalfOf: "jane", Timeout: time.Second,
		Block: true, Retry: retry.BestEffort{},
	}
	some := kv.Common{Timeout: time.Second, Block: true, Retry: retry.BestEffort{}}
	key, value, into := []byte("k"), []byte("v"), make([]byte, 0, 8)
	hedge := &kv.Hedge{MaxAttempts: 1}
	for name, use := range map[string]func(t *testing.T, d kv.Dispatcher){
		"get":       with(kv.Get{Key: key, Into: into}),
		"plain get": with(kv.Get{Common: some, Key: key, KeepCompressed: true, Hedge: hedge}),
		"get, all":  with(kv.Get{Common: all, Key: key, KeepCompressed: true, Hedge: hedge}),
		"upsert":    with(kv.Upsert{Key: key, Value: value}),
		"plain set": with(kv.Upsert{
			Common: some, Key: key, Value: value, CAS: 1, Flags: 2,
			Datatype: memd.DatatypeJSON, Expiry: kv.ExpireAfter(time.Minute),
		}),
		"durable": with(kv.Upsert{
			Key: key, Value: value, Durability: memd.DurabilityMajority,
			PreserveExpiry: true,
		}),
		"compressed": with(kv.Upsert{Key: key, Value: make([]byte, 1000)}),
		"append":     with(kv.Append{Common: some, Key: key, Value: value, CAS: 3}),
		"exists":     with(kv.Exists{Common: all, Key: key}),
		"absent":     with(kv.Exists{Common: all, Key: []byte("missing")}),
		"or null":    with(kv.GetOrNull{Key: []byte("missing")}),
		"refused": func(t *testing.T, d kv.Dispatcher) {
			t.Helper()
			_, err := kv.Do(t.Context(), d, kv.Get{Key: []byte("missing")})
			require.ErrorIs(t, err, cberr.DocumentNotFound)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &reusing{fake: d}
			use(t, r)
			require.NotNil(t, r.call)
			require.True(t, r.call.Pooled())
			if name == "compressed" {
				require.True(t, isPacked(r.call))
			}
			r.call.Reset()
			require.Empty(t, leftovers(r.call))
		})
	}
}

// Who ends a call for another reason than an answer may still look at it, and so may others whom it has told.
func TestACallThatFailsOtherwiseIsNotUsedAgain(t *testing.T) {
	for refused, end := range map[bool]func(*call.Call){
		true:  func(c *call.Call) { c.Refuse(cberr.DocumentNotFound) },
		false: func(c *call.Call) { require.True(t, c.Fail(cberr.DocumentNotFound)) },
	} {
		r := &reusing{fake: newFake(end)}
		_, err := kv.Do(t.Context(), r, kv.Get{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Equal(t, refused, r.call.Pooled())
	}
}

// reusing keeps its last call and makes it pack its value.
type reusing struct {
	*fake
	call *call.Call
}

// Runner implements kv.Dispatcher.
func (x *reusing) Runner() call.Runner { return x }

func (r *reusing) Dispatch(c *call.Call) {
	r.call = c
	c.Pack(&call.Packer{})
	r.fake.Dispatch(c)
}

func with[R any, O kv.Op[R]](op O) func(t *testing.T, d kv.Dispatcher) {
	return func(t *testing.T, d kv.Dispatcher) {
		_, err := kv.Do[R](context.Background(), d, op)
		require.NoError(t, err)
	}
}

// Operations and results are passed by value through the stack of every goroutine that waits.
func TestOperationsAndResultsStaySmall(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("the sizes are those of 64-bit machines")
	}
	for _, c := range []struct {
		v    any
		most uintptr
	}{{kv.Get{}, 168}, {kv.GetResult{}, 72}, {kv.Upsert{}, 160}, {kv.MutationResult{}, 80}} {
		require.LessOrEqual(t, reflect.TypeOf(c.v).Size(), c.most, "%T", c.v)
	}
}

// A call in flight takes at most what docs/performance.md says.
func TestACallStaysSmall(t *testing.T) {
	if strconv.IntSize < 64 {
		t.Skip("the size is that of 64-bit machines")
	}
	require.LessOrEqual(t, reflect.TypeFor[call.Call]().Size(), uintptr(568), "with an allocation's header 576 bytes")
}
