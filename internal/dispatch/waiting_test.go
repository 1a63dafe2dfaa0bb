package dispatch

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// testDoor is a door that the test opens and shuts.
type testDoor struct {
	open   bool
	cause  error
	passed []*call.Call
	away   map[*call.Call]error
}

func (d *testDoor) look() (bool, error)                          { return d.open, d.cause }
func (d *testDoor) pass(c *call.Call) *pipeline                  { d.passed = append(d.passed, c); return nil }
func (d *testDoor) turnAway(c *call.Call, _ uint64, cause error) { d.away[c] = cause }

// The client's own requests have as many places of their own as calls have, and a wait for a map is not one of them.
func TestARoomForTheClientsOwnRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := unconnected(t)
		d := &testDoor{away: map[*call.Call]error{}}
		w := &room{r: r, mu: &r.nodes.mu, door: d}
		enter := func(op memd.Opcode, s retry.Strategy) *call.Call {
			c := r.NewCall()
			c.Future(&call.Started{}, nil)
			c.Req.Opcode, c.Req.Key, c.Req.Own().Retry = op, []byte("k"), s
			if op != memd.OpGet {
				c.Req.Key = nil
			}
			require.NoError(t, c.Prepare(t.Context()))
			r.admit(c, r.now())
			w.enter(c, call.StageConfig, 2, 0)
			return c
		}
		first := enter(memd.OpNoop, call.Strict)
		for _, op := range []memd.Opcode{memd.OpGet, memd.OpNoop, memd.OpGet} {
			require.NotContains(t, d.away, enter(op, call.Strict))
		}
		require.ErrorIs(t, d.away[enter(memd.OpNoop, call.Strict)], errQueueFull)
		require.ErrorIs(t, d.away[enter(memd.OpNoop, nil)], errQueueFull, "of the program")
		require.ErrorIs(t, d.away[enter(memd.OpGet, call.Strict)], errQueueFull, "of a hedged read")
		require.True(t, first.Cancel())
		time.Sleep(sweepApart)
		require.NotContains(t, d.away, enter(memd.OpNoop, call.Strict), "one has ended")
		require.Equal(t, 2, w.own)
		w.takeIf(func(c *call.Call) bool { return c.Req.Opcode == memd.OpNoop })
		require.Zero(t, w.own)
		require.Equal(t, 2, w.taken())
		for _, c := range w.take() {
			require.True(t, c.Cancel())
		}
		_ = r.Close(t.Context(), retry.ErrClosed)

		r = unconnected(t)
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := r.AwaitMap(ctx, call.MapWait{Retry: call.Strict})
			require.Error(t, err)
			cancel()
		}
		r.nodes.mu.Lock()
		require.Zero(t, r.first.own)
		r.nodes.mu.Unlock()
		_ = r.Close(t.Context(), retry.ErrClosed)
	})
}

// A call enters and leaves as the door says, and in order. A full room refuses, but not for the sake of calls that have
// ended; a closed one ends its calls.
func TestARoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := unconnected(t)
		d := &testDoor{away: map[*call.Call]error{}}
		w := &room{r: r, mu: &r.nodes.mu, door: d}
		enter := func() *call.Call {
			c := r.NewCall()
			c.Future(&call.Started{}, nil)
			c.Req.Opcode, c.Req.Key = memd.OpGet, []byte("k")
			require.NoError(t, c.Prepare(t.Context()))
			r.admit(c, r.now())
			w.enter(c, call.StageConfig, 2, 0)
			return c
		}
		a, b := enter(), enter()
		w.review()
		require.Empty(t, d.passed)
		require.ErrorIs(t, d.away[enter()], errQueueFull)
		require.True(t, a.Cancel())
		time.Sleep(sweepApart)
		c := enter()
		require.NotContains(t, d.away, c, "the place of one that has ended is free")
		d.open = true
		w.review()
		require.Equal(t, []*call.Call{b, c}, d.passed)
		require.Contains(t, append(d.passed, enter()), d.passed[2], "an open door")
		d.open, d.cause = false, errNoMap
		require.ErrorIs(t, d.away[enter()], errNoMap)
		d.cause = nil
		e := enter()
		d.cause = errNoSeeds
		w.review()
		require.ErrorIs(t, d.away[e], errNoSeeds)
		d.cause = nil
		e = enter()
		cause := errors.New("the test is over")
		w.close(cause)
		f := enter()
		for _, c := range []*call.Call{e, f} {
			<-c.Finished()
			require.ErrorIs(t, c.Outcome(), cause)
			require.ErrorIs(t, c.Outcome(), cberr.RequestCanceled)
		}
		for _, c := range []*call.Call{b, c} {
			require.True(t, c.Cancel())
		}
		require.Empty(t, w.calls)
		_ = r.Close(t.Context(), retry.ErrClosed)
	})
}
