package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// strict fails everything that a strategy is asked about.
type strict struct{ asked int }

func (*strict) Inline() bool { return true }
func (s *strict) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	s.asked++
	return retry.Stop()
}

// since gives the times that an operation was sent at, the first included.
func since(start time.Time, x *op) []time.Duration {
	ds := []time.Duration{0}
	for _, at := range x.sent() {
		ds = append(ds, at.Sub(start))
	}
	return ds
}

// TestAlwaysReasonsAreRetriedUntilTheDeadline proves CB-6, CB-41, CB-45, CB-47 and I4.
func TestAlwaysReasonsAreRetriedUntilTheDeadline(t *testing.T) {
	for _, why := range []retry.Reason{retry.KVNotMyVBucket, retry.KVCollectionOutdated, retry.ViewsNoActivePartition} {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			s := &strict{}
			orc := retry.New(retry.Options{Default: s})
			x := newOp(false, 2500*ms)
			x.dispatch = func() { x.answer(orc, why, retry.Hint{}) }
			x.answer(orc, why, retry.Hint{})
			pass(time.Minute)
			require.Equal(t, inMS(0, 1, 11, 61, 161, 661, 1661), since(start, x))
			require.Zero(t, s.asked)
			require.Equal(t, 1, x.ended())
			require.Equal(t, start.Add(2500*ms), x.end)
			require.ErrorIs(t, x.err, retry.ErrTimeout)
			require.ErrorIs(t, x.err, context.DeadlineExceeded)
			require.ErrorIs(t, x.err, errCause)
			require.False(t, x.inDoubt)
		})
	}
}

// TestDelayIsCappedToTheDeadline proves CB-46 and CB-47 with the RFC's example: 2 s in, 1 s wanted, 2.5 s in all.
func TestDelayIsCappedToTheDeadline(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		var decided []time.Duration
		orc := retry.New(retry.Options{
			Default: retry.BestEffort{Backoff: retry.Constant(time.Second)},
			Observer: hooks{retry: func(_ *retry.Request, _ retry.Reason, d time.Duration) {
				decided = append(decided,
					d)
			}},
		})
		x := newOp(false, 2500*ms)
		pass(2 * time.Second)
		x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		pass(499 * ms)
		require.Zero(t, x.ended())
		pass(ms)
		require.Equal(t, inMS(500), decided)
		require.Equal(t, 1, x.ended())
		require.Equal(t, 2500*ms, x.end.Sub(start))
		require.Empty(t, x.sent())
		require.ErrorIs(t, x.err, retry.ErrTimeout)
		require.Zero(t, x.st.Info().Retries(), "a capped delay sends nothing")
		require.Equal(t, 500*ms, x.st.Info().Waited)
	})
}

func TestDeadlineThatHasPassedEndsAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		for _, why := range []retry.Reason{retry.KVNotMyVBucket, retry.KVLocked} {
			x := newOp(false, ms)
			pass(ms)
			x.answer(orc, why, retry.Hint{})
			require.Equal(t, 1, x.ended())
			require.ErrorIs(t, x.err, retry.ErrTimeout)
			require.ErrorIs(t, x.err, errCause)
		}
	})
}

// TestStages proves CB-1: the stage that the failed attempt had reached is known, and with it CB-2 and CB-3.
func TestStages(t *testing.T) {
	for _, c := range []struct {
		name       string
		idempotent bool
		fail       func(orc *retry.Orchestrator, x *op)
		stage      retry.Stage
		reason     retry.Reason
		retried    bool
		inDoubt    bool
	}{
		{"not sent", false, func(orc *retry.Orchestrator, x *op) {
			x.notSent(orc, retry.SocketNotAvailable)
		}, retry.StageDispatch, retry.SocketNotAvailable, true, false},
		{"lost get", true, func(orc *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			orc.ConnLost(x, e, errCause)
		}, retry.StageNetwork, retry.SocketClosedWhileInFlight, true, false},
		{"lost upsert", false, func(orc *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			orc.ConnLost(x, e, errCause)
		}, retry.StageNetwork, retry.SocketClosedWhileInFlight, false, true},
		{"proved unsent", false, func(orc *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			x.st.Unsent(e)
			x.notSent(orc, retry.WriteFailed)
		}, retry.StageDispatch, retry.WriteFailed, true, false},
		{"answered", false, func(orc *retry.Orchestrator, x *op) {
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		}, retry.StageResponse, retry.KVTemporaryFailure, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				orc := retry.New(retry.Options{})
				x := newOp(c.idempotent, time.Second)
				c.fail(orc, x)
				info := x.st.Info()
				require.Equal(t, c.stage, info.Stage)
				require.Equal(t, c.reason, info.Reason)
				require.True(t, info.Reasons.Has(c.reason))
				pass(10 * ms)
				require.Equal(t, c.retried, len(x.sent()) == 1)
				require.Equal(t, c.retried, x.ended() == 0)
				require.Equal(t, c.inDoubt, x.inDoubt)
				if !c.retried {
					var e *retry.Error
					require.ErrorAs(t, x.err, &e)
					require.True(t, e.InDoubt)
					require.Equal(t, "get", e.Operation)
					require.ErrorIs(t, e, errCause)
				}
				orc.Cancel(x, nil)
			})
		})
	}
}

// TestEndsInEveryPhase checks who is in doubt when Cancel or Expire ends an operation. Proves I7.
func TestEndsInEveryPhase(t *testing.T) {
	phases := map[retry.Phase]func(orc *retry.Orchestrator, x *op){
		retry.PhaseLocal:    func(*retry.Orchestrator, *op) {},
		retry.PhaseWire:     func(_ *retry.Orchestrator, x *op) { x.st.Sent() },
		retry.PhaseDeciding: func(_ *retry.Orchestrator, x *op) { x.st.NotSent() },
		retry.PhaseParked:   func(orc *retry.Orchestrator, x *op) { x.answer(orc, retry.KVLocked, retry.Hint{}) },
	}
	for phase, enter := range phases {
		for _, idempotent := range []bool{false, true} {
			for _, expire := range []bool{false, true} {
				bubble(t, func(t *testing.T) {
					orc := retry.New(retry.Options{})
					x := newOp(idempotent, time.Second)
					enter(orc, x)
					require.Equal(t, phase, x.st.Phase())
					why, want := errors.New("the caller left"), retry.ErrCanceled
					var ended bool
					if expire {
						want = retry.ErrTimeout
						ended = orc.Expire(x)
					} else {
						ended = orc.Cancel(x, why)
						require.ErrorIs(t, x.err, why)
					}
					require.True(t, ended)
					require.False(t, orc.Cancel(x, why), "ended twice")
					require.False(t, orc.Expire(x), "ended twice")
					require.Equal(t, 1, x.ended())
					require.ErrorIs(t, x.err, want)
					require.Equal(t, !idempotent && phase == retry.PhaseWire, x.inDoubt)
					require.Equal(t, phase == retry.PhaseParked, errors.Is(x.err, errCause), "the last attempt's error")
					require.Equal(t, retry.PhaseDone, x.st.Phase())
					require.Zero(t, orc.Stats().Parked)
					_, sent := x.st.Sent()
					require.False(t, sent, "I3")
				})
			}
		}
	}
}

// TestManyOperationsExpireTogether_D264: operations that share turns in the lock end as each of them would alone, in
// order, whatever their phases are, and one that has ended before is left alone.
func TestManyOperationsExpireTogether_D264(t *testing.T) {
	bubble(t, func(t *testing.T) {
		const each = 50
		orc := retry.New(retry.Options{})
		var all []*op
		var ops []retry.Op
		var order []int
		for i := range 4 * each {
			x := newOp(i%8 < 4, time.Second)
			x.finished = func() { order = append(order, i) }
			switch i % 4 {
			case 0:
				x.st.Sent()
			case 1:
				x.st.NotSent()
			case 2:
				x.answer(orc, retry.KVLocked, retry.Hint{})
			}
			all, ops = append(all, x), append(ops, x)
		}
		require.True(t, orc.Cancel(all[7], nil))
		require.Equal(t, each, orc.Stats().Parked)
		order = nil
		orc.ExpireAll(append(ops, all[0]))
		require.Len(t, order, 4*each-1)
		require.IsIncreasing(t, order)
		require.ErrorIs(t, all[7].err, retry.ErrCanceled)
		for i, x := range all {
			require.Equal(t, 1, x.ended())
			require.Equal(t, retry.PhaseDone, x.st.Phase())
			require.Equal(t, i%8 >= 4 && i%4 == 0, x.inDoubt)
			require.Equal(t, i%4 == 2, errors.Is(x.err, errCause))
			require.Equal(t, i != 7, errors.Is(x.err, retry.ErrTimeout))
		}
		require.Zero(t, orc.Stats().Parked)
		gets := orc.Stats().Operations[retry.OperationKey{Service: retry.KV, Operation: "get"}]
		require.Equal(t, uint64(each/2), gets.InDoubt)
	})
}

// Operations that expire together are claimed a turn at a time: while the program is held up by one of them, those of
// later turns can still be cancelled.
func TestWhatExpiresTogetherIsClaimedATurnAtATime(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		release := make(chan struct{})
		var ops []retry.Op
		for range 100 {
			ops = append(ops, newOp(true, time.Second))
		}
		ops[0].(*op).finished = func() { <-release }
		go orc.ExpireAll(ops)
		synctest.Wait()
		canceled := orc.Cancel(ops[99], nil)
		close(release)
		synctest.Wait()
		require.True(t, canceled)
		for _, x := range ops {
			require.Equal(t, 1, x.(*op).ended())
		}
	})
}

// TestMovedIsReroutedAtOnceOnce proves D2 and GA6-43.
func TestMovedIsReroutedAtOnceOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		orc := retry.New(retry.Options{})
		x := newOp(false, time.Second)
		x.dispatch = func() {
			if len(x.sent()) < 4 {
				x.answer(orc, retry.KVNotMyVBucket, retry.Hint{Moved: true})
			}
		}
		x.answer(orc, retry.KVNotMyVBucket, retry.Hint{Moved: true})
		pass(100 * ms)
		require.Equal(t, inMS(0, 0, 1, 11, 61), since(start, x))
		require.Equal(t, 4, x.st.Info().Transparent)
		require.Zero(t, x.st.Info().Counted)
		orc.Cancel(x, nil)
	})
}

// TestWhatAStrategySees proves CB-13, CB-14, CB-15, CB-18, GA6-29 and GA6-44.
func TestWhatAStrategySees(t *testing.T) {
	type robotKey struct{}
	bubble(t, func(t *testing.T) {
		start := time.Now()
		var seen []retry.Request
		orc := retry.New(retry.Options{JitterSource: random(0.25), Default: inlineFunc(
			func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
				seen = append(seen, *r)
				if d, ok := r.Pushback.After(); ok {
					return retry.After(d)
				}
				return retry.After(10 * ms)
			})})
		x := newOp(true, time.Minute)
		x.ctx = context.WithValue(t.Context(), robotKey{}, "yes")
		script := []struct {
			why  retry.Reason
			hint retry.Hint
		}{
			{retry.KVTemporaryFailure, retry.Hint{Code: 0x86}},
			{retry.KVErrorMapRetryIndicated, retry.Hint{Overload: true}},
			{retry.SocketNotAvailable, retry.Hint{}},
			{retry.KVLocked, retry.Hint{Pushback: retry.PushbackAfter(time.Second)}},
			{retry.KVLocked, retry.Hint{}},
			{retry.KVLocked, retry.Hint{}},
		}
		step := 0
		x.dispatch = func() {
			if step < len(script) {
				s := script[step]
				step++
				x.answer(orc, s.why, s.hint)
			}
		}
		x.dispatch()
		pass(5 * time.Second)
		orc.Cancel(x, nil)
		require.Len(t, seen, len(script))
		var attempts, transparent, steps []int
		var waited, last []time.Duration
		for _, r := range seen {
			attempts, transparent = append(attempts, r.Counted), append(transparent, r.Transparent)
			steps, waited, last = append(steps, r.BackoffStep), append(waited, r.Waited), append(last, r.LastDelay)
			require.Equal(t, "yes", r.Context.Value(robotKey{}))
			require.Equal(t, start, r.Started)
			require.Equal(t, x.st.Deadline, r.Deadline)
			require.True(t, r.Idempotent)
			require.Equal(t, retry.KV, r.Service)
			require.InDelta(t, 0.25, r.JitterSource(), 0)
			require.Equal(t, errCause, r.Err)
		}
		require.Equal(t, []int{0, 1, 2, 2, 3, 4}, attempts)
		require.Equal(t, []int{0, 0, 0, 1, 1, 1}, transparent)
		require.Equal(t, []int{0, 1, 2, 3, 0, 1}, steps, "a pushback restarts the backoff")
		require.Equal(t, inMS(0, 10, 20, 30, 1030, 1040), waited)
		require.Equal(t, inMS(0, 10, 10, 10, 1000, 10), last)
		require.Equal(t, uint32(0x86), seen[0].Code)
		require.Equal(t, retry.Throttling, seen[1].Kind)
		require.Equal(t, retry.ClientSide, seen[2].Kind)
		require.Zero(t, seen[0].Reasons)
		require.Equal(t, retry.Reasons(0).With(retry.KVTemporaryFailure), seen[1].Reasons)
		require.Equal(t, seen[1].Reasons.With(retry.KVErrorMapRetryIndicated), seen[2].Reasons)
	})
}

// inlineFunc is a function that is an inline strategy.
type inlineFunc func(context.Context, *retry.Request, retry.Reason) retry.Action

func (inlineFunc) Inline() bool { return true }
func (f inlineFunc) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	return f(ctx, r, why)
}

// TestOperationOverridesTheDefault proves CB-12 and the part of CB-9 that is this package's.
func TestOperationOverridesTheDefault(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := &strict{}
		orc := retry.New(retry.Options{Default: retry.BestEffort{}})
		x := newOp(true, time.Second)
		x.st.Strategy = s
		x.answer(orc, retry.KVLocked, retry.Hint{})
		require.Equal(t, 1, s.asked)
		require.Equal(t, 1, x.ended())
		require.ErrorIs(t, x.err, errCause)
		require.NotErrorIs(t, x.err, retry.ErrTimeout)
	})
}

// TestInfoOfASuccess is zero unless something failed.
func TestInfoOfASuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(7 * ms)}})
		x, y := newOp(true, time.Second), newOp(true, time.Second)
		x.answer(orc, retry.KVLocked, retry.Hint{})
		pass(7 * ms) // CB-22
		for _, o := range []*op{x, y} {
			e, ok := o.st.Sent()
			require.True(t, ok)
			pass(3 * ms)
			require.True(t, o.st.Answered(e))
			won, ambiguous := o.st.Finish()
			require.True(t, won)
			require.False(t, ambiguous)
			o.st.Settle(nil)
		}
		require.Equal(t, retry.Info{}, y.st.Info())
		info := x.st.Info()
		require.Equal(t, retry.Info{
			Stage: retry.StageResponse, Reason: retry.KVLocked, Reasons: info.Reasons.With(retry.KVLocked), Counted: 1,
			Elapsed: 10 * ms, Waited: 7 * ms,
			Log: []retry.Attempt{{Reason: retry.KVLocked, Endpoint: "10.0.0.1:11210", Delay: 7 * ms}},
		}, info)
		info.Log[0].Delay = 0
		require.Equal(t, 7*ms, x.st.Info().Log[0].Delay, "the log is a copy")
	})
}

func TestLogKeepsBothEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(ms)}})
		x := newOp(true, time.Second)
		n := 0
		x.dispatch = func() {
			if n++; n <= 20 {
				x.answer(orc, retry.KVLocked, retry.Hint{})
			}
		}
		x.dispatch()
		pass(100 * ms)
		var at []time.Duration
		for _, a := range x.st.Info().Log {
			at = append(at, a.At)
			require.Equal(t, ms, a.Delay)
		}
		require.Equal(t, inMS(0, 1, 2, 3, 16, 17, 18, 19), at)
		orc.Cancel(x, nil)
	})
}

// TestResetForgets checks what a pooled operation keeps: its attempts' numbers, and nothing else.
func TestResetForgets(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		x := newOp(true, time.Second)
		x.st.Strategy = retry.BestEffort{}
		x.answer(orc, retry.KVLocked, retry.Hint{})
		require.False(t, x.st.Reset(), "parked")
		orc.Cancel(x, nil)
		before := x.st.Epoch()
		require.True(t, x.st.Reset())
		require.Equal(t, retry.PhaseLocal, x.st.Phase())
		require.Greater(t, x.st.Epoch(), before)
		require.Equal(t, retry.Info{}, x.st.Info())
		require.Zero(t, x.st.Deadline)
		require.Nil(t, x.st.Strategy)
		require.False(t, x.st.Idempotent)
		e, ok := x.st.Sent()
		require.True(t, ok)
		require.Greater(t, e, before)
		require.False(t, x.st.Answered(before), "an event of the earlier use")
		require.False(t, x.st.Reset(), "on the wire")
		synctest.Wait()
	})
}

// TestEpochWraps lets the attempts' numbers run over.
func TestEpochWraps(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Second)
		retry.SetEpoch(&x.st, 1<<29-1)
		e, ok := x.st.Sent()
		require.True(t, ok)
		require.Zero(t, e)
		require.Equal(t, retry.PhaseWire, x.st.Phase())
		require.True(t, x.st.Answered(e))
		require.Equal(t, retry.PhaseDeciding, x.st.Phase())
	})
}
