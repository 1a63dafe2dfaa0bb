package retry_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// The tests of this file use the standard library only, since the mutation gate runs them in a module of their own.

var errCause = errors.New("what the attempt met")

// op is an operation for tests. Its hooks run where the orchestrator calls it.
type op struct {
	st       retry.State
	ctx      context.Context
	name     string
	size     int
	describe func()
	dispatch func()
	finished func()

	mu         sync.Mutex // of what follows; the outcome is read without it once ended says 1
	dispatches []time.Time
	done       int
	err        error
	inDoubt    bool
	end        time.Time
}

func newOp(idempotent bool, timeout time.Duration) *op {
	o := &op{ctx: context.Background(), name: "get"}
	o.st.Idempotent, o.st.Deadline = idempotent, time.Now().Add(timeout)
	return o
}

func (o *op) Retry() *retry.State { return &o.st }

func (o *op) Describe(r *retry.Request) {
	r.Service, r.Operation, r.Endpoint, r.ID = retry.KV, o.name, "10.0.0.1:11210", "0x00000007"
	if o.describe != nil {
		o.describe()
	}
}

func (o *op) Context() context.Context { return o.ctx }
func (o *op) Size() int                { return o.size }
func (o *op) Dispatch() {
	o.mu.Lock()
	o.dispatches = append(o.dispatches, time.Now())
	o.mu.Unlock()
	if o.dispatch != nil {
		o.dispatch()
	}
}

func (o *op) Done(err error, inDoubt bool) {
	o.mu.Lock()
	o.done++
	o.err, o.inDoubt, o.end = err, inDoubt, time.Now()
	o.mu.Unlock()
	if o.finished != nil {
		o.finished()
	}
}

// sent says when the orchestrator sent the operation again.
func (o *op) sent() []time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.dispatches)
}

// ended says how often the operation was completed.
func (o *op) ended() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done
}

// answer sends the operation and lets it be answered with a reason.
func (o *op) answer(orc *retry.Orchestrator, why retry.Reason, h retry.Hint) {
	e, _ := o.st.Sent()
	if o.st.Answered(e) {
		orc.MaybeRetry(o, why, errCause, h)
	}
}

// notSent lets routing fail.
func (o *op) notSent(orc *retry.Orchestrator, why retry.Reason) {
	if o.st.NotSent() {
		orc.MaybeRetry(o, why, errCause, retry.Hint{})
	}
}

// after is an inline strategy with one answer.
type after struct{ a retry.Action }

func (after) Inline() bool                                                            { return true }
func (s after) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action { return s.a }

// hooks is an Observer whose fields may be nil.
type hooks struct {
	attempt func(retry.AttemptInfo)
	retry   func(*retry.Request, retry.Reason, time.Duration)
	gaveUp  func(*retry.Request, retry.Reason, error)
}

func (h hooks) Attempt(a retry.AttemptInfo) {
	if h.attempt != nil {
		h.attempt(a)
	}
}

func (h hooks) Retry(r *retry.Request, why retry.Reason, d time.Duration) {
	if h.retry != nil {
		h.retry(r, why, d)
	}
}

func (h hooks) GaveUp(r *retry.Request, why retry.Reason, err error) {
	if h.gaveUp != nil {
		h.gaveUp(r, why, err)
	}
}

// bank is a Budget whose Take is a function.
type bank struct {
	take    func() bool
	taken   int
	settled []string
}

func (b *bank) Take(retry.Kind) (int32, bool) {
	ok := b.take == nil || b.take()
	if ok {
		b.taken++
	}
	return 5, ok
}

func (b *bank) Settle(cost int32, ok bool) { b.settled = append(b.settled, fmt.Sprint(cost, ok)) }

func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// pass lets d pass and everything happen that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// expect is all that require would be used for here.
func expect(t *testing.T, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
}

func endedOnce(t *testing.T, o *op, want error) {
	t.Helper()
	expect(t, o.ended() == 1, "done %d times", o.ended())
	expect(t, want == nil || errors.Is(o.err, want), "ended with %v, not %v", o.err, want)
}

// TestCancelWhileObserved cancels inside the Observer's callback, which is between the record of a failure and what
// follows from it.
func TestCancelWhileObserved(t *testing.T) {
	asked := 0
	strategies := map[string]retry.Strategy{
		"inline": after{retry.After(time.Millisecond)},
		"blocking": retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
			asked++
			return retry.After(time.Millisecond)
		}),
	}
	for name, s := range strategies {
		for _, why := range []retry.Reason{retry.KVNotMyVBucket, retry.Unknown, retry.KVLocked} {
			t.Run(fmt.Sprint(name, "/", why), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := newOp(false, time.Second)
					var orc *retry.Orchestrator
					delays := 0
					orc = retry.New(retry.Options{Default: s, Observer: hooks{
						attempt: func(retry.AttemptInfo) { orc.Cancel(x, errCause) },
						retry:   func(*retry.Request, retry.Reason, time.Duration) { delays++ },
					}})
					x.answer(orc, why, retry.Hint{})
					expect(t, orc.Stats().Parked == 0, "parked after its end")
					expect(t, delays == 0, "its delay is told after its end")
					pass(time.Minute)
					endedOnce(t, x, retry.ErrCanceled)
					expect(t, len(x.sent()) == 0, "dispatched after its end")
					expect(t, orc.Stats().Parked == 0, "still parked")
				})
			})
		}
	}
	expect(t, asked == 0, "asked a strategy about an operation that had ended")
}

// TestCancelWhileItsDelayIsTold cancels inside the Observer's callback that comes before the operation waits.
func TestCancelWhileItsDelayIsTold(t *testing.T) {
	for _, why := range []retry.Reason{retry.KVNotMyVBucket, retry.KVLocked} {
		bubble(t, func(t *testing.T) {
			x := newOp(true, time.Second)
			var orc *retry.Orchestrator
			orc = retry.New(retry.Options{Default: after{retry.After(time.Millisecond)}, Observer: hooks{
				retry: func(*retry.Request, retry.Reason, time.Duration) { orc.Cancel(x, errCause) },
			}})
			x.answer(orc, why, retry.Hint{})
			expect(t, orc.Stats().Parked == 0, "parked after its end")
			pass(time.Minute)
			endedOnce(t, x, retry.ErrCanceled)
			expect(t, len(x.sent()) == 0, "dispatched after its end")
			expect(t, x.st.Info().Log[0].Delay == 0, "a delay that it did not wait is in its log")
		})
	}
}

func TestCancelWhileDescribed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Second)
		var attempts []retry.AttemptInfo
		orc := retry.New(retry.Options{Observer: hooks{attempt: func(a retry.AttemptInfo) {
			attempts = append(attempts,
				a)
		}}})
		x.describe = func() {
			x.describe = nil
			orc.Cancel(x, errCause)
		}
		x.answer(orc, retry.KVLocked, retry.Hint{})
		endedOnce(t, x, retry.ErrCanceled)
		expect(t, len(attempts) == 0, "an ended operation's failure was recorded: %v", attempts)
		expect(t, len(x.st.Info().Log) == 0, "an ended operation's failure is in its log")
	})
}

func TestLateAnswerOfAStrategyIsDropped(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Second)
		translated := false
		orc := retry.New(retry.Options{Default: retry.Func(func(ctx context.Context, _ *retry.Request,
			_ retry.Reason,
		) retry.Action {
			<-ctx.Done()
			return retry.StopWith(func(err error) error {
				translated = true
				return err
			})
		})})
		x.answer(orc, retry.KVLocked, retry.Hint{})
		synctest.Wait()
		orc.Cancel(x, errCause)
		synctest.Wait()
		endedOnce(t, x, retry.ErrCanceled)
		expect(t, !translated, "the answer for an ended operation was used")
	})
}

func TestTranslationMayEndTheOperation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Second)
		var orc *retry.Orchestrator
		orc = retry.New(retry.Options{Default: after{retry.StopWith(func(err error) error {
			orc.Cancel(x, errCause)
			return err
		})}})
		x.answer(orc, retry.KVLocked, retry.Hint{})
		endedOnce(t, x, retry.ErrCanceled)
	})
}

// TestEndsWhileTheBudgetIsAsked lets everything happen between the end of a delay and the wake-up.
func TestEndsWhileTheBudgetIsAsked(t *testing.T) {
	for _, c := range []struct {
		name    string
		event   func(orc *retry.Orchestrator, x *op)
		allowed bool
		want    error
	}{
		{"cancel, refused", func(orc *retry.Orchestrator, x *op) { orc.Cancel(x, nil) }, false, retry.ErrCanceled},
		{"cancel, allowed", func(orc *retry.Orchestrator, x *op) { orc.Cancel(x, nil) }, true, retry.ErrCanceled},
		{"close, allowed", func(orc *retry.Orchestrator, _ *op) { orc.Close(errCause) }, true, retry.ErrClosed},
		{"refused", func(*retry.Orchestrator, *op) {}, false, retry.ErrThrottled},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := newOp(true, time.Second)
				b := &bank{}
				orc := retry.New(retry.Options{Default: after{retry.After(time.Millisecond).Charged(b)}})
				b.take = func() bool {
					c.event(orc, x)
					return c.allowed
				}
				x.answer(orc, retry.KVLocked, retry.Hint{})
				pass(time.Minute)
				endedOnce(t, x, c.want)
				expect(t, len(x.sent()) == 0, "sent again after its end")
				expect(t, len(b.settled) == b.taken, "%d payments, settled %v", b.taken, b.settled)
			})
		})
	}
}

// TestReuseWhileTheBudgetIsAsked parks the next use of the operation while the wake-up of the last one is under way.
func TestReuseWhileTheBudgetIsAsked(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Hour)
		b := &bank{}
		orc := retry.New(retry.Options{Default: after{retry.After(time.Minute).Charged(b)}})
		b.take = func() bool {
			b.take = nil
			x.st.Finish()
			expect(t, x.st.Reset(), "Reset of an ended operation failed")
			x.st.Idempotent, x.st.Deadline = true, time.Now().Add(time.Hour)
			x.notSent(orc, retry.NodeNotAvailable)
			return true
		}
		// The reason is one of an answer, since unseen requests pay nothing, and yet nothing was sent.
		x.notSent(orc, retry.KVLocked)
		pass(time.Minute + time.Second)
		expect(t, len(x.sent()) == 0, "the last use's timer woke the next use")
		pass(time.Minute)
		expect(t, len(x.sent()) == 1, "the next use was not woken")
		orc.Cancel(x, nil)
	})
}

func TestWakeNamesItsParking(t *testing.T) {
	for _, again := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			x := newOp(true, time.Hour)
			orc := retry.New(retry.Options{Default: after{retry.After(time.Minute)}})
			x.notSent(orc, retry.NodeNotAvailable)
			inside := false
			orc.Wake(func(retry.Op) bool {
				if inside {
					return true
				}
				inside = true
				orc.Wake(nil)
				if again { // a second parking without a Sent between the two
					x.notSent(orc, retry.NodeNotAvailable)
					pass(2 * time.Millisecond) // beyond the floor
				}
				return true
			})
			expect(t, len(x.sent()) == 1, "woken %d times", len(x.sent()))
			orc.Cancel(x, nil)
		})
	}
}

func TestWakeIgnoresWhoEnded(t *testing.T) {
	bubble(t, func(t *testing.T) {
		x := newOp(true, time.Hour)
		orc := retry.New(retry.Options{Default: after{retry.After(time.Minute)}})
		x.notSent(orc, retry.NodeNotAvailable)
		orc.Wake(func(retry.Op) bool {
			pass(2 * time.Minute) // the timer wakes it meanwhile
			return true
		})
		expect(t, len(x.sent()) == 1, "dispatched %d times", len(x.sent()))
		orc.Cancel(x, nil)
	})
}
