package field_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// givingUp is an observer that does f when a call is given up, and counts how many do so at the same time.
type givingUp struct {
	f    func()
	now  atomic.Int64
	most atomic.Int64
}

func (g *givingUp) Attempt(retry.AttemptInfo)                         {}
func (g *givingUp) Retry(*retry.Request, retry.Reason, time.Duration) {}

func (g *givingUp) GaveUp(*retry.Request, retry.Reason, error) {
	n := g.now.Add(1)
	for m := g.most.Load(); n > m && !g.most.CompareAndSwap(m, n); m = g.most.Load() {
	}
	g.f()
	g.now.Add(-1)
}

// waitingCalls begins calls whose first attempt fails, and whose node cannot be connected to any more then: they wait
// for it until their deadlines, the first of which is in a second.
func waitingCalls(t *testing.T, o retry.Observer, calls int, apart time.Duration) (all []kv.Future[kv.GetResult]) {
	t.Helper()
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
	b := openMock(t, m, func(c *core.Config) { c.Observe.Retry = o })
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
	for i := range calls {
		all = append(all, kv.Start(context.Background(), b, kv.Get{Key: []byte("k"), Common: kv.Common{
			Timeout: time.Second + time.Duration(i)*apart,
			Retry:   retry.BestEffort{Backoff: retry.Constant(20 * time.Millisecond)},
		}}))
	}
	time.Sleep(10 * time.Millisecond)
	m.Network().Silence(m.Node(0).Addr())
	m.Network().ResetAll()
	return all
}

// TestCallsThatWaitEndInOneLine_D264: each deadline of a call that waited had a goroutine of its own that ended the
// call. Where many calls waited and the processor was short, those were thousands that stood in line for one lock, once
// for each step of an end. Calls ended long after their deadlines for it, and the line went on for minutes.
func TestCallsThatWaitEndInOneLine_D264(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &givingUp{f: func() { time.Sleep(50 * time.Microsecond) }}
		for _, p := range waitingCalls(t, o, 2_000, 10*time.Microsecond) {
			_, err := p.Wait(t.Context())
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		require.LessOrEqual(t, o.most.Load(), int64(4))
	})
}

// An observer that blocks, which it must not do, holds up calls whose deadlines pass at the same time, not later ones,
// however often it does so.
func TestAnObserverThatBlocksDelaysNoLaterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stuck, apart = 10, 20 * time.Millisecond
		release := make(chan struct{})
		free := sync.OnceFunc(func() { close(release) })
		defer free()
		var seen atomic.Int64
		o := &givingUp{f: func() {
			if seen.Add(1) <= stuck {
				<-release
			}
		}}
		first := time.Now().Add(time.Second)
		all := waitingCalls(t, o, 50, apart)
		for i, p := range all[stuck:] {
			_, err := p.Wait(t.Context())
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.LessOrEqual(t, time.Since(first), time.Duration(stuck+i)*apart+10*time.Millisecond)
		}
		free()
		for _, p := range all[:stuck] {
			_, err := p.Wait(t.Context())
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
	})
}

// leavingBudget ends the goroutine that settles with it, and that asks it if it is to.
type leavingBudget struct{ asked bool }

func (b leavingBudget) Take(retry.Kind) (int32, bool) {
	if b.asked {
		runtime.Goexit()
	}
	return 1, true
}

func (leavingBudget) Settle(int32, bool) { runtime.Goexit() }

// A budget that ended its goroutine took the ends of other calls with it: those whose deadlines passed at the same time
// never ended.
func TestABudgetThatEndsItsGoroutineEndsNoOther_D265(t *testing.T) {
	for _, asked := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
			b := openMock(t, m)
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
			strategy := &oddStrategy{func() bool { return true }, func() retry.Action {
				return retry.After(300 * time.Millisecond).Charged(leavingBudget{asked})
			}}
			var all []kv.Future[kv.GetResult]
			for range 20 {
				all = append(all, kv.Start(context.Background(), b, kv.Get{Key: []byte("k"), Common: kv.Common{
					Timeout: time.Second, Retry: strategy,
				}}))
			}
			began := time.Now()
			for _, p := range all {
				_, err := p.Wait(within(t, 10*time.Second))
				if asked {
					require.ErrorIs(t, err, retry.ErrThrottled)
				} else {
					require.ErrorIs(t, err, cberr.UnambiguousTimeout)
				}
			}
			require.LessOrEqual(t, time.Since(began), time.Second)
		})
	}
}
