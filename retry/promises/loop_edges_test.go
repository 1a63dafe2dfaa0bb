package promises_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// kindsSeen runs a call under Do, and gives the kinds of its failures as the loop's strategy is told them. It is empty
// for a failure that is not repeated.
func kindsSeen(t *testing.T, call func(context.Context) error) (kinds []retry.Kind) {
	t.Helper()
	s := &recorder{base: every(ms)}
	_, err := retry.Do(t.Context(), retry.Loop{MaxAttempts: 2, Strategy: s}, nil,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	require.Error(t, err)
	for _, r := range s.asked() {
		require.Equal(t, retry.EvaluationIndicated, r.why)
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// The standard evaluation tells the kind of each failure: a timeout, a limit of what is retried, or the reason's own.
func TestTheStandardEvaluationNamesTheKindOfTheFailure(t *testing.T) {
	upsert := func(w *world, s retry.Strategy) func(context.Context) error {
		return func(ctx context.Context) error {
			_, err := kv.Do(ctx, w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s, Timeout: 100 * ms}})
			return err
		}
	}
	for name, c := range map[string]struct {
		st   memd.Status
		s    retry.Strategy
		kind retry.Kind
	}{
		"a temporary failure": {memd.StatusTmpFail, once, retry.Throttling},
		"a locked document":   {memd.StatusLocked, once, retry.ServerSide},
		"a timeout":           {memd.StatusLocked, every(10 * ms), retry.Timeout},
		"a budget that is spent": {
			memd.StatusLocked,
			policy.Bucket{Base: every(ms), Store: policy.NewStore(5, 0, policy.Costs{})},
			retry.Throttling,
		},
	} {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 0, c.st)
			require.Equal(t, []retry.Kind{c.kind, c.kind}, kindsSeen(t, upsert(w, c.s)), name)
		})
	}
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		first := make(chan error, 1)
		go func() { first <- upsert(w, every(50*ms))(t.Context()) }()
		time.Sleep(ms)
		require.Equal(t, []retry.Kind{retry.Throttling, retry.Throttling}, kindsSeen(t, upsert(w, every(50*ms))),
			"too many calls wait for a retry")
		require.Error(t, <-first)
	}, func(c *core.Config) { c.Limits.Parked = 1 })
}

// pushedBack is an error of a program's own with what a server has said of the next try.
type pushedBack struct{ p retry.Pushback }

func (e pushedBack) Error() string                   { return "own" }
func (e pushedBack) Pushback() retry.Pushback        { return e.p }
func (e pushedBack) RetryDirective() retry.Directive { return retry.Again(retry.ServerSide) }

// What a server says of the next try is heard by the standard evaluation: its delay, and its request not to be tried
// again. A delay that the error's own directive names goes first.
func TestTheStandardEvaluationHearsThePushback(t *testing.T) {
	for value, want := range map[string][]time.Duration{
		"700": in(0, 700), "-1": in(0), "nonsense": in(0), "": in(0, 1),
	} {
		bubble(t, func(t *testing.T) {
			b := failing(forever)
			own := pushedBack{}
			if value != "" {
				own.p = retry.ParsePushback(value)
			}
			b.err = fmt.Errorf("wrapped: %w", own)
			_, err := retry.Do(t.Context(), retry.Loop{MaxAttempts: 2, Strategy: retry.BestEffort{
				Backoff: retry.Constant(ms),
			}}, nil, b.run)
			require.Error(t, err)
			require.Equal(t, want, b.at, "%q", value)
			require.Equal(t, len(want) == 2, errors.Is(err, retry.ErrExhausted), "%q", value)
		})
	}
	virtualOf(t, oneNode(), func(t *testing.T, w *world) {
		sc := w.manager(answered(429, "", pushback, "-1"))
		require.Empty(t, kindsSeen(t, func(context.Context) error {
			_, err := w.do(core.HTTPRequest{Method: "GET", Retry: never{}})
			return err
		}))
		require.Equal(t, 1, sc.Fired())
	})
}

// The last try of a loop is a failure for what counts failures: a throttle, and a strategy of the program's.
func TestTheLastTryIsAFailureToo(t *testing.T) {
	bubble(t, func(t *testing.T) {
		for most := 1; most <= 3; most++ {
			s := &recorder{base: every(ms)}
			b := failing(forever)
			_, err := retry.Do(t.Context(), retry.Loop{MaxAttempts: most, Strategy: s}, again(retry.ServerSide), b.run)
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.Len(t, b.at, most)
			require.Len(t, s.asked(), most)
			for i, r := range s.asked() {
				require.Equal(t, []int{i, i}, []int{r.Counted, r.Retries()})
			}
		}
		b := failing(forever)
		_, err := retry.Do(t.Context(), retry.Loop{MaxAttempts: 3, Strategy: stops{}}, again(retry.ServerSide), b.run)
		require.NotErrorIs(t, err, retry.ErrExhausted, "the strategy has ended it, not the limit")
		require.ErrorIs(t, err, errFlaky)
		require.Len(t, b.at, 1)
	})
}

// A retry that the bucket does not pay for is not made, and not counted anywhere.
func TestARetryThatTheBucketRefusesIsNotCounted(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		l := w.c.Loop("refused")
		l.Bucket, l.Strategy = policy.NewStore(7, 0, policy.Costs{}), every(ms)
		_, err := retry.Do(t.Context(), l, again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrThrottled)
		info, _ := retry.InfoOf(err)
		require.Equal(t, 1, info.Retries())
		s := w.c.RetryStats().Operations[retry.OperationKey{Service: retry.Own, Operation: "refused"}]
		require.Equal(t, []uint64{1, 1, 1, 1}, []uint64{s.Retries, s.Failed, s.GaveUp, s.Throttled})
	})
}
