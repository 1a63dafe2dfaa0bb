package retry_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/couchcore/couchcore/retry"
)

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
		expect(t, x.st.Info().Counted == 1 && x.st.Info().Transparent == 0, "the server had begun to answer")
		lose(orc.ConnLost)
		expect(t, x.st.Info().Counted == 1 && x.st.Info().Transparent == 1, "the first loss is not transparent")
		lose(orc.ConnLost)
		expect(t, x.st.Info().Counted == 2 && x.st.Info().Transparent == 1, "the second loss is transparent")
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

// What may be sent again first is sent first: it may take the last free place of a connection.
func TestWokenCallsKeepTheOrderOfTheirDelays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var delay time.Duration
		orc := retry.New(retry.Options{Default: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.After(delay) })})
		var sent []time.Duration
		for _, n := range []time.Duration{5, 9, 2, 8, 7, 1, 10, 3, 6, 4} {
			delay = n * time.Second
			x := newOp(true, time.Minute)
			x.dispatch = func() { sent = append(sent, n) }
			x.notSent(orc, retry.NodeNotAvailable)
			synctest.Wait() // the strategy has read the delay
		}
		pass(100 * time.Millisecond)
		orc.Wake(nil)
		if !slices.Equal(sent, []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}) {
			t.Errorf("sent in the order of these delays: %d", sent)
		}
	})
}
