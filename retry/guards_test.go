package retry_test

import (
	"cmp"
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
					orc = retry.New(retry.Options{Default: s, Observer: hooks{attempt: func(retry.AttemptInfo) {
						orc.Cancel(x, errCause)
					}}})
					x.answer(orc, why, retry.Hint{})
					expect(t, orc.Stats().Parked == 0, "parked after its end")
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

// Whatever a strategy or a server says, and however often an operation is woken, it is sent once a millisecond at most
// after its first retry.
func TestTheFloorBetweenAttempts(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(x *op, orc *retry.Orchestrator)
		delay time.Duration // the strategy's
		wakes bool
		least int // how often it is sent again; 0 means 20
	}{
		"an answer": {fails: func(x *op, orc *retry.Orchestrator) {
			x.answer(orc, retry.KVTemporaryFailure,
				retry.Hint{})
		}},
		"a pushback of 0": {fails: func(x *op, orc *retry.Orchestrator) {
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackAfter(0)})
		}, least: 2}, // at once, and then as the schedule of reasons that are always retried says
		"no way": {fails: func(x *op, orc *retry.Orchestrator) { x.notSent(orc, retry.NodeNotAvailable) }},
		"wakes": {
			fails: func(x *op, orc *retry.Orchestrator) { x.answer(orc, retry.BucketNotReady, retry.Hint{}) },
			delay: time.Second, wakes: true,
		},
		"wakes, and a strategy that does not wait": {
			fails: func(x *op, orc *retry.Orchestrator) { x.answer(orc, retry.BucketNotReady, retry.Hint{}) },
			wakes: true,
		},
		"missed wakes": {
			fails: func(x *op, orc *retry.Orchestrator) {
				since := orc.Wakes()
				orc.Wake(nil)
				x.answer(orc, retry.BucketNotReady, retry.Hint{Wakes: since})
			},
			delay: time.Second,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			orc := retry.New(retry.Options{Default: after{retry.After(c.delay)}})
			x := newOp(true, time.Minute)
			rounds := 0
			x.dispatch = func() {
				if rounds++; rounds < 30 {
					c.fails(x, orc)
				}
			}
			c.fails(x, orc)
			until := time.Now().Add(50 * time.Millisecond)
			for ; time.Now().Before(until); time.Sleep(40 * time.Microsecond) {
				if c.wakes {
					orc.Wake(nil)
				}
			}
			sent := x.sent()
			if least := cmp.Or(c.least, 20); len(sent) < least {
				t.Errorf("%s: sent %d times: the floor is no more than that", name, len(sent))
			}
			for i := 1; i < len(sent); i++ {
				if d := sent[i].Sub(sent[i-1]); d < time.Millisecond {
					t.Errorf("%s: attempt %d follows after %v", name, i, d)
					break
				}
			}
			orc.Close(nil)
		})
	}
}

func TestWakeKeepsDelaysThatAServerCaused(t *testing.T) {
	for _, c := range []struct {
		name  string
		why   retry.Reason
		hint  retry.Hint
		woken bool
	}{
		{"dispatch", retry.SocketNotAvailable, retry.Hint{}, true},
		{"terminal", retry.AuthenticationError, retry.Hint{}, true},
		{"controlled", retry.KVNotMyVBucket, retry.Hint{}, false},
		{"answer", retry.KVTemporaryFailure, retry.Hint{}, false},
		{"pushback", retry.BucketNotReady, retry.Hint{Pushback: retry.PushbackAfter(time.Minute)}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := newOp(false, time.Hour)
				orc := retry.New(retry.Options{Default: after{retry.After(time.Minute)}})
				x.answer(orc, c.why, c.hint)
				orc.Wake(nil)
				expect(t, (len(x.sent()) == 1) == c.woken, "dispatched %d times", len(x.sent()))
				orc.Cancel(x, nil)
			})
		})
	}
}

// A Wake between the look for a way and the parking counts as one after it, whatever the strategy does meanwhile; but
// only for those that say when they looked, and only where a Wake counts at all.
func TestWakeIsNotMissedWhileAStrategyDecides(t *testing.T) {
	for _, c := range []struct {
		name    string
		why     retry.Reason
		says    bool
		delay   time.Duration
		woken   bool
		earlier bool // the Wake was before the look
	}{
		{"missed", retry.SocketNotAvailable, true, time.Minute, true, false},
		{"capped by the deadline", retry.SocketNotAvailable, true, 2 * time.Hour, true, false},
		{"says nothing", retry.SocketNotAvailable, false, time.Minute, false, false},
		{"answered", retry.KVTemporaryFailure, true, time.Minute, false, false},
		{"before the look", retry.SocketNotAvailable, true, time.Minute, false, true},
	} {
		for _, blocking := range []bool{false, true} {
			t.Run(fmt.Sprint(c.name, blocking), func(t *testing.T) {
				bubble(t, func(t *testing.T) {
					x := newOp(true, time.Hour)
					var orc *retry.Orchestrator
					decide := func(context.Context, *retry.Request, retry.Reason) retry.Action {
						if !c.earlier && len(x.sent()) == 0 {
							orc.Wake(nil)
						}
						return retry.After(c.delay)
					}
					var s retry.Strategy = during(decide)
					if blocking {
						s = retry.Func(decide)
					}
					orc = retry.New(retry.Options{Default: s})
					if c.earlier {
						orc.Wake(nil)
					}
					var h retry.Hint
					if c.says {
						h.Wakes = orc.Wakes()
					}
					began := time.Now()
					x.answer(orc, c.why, h)
					synctest.Wait()
					pass(time.Nanosecond)
					want := 0
					if c.woken {
						want = 1
					}
					expect(t, len(x.sent()) == want, "dispatched %d times at %v", len(x.sent()), time.Since(began))
					if c.woken { // once, and it waits the next time
						h.Wakes = orc.Wakes()
						x.answer(orc, c.why, h)
						pass(time.Second)
						expect(t, len(x.sent()) == 1, "dispatched %d times", len(x.sent()))
					}
					orc.Cancel(x, nil)
				})
			})
		}
	}
}

// during is a strategy that does not block and is asked by a function.
type during func(context.Context, *retry.Request, retry.Reason) retry.Action

func (d during) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	return d(ctx, r, why)
}
func (during) Inline() bool { return true }

func TestNothingIsRetriedAfterClose(t *testing.T) {
	asked := 0
	for name, s := range map[string]retry.Strategy{
		"inline": after{retry.After(time.Millisecond)},
		"blocking": retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
			asked++
			return retry.After(time.Millisecond)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				why := errors.New("shutting down")
				orc := retry.New(retry.Options{Default: s})
				orc.Close(why)
				orc.Close(errCause) // changes nothing
				x := newOp(true, time.Second)
				x.answer(orc, retry.KVLocked, retry.Hint{})
				synctest.Wait()
				endedOnce(t, x, retry.ErrClosed)
				expect(t, errors.Is(x.err, why) && errors.Is(x.err, errCause), "lost a cause: %v", x.err)
			})
		})
	}
	expect(t, asked == 0, "asked a strategy after Close")
}

// TestBoundsOfWhatWaits proves I11, GA6-36, GA6-37, GA6-38, and I13 for what cannot be sent again.
func TestBoundsOfWhatWaits(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{
			Default: after{retry.After(time.Minute)}, MaxParked: 2, MaxBytes: 250,
			MaxOpBytes: 200,
		})
		park := func(size int) *op {
			x := newOp(true, time.Hour)
			x.size = size
			x.answer(orc, retry.KVLocked, retry.Hint{})
			return x
		}
		a, b := park(100), park(150)
		expect(t, orc.Stats().Parked == 2 && orc.Stats().Bytes == 250, "%+v", orc.Stats())
		endedOnce(t, park(0), retry.ErrTooManyInRetry) // one too many
		orc.Cancel(a, nil)
		expect(t, orc.Stats().Parked == 1 && orc.Stats().Bytes == 150, "%+v", orc.Stats())
		full := park(101)
		endedOnce(t, full, retry.ErrTooManyInRetry) // one byte too many
		expect(t, errors.Is(full.err, errCause), "the cause is lost: %v", full.err)
		c := park(100)
		big, never := park(201), park(-1)
		for _, x := range []*op{big, never} {
			endedOnce(t, x, errCause)
			expect(t, !errors.Is(x.err, retry.ErrTooManyInRetry), "one that may not be retried at all: %v", x.err)
		}
		orc.Close(nil)
		endedOnce(t, b, retry.ErrClosed)
		endedOnce(t, c, retry.ErrClosed)
		expect(t, orc.Stats().Parked == 0 && orc.Stats().Bytes == 0, "%+v", orc.Stats())
	})
}

// TestDisableRetries proves GA6-46.
func TestDisableRetries(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: after{retry.After(time.Minute)}, DisableRetries: true})
		for why := range retry.All() {
			x := newOp(true, time.Hour)
			x.answer(orc, why, retry.Hint{})
			expect(t, (x.ended() == 0) == (why.Unseen() || why.AlwaysRetry()), "%v: done %d", why, x.ended())
		}
		orc.Close(nil)
	})
}

// TestBudgetIsSettledOnce proves SM-14 and I10: what was paid is refunded or forfeited, once.
func TestBudgetIsSettledOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(orc *retry.Orchestrator, x *op)
		want []string
	}{
		{"success", func(_ *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			x.st.Answered(e)
			x.st.Finish()
			pass(time.Second)
			x.st.Settle(nil)
			x.st.Settle(nil)
			took := x.st.Info().Elapsed
			expect(t, took == 3*time.Second, "took %v", took)
		}, []string{"10 true"}},
		{"success in one step", func(_ *retry.Orchestrator, x *op) {
			e, _ := x.st.Sent()
			x.st.Succeeded(e)
			took := x.st.Info().Elapsed
			expect(t, took == 3*time.Second, "took %v", took)
		}, []string{"10 true"}},
		{"definite answer", func(_ *retry.Orchestrator, x *op) {
			x.st.Finish()
			x.st.Settle(errCause)
		}, []string{"10 true"}},
		{"timeout", func(orc *retry.Orchestrator, x *op) {
			orc.Expire(x)
			x.st.Settle(errCause)
		}, []string{"10 false"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				x := newOp(true, time.Hour)
				b := &bank{}
				orc := retry.New(retry.Options{Default: after{retry.After(time.Millisecond).Charged(b)}})
				for range 2 {
					x.answer(orc, retry.KVLocked, retry.Hint{})
					pass(time.Second)
				}
				x.notSent(orc, retry.NodeNotAvailable) // costs nothing
				pass(time.Second)
				expect(t, b.taken == 2 && len(b.settled) == 0, "taken %d, settled %v", b.taken, b.settled)
				c.end(orc, x)
				expect(t, slices.Equal(b.settled, c.want), "settled %v", b.settled)
			})
		})
	}
}

// TestTheFirstLossIsTransparent: GA6-43, GA6-44. Once per operation a lost connection counts neither as an attempt nor
// against a budget, and the strategy is told so.
func TestTheFirstLossIsTransparent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var unseen []bool
		orc := retry.New(retry.Options{Default: asking(func(r *retry.Request) { unseen = append(unseen, r.Unseen) })})
		x := newOp(true, time.Hour)
		lose := func(lost func(retry.Op, uint32, error)) {
			e, _ := x.st.Sent()
			lost(x, e, errCause)
			pass(time.Second)
		}
		lose(orc.AnswerLost)
		expect(t, x.st.Info().Attempts == 1 && x.st.Info().Transparent == 0, "the server had begun to answer")
		lose(orc.ConnLost)
		expect(t, x.st.Info().Attempts == 1 && x.st.Info().Transparent == 1, "the first loss is not transparent")
		lose(orc.ConnLost)
		expect(t, x.st.Info().Attempts == 2 && x.st.Info().Transparent == 1, "the second loss is transparent")
		expect(t, slices.Equal(unseen, []bool{false, true, false}), "the strategy was told %v", unseen)
		orc.Cancel(x, nil)
	})
}

// asking is an inline strategy that looks at the request and retries after a millisecond.
type asking func(*retry.Request)

func (asking) Inline() bool { return true }

func (f asking) RetryAfter(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
	f(r)
	return retry.After(time.Millisecond)
}

// TestAServersWordIsHeededAndPaced: a delay that the server names is a floor under the strategy's, "do not retry" ends
// the operation, and no server brings a request again at once more than once.
func TestAServersWordIsHeededAndPaced(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			a    retry.Action
			push retry.Pushback
			want time.Duration // of the first retry, below 0: no retry
		}{
			"sooner": {retry.After(time.Millisecond), retry.PushbackAfter(time.Second), time.Second},
			"later":  {retry.After(time.Minute), retry.PushbackAfter(time.Second), time.Minute},
			"ignored": {
				retry.After(time.Millisecond).IgnorePushback(), retry.PushbackAfter(time.Second),
				time.Millisecond,
			},
			"never":        {retry.After(time.Millisecond), retry.PushbackNever(), -1},
			"never, heard": {retry.After(time.Millisecond).IgnorePushback(), retry.PushbackNever(), time.Millisecond},
		} {
			orc := retry.New(retry.Options{Default: after{c.a}})
			x := newOp(true, time.Hour)
			start := time.Now()
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{Pushback: c.push})
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			switch sent := x.sent(); {
			case c.want < 0:
				if len(sent) != 0 || x.ended() != 1 {
					t.Errorf("%s: sent %v, ended %d times", name, sent, x.ended())
				}
			case len(sent) != 1 || sent[0].Sub(start) != c.want:
				t.Errorf("%s: sent at %v, not after %v", name, sent, c.want)
			}
			orc.Close(nil)
		}
		orc := retry.New(retry.Options{})
		x := newOp(true, time.Hour)
		x.dispatch = func() { x.answer(orc, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackAfter(0)}) }
		x.answer(orc, retry.KVTemporaryFailure, retry.Hint{Pushback: retry.PushbackAfter(0)})
		time.Sleep(time.Minute)
		if n := len(x.sent()); n < 60 || n > 70 {
			t.Errorf("%d requests in a minute", n)
		}
		orc.Close(nil)
	})
}
