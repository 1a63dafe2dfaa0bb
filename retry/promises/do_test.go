package promises_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the statements of the second document, tried on a loop around a program's own code.

var errFlaky = errors.New("the service is flaky")

// tries is a block that fails the given number of times and notes when it ran.
type tries struct {
	fail  int
	err   error
	began time.Time
	at    []time.Duration
}

func failing(times int) *tries { return &tries{fail: times, err: errFlaky, began: time.Now()} }

func (b *tries) run(context.Context) (int, error) {
	b.at = append(b.at, time.Since(b.began))
	if len(b.at) <= b.fail {
		return 0, b.err
	}
	return 42, nil
}

// again asks for another try after every error, with a kind.
func again(k retry.Kind) retry.Evaluation[int] {
	return func(_ int, err error) retry.Directive {
		if err != nil {
			return retry.Again(k)
		}
		return retry.Succeed()
	}
}

const forever = 1 << 30

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestTheBlockIsAlwaysExecutedAtLeastOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		empty := policy.NewStore(0, 0, policy.Costs{})
		for name, l := range map[string]retry.Loop{
			"one attempt": {MaxAttempts: 1}, "no time": {MaxElapsed: 1}, "an empty bucket": {Bucket: empty},
			"a strategy that never retries": {Strategy: policy.Only{}},
		} {
			b := failing(0)
			n, err := retry.Do(t.Context(), l, again(retry.ServerSide), b.run)
			require.NoError(t, err, name)
			require.Equal(t, 42, n)
			require.Equal(t, in(0), b.at)
		}
		b := failing(0)
		n, err := retry.Do(ended, retry.Loop{}, again(retry.ServerSide), b.run)
		require.NoError(t, err, "a context that has ended does not keep the first try from running")
		require.Equal(t, 42, n)
	})
}

func TestTheResultIsEvaluatedNotOnlyTheError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		states := []string{"starting", "starting", "healthy"}
		n := 0
		state, err := retry.Do(t.Context(), retry.Loop{Strategy: every(time.Second)},
			func(s string, _ error) retry.Directive {
				if s == "healthy" {
					return retry.Succeed()
				}
				return retry.Again(retry.ServerSide)
			}, func(context.Context) (string, error) { n++; return states[n-1], nil })
		require.NoError(t, err)
		require.Equal(t, "healthy", state)
		require.Equal(t, 3, n)
	})
}

func TestTerminateAndSucceedReturnsTheResultsValue(t *testing.T) {
	n, err := retry.Do(t.Context(), retry.Loop{}, func(_ int, err error) retry.Directive {
		if errors.Is(err, io.EOF) { // what was wanted is there already
			return retry.Succeed()
		}
		return retry.Fail()
	}, func(context.Context) (int, error) { return 7, io.EOF })
	require.NoError(t, err)
	require.Equal(t, 7, n)
}

func TestTerminateAndFailReturnsTheResultsException(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := failing(forever)
		_, err := retry.Do(t.Context(), retry.Loop{}, func(int, error) retry.Directive { return retry.Fail() }, b.run)
		require.Same(t, errFlaky, err, "the error itself")
		require.Len(t, b.at, 1)

		n := 0
		last := errors.New("definite")
		_, err = retry.Do(t.Context(), retry.Loop{}, func(_ int, err error) retry.Directive {
			if errors.Is(err, last) {
				return retry.Fail()
			}
			return retry.Again(retry.ServerSide)
		}, func(context.Context) (int, error) {
			if n++; n == 3 {
				return 0, last
			}
			return 0, errFlaky
		})
		require.Same(t, last, err, "also after retries")

		n, err = retry.Do(t.Context(), retry.Loop{}, func(int, error) retry.Directive { return retry.Fail() },
			func(context.Context) (int, error) { return 9, nil })
		require.ErrorIs(t, err, retry.ErrRejected, "a result that is a failure")
		require.Equal(t, 9, n)
	})
}

func TestWithTooManyRetriesTheWorkflowExitsWithTheLastTrysError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		_, err := retry.Do(t.Context(), retry.Loop{MaxAttempts: 3}, again(retry.ServerSide), func(context.Context) (int,
			error,
		) {
			n++
			return 0, fmt.Errorf("%w: try %d", errFlaky, n)
		})
		require.Equal(t, 3, n, "the first try is one of them")
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.ErrorIs(t, err, errFlaky)
		require.ErrorContains(t, err, "try 3")
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		require.Equal(t, 2, info.Retries())
	})
}

func TestWithTooMuchTimeElapsedTheWorkflowExitsWithTheLastTrysError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := failing(forever)
		began := time.Now()
		_, err := retry.Do(t.Context(), retry.Loop{MaxElapsed: time.Second, Strategy: every(300 * ms)},
			again(retry.ServerSide), b.run)
		require.Equal(t, in(0, 300, 600, 900), b.at)
		require.Equal(t, time.Second, time.Since(began))
		require.ErrorIs(t, err, retry.ErrTimeout)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errFlaky)
	})
}

func TestAHangingTryIsEndedThroughItsContext(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for _, hangs := range []int{1, 3} {
			n := 0
			began := time.Now()
			_, err := retry.Do(t.Context(), retry.Loop{MaxElapsed: time.Second, Strategy: every(100 * ms)},
				again(retry.ServerSide),
				func(ctx context.Context) (int, error) {
					if n++; n == hangs {
						<-ctx.Done()
						return 0, fmt.Errorf("hung up: %w", ctx.Err())
					}
					return 0, errFlaky
				})
			require.Equal(t, time.Second, time.Since(began))
			require.ErrorIs(t, err, retry.ErrTimeout)
			if hangs > 1 {
				require.ErrorIs(t, err, errFlaky, "the timeout tells the previous result")
			}
		}
	})
}

func TestTheCallersContextEndsTheLoop(t *testing.T) {
	bubble(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(250*ms, func() { cancel(io.ErrClosedPipe) })
		b := failing(forever)
		began := time.Now()
		_, err := retry.Do(ctx, retry.Loop{Strategy: every(100 * ms)}, again(retry.ServerSide), b.run)
		require.Equal(t, 250*ms, time.Since(began), "in the middle of a delay")
		require.ErrorIs(t, err, retry.ErrCanceled)
		require.ErrorIs(t, err, io.ErrClosedPipe)
		require.ErrorIs(t, err, errFlaky)
	})
}

func TestAStrategyMayReactToErrorTypesInDifferentWays(t *testing.T) {
	const quota = retry.OwnKind + 3
	s := retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
		return retry.After(map[retry.Kind]time.Duration{
			retry.ServerSide: ms, retry.ClientSide: 2 * ms, retry.Throttling: 3 * ms, retry.Timeout: 4 * ms,
			quota: 5 * ms,
		}[r.Kind])
	})
	for k, want := range map[retry.Kind]time.Duration{
		retry.ServerSide: ms, retry.ClientSide: 2 * ms, retry.Throttling: 3 * ms, retry.Timeout: 4 * ms, quota: 5 * ms,
	} {
		bubble(t, func(t *testing.T) {
			b := failing(1)
			_, err := retry.Do(t.Context(), retry.Loop{Strategy: s}, again(k), b.run)
			require.NoError(t, err)
			require.Equal(t, []time.Duration{0, want}, b.at, "%v", k)
		})
	}
}

func TestBackoffOccursBeforeAttemptingToGetCapacity(t *testing.T) {
	bubble(t, func(t *testing.T) {
		empty := policy.NewStore(0, 0, policy.Costs{})
		began := time.Now()
		_, err := retry.Do(t.Context(), retry.Loop{Bucket: empty, Strategy: every(time.Second)},
			again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestExponentialBackoffIsAppliedBeforeRetriesButNotBeforeTheFirstTry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := failing(4)
		_, err := retry.Do(t.Context(), retry.Loop{Strategy: retry.BestEffort{Backoff: retry.Exponential(10*ms,
			time.Second, 2)}},
			again(retry.ServerSide), b.run)
		require.NoError(t, err)
		require.Equal(t, in(0, 10, 30, 70, 150), b.at)
	})
}

func TestTheBackoffUsesJitterToRandomizeTheRetryInterval(t *testing.T) {
	for roll, want := range map[float64]time.Duration{0: 500 * ms, 0.5: 750 * ms} {
		bubble(t, func(t *testing.T) {
			o := retry.New(retry.Options{Default: retry.BestEffort{}, JitterSource: func() float64 { return roll }})
			b := failing(12)
			_, err := retry.Do(t.Context(), retry.Loop{Orchestrator: o}, again(retry.ServerSide), b.run)
			require.NoError(t, err)
			require.Equal(t, want/2, b.at[12]-b.at[11], "of 500 ms a random half is waited")
		})
	}
}

// ledger is a token bucket of a test's that counts how tokens are resolved.
type ledger struct{ out, succeeded, failed, scheduled int }

type entry struct {
	l    *ledger
	over bool
}

func (l *ledger) Acquire(context.Context) (retry.Token, error) { l.out++; return &entry{l: l}, nil }

func (e *entry) resolve() {
	if e.over {
		panic("a token is resolved twice")
	}
	e.over = true
	e.l.out--
}
func (e *entry) NotifySuccess() { e.resolve(); e.l.succeeded++ }
func (e *entry) NotifyFailure() { e.resolve(); e.l.failed++ }
func (e *entry) ScheduleRetry(context.Context, retry.Kind) (retry.Token, error) {
	e.resolve()
	e.l.scheduled++
	e.l.out++
	return &entry{l: e.l}, nil
}

func TestEveryTokenIsResolvedOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for name, c := range map[string]struct {
			l    retry.Loop
			b    *tries
			eval retry.Evaluation[int]
			want ledger
		}{
			"success":         {retry.Loop{}, failing(0), again(0), ledger{succeeded: 1}},
			"success at last": {retry.Loop{}, failing(3), again(0), ledger{succeeded: 1, scheduled: 3}},
			"failure": {
				retry.Loop{},
				failing(1), func(int, error) retry.Directive { return retry.Fail() },
				ledger{failed: 1},
			},
			"too many attempts": {
				retry.Loop{MaxAttempts: 3},
				failing(forever), again(0),
				ledger{failed: 1, scheduled: 2},
			},
			"too much time": {
				retry.Loop{MaxElapsed: 5 * ms, Strategy: every(2 * ms)},
				failing(forever), again(0),
				ledger{failed: 1, scheduled: 2},
			},
			"a panic": {
				retry.Loop{},
				failing(forever), func(int, error) retry.Directive { panic("own") },
				ledger{failed: 1},
			},
		} {
			l := &ledger{}
			c.l.Bucket = l
			func() {
				defer func() { _ = recover() }()
				_, _ = retry.Do(t.Context(), c.l, c.eval, c.b.run)
			}()
			require.Equal(t, c.want, *l, name)
		}
	})
}

func TestAPanicOfTheBlockIsTheCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		require.PanicsWithValue(t, "own", func() {
			_, _ = retry.Do(t.Context(), retry.Loop{}, again(retry.ServerSide), func(context.Context) (int, error) {
				if n++; n == 2 {
					panic("own")
				}
				return 0, errFlaky
			})
		})
	})
}

func TestTheSameBudgetsAsTheClients(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(10, 0, policy.Costs{})
		b := failing(forever)
		_, err := retry.Do(t.Context(), retry.Loop{Strategy: policy.Bucket{Store: store, Base: every(ms)}},
			again(retry.Throttling), b.run)
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.ErrorIs(t, err, errFlaky)
		require.Len(t, b.at, 2)
	})
}

func TestTheSameStrategiesAsTheClients(t *testing.T) {
	for name, c := range map[string]struct {
		s    retry.Strategy
		want []time.Duration
	}{
		"limit of attempts": {policy.Limit{MaxAttempts: 3, Base: every(ms)}, in(0, 1, 2)},
		"limits of time": {
			policy.Limit{Soft: time.Second, Hard: 2 * time.Second, Base: of(150, 300, 500, 1150)},
			in(0, 150, 450, 950),
		},
		"only": {policy.Only{Base: every(ms)}, in(0)},
		"only, listed": {
			policy.Only{Reasons: retry.Reasons(0).With(retry.EvaluationIndicated), Base: policy.Limit{
				MaxAttempts: 2,
				Base:        every(ms),
			}}, in(0, 1),
		},
		"a function": {retry.Func(func(_ context.Context, r *retry.Request, _ retry.Reason) retry.Action {
			if r.Retries() == 2 {
				return retry.Stop()
			}
			return retry.After(time.Second)
		}), in(0, 1000, 2000)},
	} {
		bubble(t, func(t *testing.T) {
			b := failing(forever)
			_, err := retry.Do(t.Context(), retry.Loop{Strategy: c.s}, again(retry.ServerSide), b.run)
			require.ErrorIs(t, err, errFlaky, name)
			require.Equal(t, c.want, b.at, name)
		})
	}
}

func TestTheServersDelayIsWaitedExactly(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := failing(2)
		_, err := retry.Do(t.Context(), retry.Loop{}, func(_ int, err error) retry.Directive {
			if err != nil {
				return retry.Again(retry.Throttling).After(3 * time.Second)
			}
			return retry.Succeed()
		}, b.run)
		require.NoError(t, err)
		require.Equal(t, in(0, 3000, 6000), b.at)
	})
}

func TestTheSameStatisticsAsTheClients(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		l := w.c.Loop("import")
		_, err := retry.Do(t.Context(), l, again(retry.ServerSide), failing(3).run)
		require.NoError(t, err)
		l.MaxAttempts = 2
		_, err = retry.Do(t.Context(), l, again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrExhausted)
		s := w.c.RetryStats().Operations[retry.OperationKey{Service: retry.Own, Operation: "import"}]
		require.EqualValues(t, 4, s.Retries)
		require.EqualValues(t, 3, s.Failed)
		require.EqualValues(t, 1, s.GaveUp)
		require.Equal(t, [...]uint64{2, 1, 1, 0, 0, 0, 0, 0}, s.Histogram)
	})
}

func TestAClosedClientEndsItsLoops(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		l := w.c.Loop("import")
		l.Strategy = every(time.Hour)
		time.AfterFunc(time.Second, func() { _ = w.c.Close() })
		began := time.Now()
		_, err := retry.Do(t.Context(), l, again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrClosed)
		require.ErrorIs(t, err, errFlaky)
		require.Equal(t, time.Second, time.Since(began))
	})
}

func TestAFirstTryThatSucceedsCostsNothing(t *testing.T) {
	store := policy.NewStore(100, time.Second, policy.Costs{})
	short := policy.NewStore(100, 0, policy.Costs{})
	for range 19 {
		_, _ = short.Take(retry.ServerSide) // so that each success has something to give back
	}
	block := func(context.Context) (int, error) { return 1, nil }
	ctx := context.Background()
	for name, l := range map[string]retry.Loop{
		"nothing": {}, "attempts": {MaxAttempts: 3, Name: "x"}, "a bucket": {Bucket: store},
		"a bucket that is not full": {Bucket: short},
		"a bucket that waits":       {Bucket: store.Waiting()}, "a strategy": {Strategy: retry.BestEffort{}},
	} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			if _, err := retry.Do(ctx, l, again(retry.ServerSide), block); err != nil {
				panic(err)
			}
			if _, err := retry.Do(ctx, l, nil, block); err != nil {
				panic(err)
			}
		}), name)
	}
}
