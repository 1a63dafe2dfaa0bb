package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// The tests of this file are named after the defects of other clients that this package's design excludes. Others are
// in the packages where the defect would be.

// TestStrategyIsAskedWhileANodeIsDown_D67: not to be able to send is a reason like any other, for writes too, and the
// error names it.
func TestStrategyIsAskedWhileANodeIsDown_D67(t *testing.T) {
	for _, why := range []retry.Reason{
		retry.SocketNotAvailable, retry.NodeNotAvailable, retry.ServiceNotAvailable, retry.CircuitBreakerOpen,
		retry.EndpointNotWritable, retry.BucketNotReady, retry.AuthenticationError,
	} {
		bubble(t, func(t *testing.T) {
			var asked []retry.Reason
			orc := retry.New(retry.Options{Default: inlineFunc(
				func(_ context.Context, _ *retry.Request, why retry.Reason) retry.Action {
					if asked = append(asked, why); len(asked) == 3 {
						return retry.Stop()
					}
					return retry.After(ms)
				})})
			x := newOp(false, time.Second)
			x.dispatch = func() { x.notSent(orc, why) }
			x.dispatch()
			pass(time.Second)
			require.Equal(t, []retry.Reason{why, why, why}, asked)
			info, ok := retry.InfoOf(x.err)
			require.True(t, ok)
			require.True(t, info.Reasons.Has(why))
			require.Equal(t, 2, info.Retries())
		})
	}
}

// TestAFailedLookupIsTheStrategysToJudge_D68: a missing scope or collection is not retried without being asked for.
func TestAFailedLookupIsTheStrategysToJudge_D68(t *testing.T) {
	for _, why := range []retry.Reason{retry.ScopeNotFound, retry.CollectionNotFound} {
		require.False(t, why.AlwaysRetry(), why)
		bubble(t, func(t *testing.T) {
			start := time.Now()
			orc := retry.New(retry.Options{})
			quick, patient := newOp(false, time.Second), newOp(false, time.Second)
			patient.st.Strategy = retry.BestEffort{}
			quick.notSent(orc, why)
			require.Equal(t, 1, quick.ended())
			require.ErrorIs(t, quick.err, retry.ErrTerminal)
			patient.notSent(orc, why)
			pass(ms)
			require.Len(t, patient.sent(), 1)
			require.Equal(t, ms, time.Since(start))
			orc.Cancel(patient, nil)
		})
	}
}

// TestARecklessStrategyDoesNotSpin_D74: a strategy that says "at once" for ever, where nothing takes time, is slowed
// down, and the deadline and the caller end it.
func TestARecklessStrategyDoesNotSpin_D74(t *testing.T) {
	for _, cancel := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			orc := retry.New(retry.Options{Default: after{retry.After(0)}})
			x := newOp(true, time.Second)
			x.dispatch = func() { x.notSent(orc, retry.NodeNotAvailable) }
			x.dispatch()
			end := time.Second
			if cancel {
				end = 100 * ms
				pass(end)
				require.True(t, orc.Cancel(x, nil))
			}
			pass(time.Minute)
			require.Equal(t, end, x.end.Sub(start))
			require.LessOrEqual(t, len(x.sent()), int(end/ms)+1)
			require.Equal(t, 1, x.ended())
		})
	}
}

// TestALossIsJudgedByItsPhase_D75: whatever error a lost connection brings, what was on the wire is lost, and what was
// not was not sent.
func TestALossIsJudgedByItsPhase_D75(t *testing.T) {
	for _, cause := range []error{
		io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, errors.New("tls: bad record MAC"),
		context.DeadlineExceeded, nil,
	} {
		bubble(t, func(t *testing.T) {
			orc := retry.New(retry.Options{})
			get, set, unsent := newOp(true, time.Second), newOp(false, time.Second), newOp(false, time.Second)
			for _, x := range []*op{get, set} {
				e, ok := x.st.Sent()
				require.True(t, ok)
				orc.ConnLost(x, e, cause)
			}
			require.Zero(t, get.ended())
			require.Equal(t, retry.SocketClosedWhileInFlight, get.st.Info().Reason)
			require.True(t, set.inDoubt)
			if cause != nil {
				require.ErrorIs(t, set.err, cause)
			}
			require.NotErrorIs(t, set.err, retry.ErrTimeout)
			require.True(t, unsent.st.NotSent())
			orc.MaybeRetry(unsent, retry.SocketNotAvailable, cause, retry.Hint{})
			require.Zero(t, unsent.ended())
			orc.Close(nil)
		})
	}
}

// TestFailFastFollowsTheData_D76: what a server sent elsewhere follows, even under a strategy that never retries.
func TestFailFastFollowsTheData_D76(t *testing.T) {
	for _, why := range []retry.Reason{retry.KVNotMyVBucket, retry.KVCollectionOutdated} {
		bubble(t, func(t *testing.T) {
			s := &strict{}
			orc := retry.New(retry.Options{Default: s})
			x := newOp(false, time.Second)
			x.answer(orc, why, retry.Hint{})
			pass(ms)
			require.Len(t, x.sent(), 1)
			require.Zero(t, s.asked)
			orc.Cancel(x, nil)
		})
	}
}

// TestBusyServersAreWaitedFor_D77: the default strategy retries every reason that says "later".
func TestBusyServersAreWaitedFor_D77(t *testing.T) {
	for why := range retry.All() {
		if why == retry.Unknown || why.Terminal() || why == retry.SocketClosedWhileInFlight ||
			why == retry.QueryErrorRetryable {
			continue // or only of requests that change nothing
		}
		_, again := retry.FastFailOnTerminalError{}.RetryAfter(t.Context(), request(false, 0), why).Delay()
		require.True(t, again, why)
	}
}

// TestAtOnceIsNoRefusal_D81: "at once" and "no" are different answers, and a strategy can be asked without a client.
func TestAtOnceIsNoRefusal_D81(t *testing.T) {
	d, again := retry.After(0).Delay()
	require.True(t, again)
	require.Zero(t, d)
	_, again = retry.Stop().Delay()
	require.False(t, again)
	bubble(t, func(t *testing.T) {
		start := time.Now()
		orc := retry.New(retry.Options{Default: after{retry.After(0)}})
		x := newOp(true, time.Second)
		x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		synctest.Wait()
		require.Equal(t, inMS(0, 0), since(start, x))
		orc.Cancel(x, nil)
	})
}

// TestNothingOutlivesTheDeadline_D82: a delay is cut off there, nothing is sent then, and an operation that has ended
// is not sent either. No timer stays.
func TestNothingOutlivesTheDeadline_D82(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		orc := retry.New(retry.Options{Default: after{retry.After(time.Hour)}})
		late, finished := newOp(true, time.Second), newOp(true, 2*time.Hour)
		for _, x := range []*op{late, finished} {
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		}
		won, _ := finished.st.Finish() // another goroutine ends it, for example with an answer that came late
		require.True(t, won)
		require.Equal(t, 1, orc.Stats().Parked)
		pass(3 * time.Hour)
		require.Equal(t, time.Second, late.end.Sub(start))
		require.Empty(t, late.sent())
		require.Empty(t, finished.sent())
		require.Zero(t, finished.ended())
		require.Zero(t, orc.Stats().Parked)
		require.False(t, retry.Armed(orc))
		for _, end := range []func(*op) bool{
			func(x *op) bool { won, _ := x.st.Finish(); return won },
			func(x *op) bool { return orc.Cancel(x, nil) },
		} {
			alone := newOp(true, time.Second)
			alone.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
			require.True(t, retry.Armed(orc))
			require.True(t, end(alone))
			require.False(t, retry.Armed(orc))
		}
	})
}

// TestACancelIsSeenWhileWaiting_D84: a parked operation ends when its caller does, and so does one whose strategy
// thinks.
func TestACancelIsSeenWhileWaiting_D84(t *testing.T) {
	for name, s := range map[string]retry.Strategy{
		"parked": after{retry.After(time.Minute)},
		"judged": retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
			<-ctx.Done()
			return retry.Stop()
		}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				start, why := time.Now(), errors.New("the caller left")
				orc := retry.New(retry.Options{Default: s})
				x := newOp(true, time.Hour)
				x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
				pass(30 * ms)
				require.True(t, orc.Cancel(x, why))
				synctest.Wait()
				require.Equal(t, 30*ms, x.end.Sub(start))
				require.ErrorIs(t, x.err, why)
				require.ErrorIs(t, x.err, retry.ErrCanceled)
				require.ErrorIs(t, x.err, errCause)
			})
		})
	}
}

// TestTheHistoryIsACopyInOrder_D85: it has every failure, redirects and repetitions too, in order, and belongs to its
// reader.
func TestTheHistoryIsACopyInOrder_D85(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: after{retry.After(ms)}})
		script := []retry.Reason{
			retry.KVNotMyVBucket, retry.KVTemporaryFailure, retry.KVNotMyVBucket, retry.KVLocked,
			retry.KVTemporaryFailure,
		}
		x := newOp(true, time.Minute)
		step := 0
		x.dispatch = func() {
			if step < len(script) {
				step++
				x.answer(orc, script[step-1], retry.Hint{Moved: step == 1})
			}
		}
		x.dispatch()
		pass(10 * time.Second)
		reasons := func(i retry.Info) (got []retry.Reason) {
			for _, a := range i.Log {
				got = append(got, a.Reason)
			}
			return got
		}
		info := x.st.Info()
		require.Equal(t, script, reasons(info))
		require.Equal(t,
			retry.Reasons(0).With(retry.KVNotMyVBucket).With(retry.KVTemporaryFailure).With(retry.KVLocked),
			info.Reasons)
		clear(info.Log)
		require.Equal(t, script, reasons(x.st.Info()))
		orc.Cancel(x, nil)
		last, _ := retry.InfoOf(x.err)
		require.Equal(t, script, reasons(last))
	})
}

// TestRefusalsAreReported_D86: an operation that is not retried is told to the observer, with the reason, whatever
// refused.
func TestRefusalsAreReported_D86(t *testing.T) {
	for _, c := range []struct {
		name       string
		why        retry.Reason
		idempotent bool
		options    retry.Options
	}{
		{"strategy", retry.KVLocked, true, retry.Options{Default: after{}}},
		{"unsafe", retry.SocketClosedWhileInFlight, false, retry.Options{}},
		{"unknown", retry.Unknown, true, retry.Options{}},
		{"terminal", retry.TLSError, false, retry.Options{}},
		{"switched off", retry.KVLocked, true, retry.Options{DisableRetries: true}},
		{"too big", retry.KVLocked, true, retry.Options{MaxOpBytes: 1}},
		{"too many", retry.KVLocked, true, retry.Options{MaxBytes: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				var told []retry.Reason
				var err error
				o := c.options
				o.Observer = hooks{gaveUp: func(_ *retry.Request, why retry.Reason, e error) {
					told,
						err = append(told, why), e
				}}
				x := newOp(c.idempotent, time.Second)
				x.size = 10
				x.answer(retry.New(o), c.why, retry.Hint{})
				require.Equal(t, []retry.Reason{c.why}, told)
				require.Equal(t, x.err, err)
				require.Equal(t, 1, x.ended())
			})
		})
	}
}

// TestOneOutcomeForOneCause_D87: who ended an operation is decided once: the caller, the deadline, or a failure, in
// whatever stage; an attempt's own timeout or cancel is a cause and no end. The cause is always reachable.
func TestOneOutcomeForOneCause_D87(t *testing.T) {
	inner := map[string]error{
		"failure": errCause, "inner deadline": fmt.Errorf("dial: %w", context.DeadlineExceeded),
		"inner cancel": fmt.Errorf("read: %w", context.Canceled),
	}
	stages := map[string]func(o *retry.Orchestrator, x *op, cause error){
		"not sent": func(o *retry.Orchestrator, x *op, cause error) {
			if x.st.NotSent() {
				o.MaybeRetry(x, retry.SocketNotAvailable, cause, retry.Hint{})
			}
		},
		"lost": func(o *retry.Orchestrator, x *op, cause error) {
			e, _ := x.st.Sent()
			o.ConnLost(x, e, cause)
		},
		"answered": func(o *retry.Orchestrator, x *op, cause error) {
			e, _ := x.st.Sent()
			if x.st.Answered(e) {
				o.MaybeRetry(x, retry.KVTemporaryFailure, cause, retry.Hint{})
			}
		},
	}
	leaves := errors.New("the caller left")
	for stage, fail := range stages {
		for name, cause := range inner {
			t.Run(stage+", "+name, func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(10 * ms)}})
					timedOut, canceled := newOp(true, 100*ms), newOp(true, time.Second)
					for _, x := range []*op{timedOut, canceled} {
						x.dispatch = func() { fail(orc, x, cause) }
						x.dispatch()
					}
					pass(55 * ms)
					require.Len(t, timedOut.sent(), 5, "an attempt's own end does not end the operation")
					orc.Cancel(canceled, leaves)
					pass(time.Second)
					require.ErrorIs(t, timedOut.err, retry.ErrTimeout)
					require.NotErrorIs(t, timedOut.err, retry.ErrCanceled)
					require.ErrorIs(t, canceled.err, retry.ErrCanceled)
					require.ErrorIs(t, canceled.err, leaves)
					require.NotErrorIs(t, canceled.err, retry.ErrTimeout)
					for _, x := range []*op{timedOut, canceled} {
						require.ErrorIs(t, x.err, cause)
						require.False(t, x.inDoubt)
					}
				})
			})
		}
	}
}

// TestThePhaseDecidesWhatIsInDoubt_D88 proves I7: a write is in doubt if and only if it was on the wire when it ended.
// What never left, and what a server has refused, is not.
func TestThePhaseDecidesWhatIsInDoubt_D88(t *testing.T) {
	for _, c := range []struct {
		name      string
		enter     func(o *retry.Orchestrator, x *op)
		ambiguous bool
	}{
		{"never sent", func(*retry.Orchestrator, *op) {}, false},
		{"no way to send", func(o *retry.Orchestrator, x *op) { x.notSent(o, retry.NodeNotAvailable) }, false},
		{"on the wire", func(_ *retry.Orchestrator, x *op) { x.st.Sent() }, true},
		{"proved unsent", func(_ *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			x.st.Unsent(e)
		}, false},
		{
			"refused, waiting", func(o *retry.Orchestrator, x *op) {
				x.answer(o, retry.KVTemporaryFailure,
					retry.Hint{})
			},
			false,
		},
		{"refused, on the wire again", func(o *retry.Orchestrator, x *op) {
			x.answer(o, retry.KVTemporaryFailure, retry.Hint{})
			pass(10 * ms)
			x.st.Sent()
		}, true},
		{"proved unsent after a refusal", func(o *retry.Orchestrator, x *op) {
			x.answer(o, retry.KVTemporaryFailure, retry.Hint{})
			pass(10 * ms)
			e, _ := x.st.Sent()
			x.st.Unsent(e)
		}, false},
	} {
		for _, idempotent := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, ", idempotent ", idempotent), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					orc := retry.New(retry.Options{Default: after{retry.After(10 * ms)}})
					x := newOp(idempotent, time.Second)
					c.enter(orc, x)
					require.True(t, orc.Expire(x))
					require.Equal(t, c.ambiguous && !idempotent, x.inDoubt)
					var e *retry.Error
					require.ErrorAs(t, x.err, &e)
					require.Equal(t, x.inDoubt, e.InDoubt)
				})
			})
		}
	}
}

// TestAShortWriteIsSentAgainOnProofOnly_D89: a write that failed is retried when it is proved that the frame did not
// leave whole, and is in doubt otherwise.
func TestAShortWriteIsSentAgainOnProofOnly_D89(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		proved, doubtful := newOp(false, time.Second), newOp(false, time.Second)
		e, _ := proved.st.Sent()
		require.True(t, proved.st.Unsent(e))
		proved.notSent(orc, retry.WriteFailed)
		pass(ms)
		require.Len(t, proved.sent(), 1)
		_, again := proved.st.Sent()
		require.True(t, again)
		e, _ = doubtful.st.Sent()
		orc.ConnLost(doubtful, e, io.ErrShortWrite)
		require.Equal(t, 1, doubtful.ended())
		require.True(t, doubtful.inDoubt)
		_, again = doubtful.st.Sent()
		require.False(t, again)
		orc.Cancel(proved, nil)
	})
}

// TestDelaysAreSpread_D90: the default's delays do not come in step: over 10,000 draws each step fills all of its
// range, evenly, and never leaves 1 to 500 ms. Proves SM-10.
func TestDelaysAreSpread_D90(t *testing.T) {
	const draws, bins = 10_000, 10
	rng := rand.New(rand.NewPCG(90, 1))
	b := retry.DefaultBackoff(rng.Float64)
	for step := 1; step < 14; step++ {
		top := min(ms<<step, 500*ms)
		low := max(top/2, ms)
		var hist [bins]int
		for range draws {
			d := b(step, 0)
			if d < low || d > top {
				t.Fatalf("step %d: %v is not between %v and %v", step, d, low, top)
			}
			hist[min(int(bins*(d-low)/(top-low)), bins-1)]++
		}
		for i, n := range hist { // 1000 expected, 30 the standard deviation
			require.InDelta(t, draws/bins, n, 180, "step %d, bin %d", step, i)
		}
	}
}
