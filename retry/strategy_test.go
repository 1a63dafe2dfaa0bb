package retry_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
)

// request is what a strategy would see of an operation that failed step times before.
func request(idempotent bool, step int) *retry.Request {
	return &retry.Request{Idempotent: idempotent, BackoffStep: step, JitterSource: random(0.5), Err: errCause}
}

// TestBestEffort proves CB-20, CB-22 and CB-38.
func TestBestEffort(t *testing.T) {
	for why := range retry.All() {
		for _, idempotent := range []bool{false, true} {
			d, ok := retry.BestEffort{}.RetryAfter(t.Context(), request(idempotent, 3), why).Delay()
			want := why != retry.Unknown && (idempotent || why.AllowsNonIdempotent())
			require.Equal(t, want, ok, "%v, idempotent %v", why, idempotent)
			if ok {
				require.Equal(t, 6*ms, d, "the middle of 4 to 8 ms")
			}
		}
	}
	d, _ := retry.BestEffort{Backoff: retry.Constant(7 * ms)}.RetryAfter(t.Context(), request(true, 9),
		retry.KVLocked).Delay()
	require.Equal(t, 7*ms, d)
	r := request(true, 9)
	r.Pushback = retry.PushbackAfter(3 * time.Second)
	d, _ = retry.BestEffort{}.RetryAfter(t.Context(), r, retry.ServiceResponseCodeIndicated).Delay()
	require.Equal(t, 3*time.Second, d, "the server's own delay")
}

// TestFastFail proves CB-25 (it is the default), CB-26 and CB-27.
func TestFastFail(t *testing.T) {
	terminal := []retry.Reason{
		retry.AuthenticationError, retry.TLSError, retry.BucketAccessError, retry.ScopeNotFound,
		retry.CollectionNotFound,
	}
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		for i, why := range terminal {
			x := newOp(i%2 == 0, time.Second)
			x.notSent(orc, why)
			require.Equal(t, 1, x.ended())
			require.ErrorIs(t, x.err, retry.ErrTerminal)
			require.ErrorIs(t, x.err, errCause)
			info, ok := retry.InfoOf(x.err)
			require.True(t, ok)
			require.Equal(t, why, info.Reason)
			require.Zero(t, info.Retries())

			y := newOp(i%2 == 0, time.Second)
			y.st.Strategy = retry.BestEffort{}
			y.notSent(orc, why)
			require.Zero(t, y.ended())
			pass(time.Second)
			for y.ended() == 0 {
				y.notSent(orc, why)
				pass(time.Second)
			}
			require.ErrorIs(t, y.err, retry.ErrTimeout)
			require.ErrorIs(t, y.err, errCause, "the timeout carries the real cause")
		}
	})
}

// TestFastFailIsBestEffortOtherwise proves I14 and CB-27.
func TestFastFailIsBestEffortOtherwise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := request(rapid.Bool().Draw(t, "idempotent"), rapid.IntRange(0, math.MaxInt32).Draw(t, "step"))
		r.LastDelay = time.Duration(rapid.Int64Range(0, 1<<40).Draw(t, "last"))
		b := retry.BestEffort{}
		if rapid.Bool().Draw(t, "own backoff") {
			b.Backoff = retry.Decorrelated(ms, time.Second, random(0.3))
		}
		for why := range retry.All() {
			if why.Terminal() {
				continue
			}
			want := b.RetryAfter(context.Background(), r, why)
			got := retry.FastFailOnTerminalError{Base: b}.RetryAfter(context.Background(), r, why)
			require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
			if b.Backoff == nil {
				got = retry.FastFailOnTerminalError{}.RetryAfter(context.Background(), r, why)
				require.Equal(t, fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
			}
		}
	})
}

func TestWhoIsInline(t *testing.T) {
	f := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	require.True(t, retry.IsInline(nil))
	require.True(t, retry.IsInline(retry.BestEffort{}))
	require.True(t, retry.IsInline(retry.FastFailOnTerminalError{}))
	require.True(t, retry.IsInline(retry.FastFailOnTerminalError{Base: retry.BestEffort{}}))
	require.False(t, retry.IsInline(f))
	require.False(t, retry.IsInline(retry.FastFailOnTerminalError{Base: f}))
}

func TestActions(t *testing.T) {
	b := &bank{}
	for _, c := range []struct {
		a        retry.Action
		d        time.Duration
		ok, term bool
	}{
		{retry.Action{}, 0, false, false},
		{retry.Stop(), 0, false, false},
		{retry.StopWith(nil), 0, false, false},
		{retry.StopTerminal(), 0, false, true},
		{retry.After(ms), ms, true, false},
		{retry.After(-ms), 0, true, false},
		{retry.After(ms).WithDelay(2 * ms).Charged(b), 2 * ms, true, false},
		{retry.After(ms).WithDelay(-1), 0, true, false},
		{retry.Stop().WithDelay(ms).Charged(b), 0, false, false},
		{retry.TimeOutAfter(0).WithDelay(ms).Charged(b), 0, false, false},
	} {
		d, ok := c.a.Delay()
		require.Equal(t, c.ok, ok)
		require.Equal(t, c.d, d)
		require.Equal(t, c.term, c.a.Terminal())
	}
	_, ok := retry.After(ms).TimesOut()
	require.False(t, ok)
	d, ok := retry.TimeOutAfter(ms).TimesOut()
	require.True(t, ok)
	require.Equal(t, ms, d)
	p := retry.PushbackAfter(-ms)
	d, ok = p.After()
	require.True(t, ok && !p.Never() && !p.None())
	require.Zero(t, d)
	require.True(t, retry.PushbackNever().Never())
	require.True(t, retry.Pushback{}.None())
}

// TestBlockingStrategyDelaysNoOtherCall proves CB-16.
func TestBlockingStrategyDelaysNoOtherCall(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		orc := retry.New(retry.Options{})
		slow, quick := newOp(true, time.Second), newOp(true, time.Second)
		slow.st.Strategy = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
			time.Sleep(200 * ms)
			return retry.After(0)
		})
		slow.answer(orc, retry.KVLocked, retry.Hint{})
		require.Equal(t, retry.PhaseDeciding, slow.st.Phase())
		quick.answer(orc, retry.KVNotMyVBucket, retry.Hint{Moved: true})
		require.Equal(t, start, time.Now(), "MaybeRetry waited for the strategy")
		pass(time.Second / 2)
		require.Equal(t, inMS(0, 0), since(start, quick))
		require.Equal(t, inMS(0, 200), since(start, slow))
		orc.Cancel(slow, nil)
		orc.Cancel(quick, nil)
	})
}

// TestStrategyThatIgnoresItsContext proves I16: its operation ends at its deadline, or with Close, all the same.
func TestStrategyThatIgnoresItsContext(t *testing.T) {
	for _, closed := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			release := make(chan struct{})
			var ctx context.Context
			orc := retry.New(retry.Options{Default: retry.Func(
				func(c context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
					ctx = c
					<-release
					return retry.After(0)
				})})
			x := newOp(true, time.Second)
			x.answer(orc, retry.KVLocked, retry.Hint{})
			synctest.Wait()
			require.NoError(t, ctx.Err())
			want := retry.ErrTimeout
			if closed {
				orc.Close(nil)
				want = retry.ErrClosed
				require.Equal(t, start, time.Now())
			} else {
				pass(time.Minute)
				require.Equal(t, start.Add(time.Second), x.end)
			}
			require.Equal(t, 1, x.ended())
			require.ErrorIs(t, x.err, want)
			require.ErrorIs(t, x.err, errCause)
			require.Error(t, ctx.Err(), "the strategy's context outlives the operation")
			close(release)
			pass(time.Minute)
			require.Equal(t, 1, x.ended())
			require.Empty(t, x.sent())
		})
	}
}

// TestStrategyMeetsTheCallersContext checks that the context of a strategy is a child of the caller's.
func TestStrategyMeetsTheCallersContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		orc := retry.New(retry.Options{Default: retry.Func(
			func(c context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
				<-c.Done()
				return retry.Stop()
			})})
		x := newOp(true, time.Hour)
		x.ctx = ctx
		x.answer(orc, retry.KVLocked, retry.Hint{})
		cancel()
		synctest.Wait()
		require.Equal(t, 1, x.ended())
		y := newOp(true, time.Second) // an operation without a context
		y.ctx = nil
		y.answer(orc, retry.KVLocked, retry.Hint{})
		pass(time.Second)
		require.ErrorIs(t, y.err, retry.ErrTimeout)
	})
}

// TestPanickingStrategies proves I15 for strategies that fail.
func TestPanickingStrategies(t *testing.T) {
	boom := errors.New("boom")
	panics := func(context.Context, *retry.Request, retry.Reason) retry.Action { panic(boom) }
	for name, s := range map[string]retry.Strategy{
		"inline":    inlineFunc(panics),
		"blocking":  retry.Func(panics),
		"no value":  inlineFunc(nil),
		"not asked": liar{},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				orc := retry.New(retry.Options{Default: s})
				x := newOp(true, time.Second)
				x.answer(orc, retry.KVLocked, retry.Hint{})
				synctest.Wait()
				require.Equal(t, 1, x.ended())
				var p *retry.PanicError
				require.ErrorAs(t, x.err, &p)
				require.Contains(t, p.Error(), "panic in a retry strategy")
				require.NotEmpty(t, p.Stack)
				require.ErrorIs(t, x.err, errCause)
				if name == "inline" || name == "blocking" {
					require.ErrorIs(t, x.err, boom)
				}
			})
		})
	}
}

// liar panics when it is asked whether it blocks.
type liar struct{}

func (liar) Inline() bool { panic("neither") }
func (liar) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	panic("nor")
}

func TestStrategyThatEndsItsGoroutine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action {
				runtime.Goexit()
				return retry.Stop()
			})})
		x := newOp(true, time.Hour)
		x.answer(orc, retry.KVLocked, retry.Hint{})
		synctest.Wait()
		require.Equal(t, 1, x.ended())
		require.ErrorContains(t, x.err, "ended its goroutine")
		require.ErrorIs(t, x.err, errCause)
	})
}

// TestTimeOutAfter ends an operation before its deadline as the deadline would.
func TestTimeOutAfter(t *testing.T) {
	bubble(t, func(t *testing.T) {
		start := time.Now()
		orc := retry.New(retry.Options{Default: after{retry.TimeOutAfter(time.Second)}})
		x := newOp(true, time.Minute)
		x.notSent(orc, retry.NodeNotAvailable)
		orc.Wake(nil)
		pass(time.Hour)
		require.Equal(t, 1, x.ended())
		require.Equal(t, time.Second, x.end.Sub(start))
		require.ErrorIs(t, x.err, retry.ErrTimeout)
		require.ErrorIs(t, x.err, errCause)
		require.Empty(t, x.sent())
	})
}

func TestStopWith(t *testing.T) {
	other := errors.New("translated")
	for name, c := range map[string]struct {
		f    func(error) error
		want error
	}{
		"translated": {func(err error) error { return errors.Join(other, retry.ErrExhausted, err) }, other},
		"nil":        {func(error) error { return nil }, errCause},
		"panic":      {func(error) error { panic("boom") }, errCause},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				orc := retry.New(retry.Options{Default: after{retry.StopWith(c.f)}})
				x := newOp(true, time.Second)
				x.answer(orc, retry.KVLocked, retry.Hint{})
				require.Equal(t, 1, x.ended())
				require.ErrorIs(t, x.err, c.want)
				require.ErrorIs(t, x.err, errCause)
			})
		})
	}
}

// brokenBudget panics.
type brokenBudget struct{ bank }

func (*brokenBudget) Take(retry.Kind) (int32, bool) { panic("no money") }

// strangeBudget takes and then panics.
type strangeBudget struct{ bank }

func (*strangeBudget) Settle(int32, bool) { panic("not mine") }

// TestABudgetThatPanicsWhileSettling fails no operation: it has ended.
func TestABudgetThatPanicsWhileSettling(t *testing.T) {
	for name, end := range map[string]func(orc *retry.Orchestrator, x *op){
		"success": func(_ *retry.Orchestrator, x *op) {
			won, _ := x.st.Finish()
			require.True(t, won)
			x.st.Settle(nil)
			x.Done(nil, false)
		},
		"failure": func(orc *retry.Orchestrator, x *op) { x.answer(orc, retry.Unknown, retry.Hint{}) },
		"close":   func(orc *retry.Orchestrator, x *op) { x.answer(orc, retry.KVLocked, retry.Hint{}); orc.Close(nil) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				orc := retry.New(retry.Options{})
				x := newOp(false, time.Second)
				x.st.Strategy = after{retry.After(ms).Charged(&strangeBudget{})}
				x.answer(orc, retry.KVLocked, retry.Hint{})
				pass(10 * ms)
				end(orc, x)
				pass(time.Second)
				require.Equal(t, 1, x.ended())
				require.Zero(t, orc.Stats().Parked)
			})
		})
	}
}

// purses is a budget that cannot be compared.
type purses struct {
	*bank
	_ []int
}

func TestBudgetsThatAreOdd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{})
		x := newOp(true, time.Second)
		x.st.Strategy = after{retry.After(ms).Charged(&brokenBudget{})}
		x.answer(orc, retry.KVLocked, retry.Hint{})
		pass(time.Second)
		require.Equal(t, 1, x.ended())
		require.ErrorIs(t, x.err, retry.ErrThrottled)
		var p *retry.PanicError
		require.ErrorAs(t, x.err, &p)

		b := purses{bank: &bank{}}
		y := newOp(true, time.Second)
		y.st.Strategy = after{retry.After(ms).Charged(b)}
		for range 3 {
			y.answer(orc, retry.KVLocked, retry.Hint{})
			pass(10 * ms)
		}
		orc.Cancel(y, nil)
		require.Equal(t, []string{"5 false", "5 false", "5 false"}, b.settled)
	})
}
