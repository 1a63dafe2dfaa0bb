package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// withoutBase are the wrappers as a user writes them to add one thing.
func withoutBase() map[string]retry.Strategy {
	all := ^retry.Reasons(0)
	return map[string]retry.Strategy{
		"Limit":            policy.Limit{MaxAttempts: 100},
		"Limit of time":    policy.Limit{MaxElapsed: time.Minute},
		"soft and hard":    policy.Limit{Soft: time.Minute, Hard: time.Minute},
		"Only":             policy.Only{Reasons: all},
		"Bucket":           policy.Bucket{Store: policy.NewStore(1000, time.Millisecond, policy.Costs{})},
		"Throttle":         policy.Throttle{Node: func(string) *policy.Tokens { return policy.NewTokens(100, 100) }},
		"Pushback":         policy.Pushback{},
		"one in the other": policy.Limit{MaxAttempts: 100, Base: policy.Only{Reasons: all, Base: policy.Bucket{}}},
		"a pointer":        &policy.Limit{MaxAttempts: 100, Base: &policy.Pushback{}},
	}
}

func TestAddingALimitDoesNotLoseFastFailure(t *testing.T) {
	for name, s := range withoutBase() {
		for place, change := range map[string]func(*core.Config){"of the call": nil, "of the cluster": strategy(s)} {
			t.Run(name+" "+place, func(t *testing.T) {
				own := s
				if change != nil {
					own = nil
				} else {
					change = func(*core.Config) {}
				}
				virtualOf(t, asApp(), func(t *testing.T, w *world) {
					b := w.c.Bucket("absent")
					took, err := upsertIn(t, b, own)
					require.ErrorIs(t, err, cberr.BucketAccess)
					require.ErrorIs(t, err, retry.ErrTerminal)
					require.Less(t, took, time.Second)
				}, change, asAppUser)
			})
		}
	}
}

func TestAWrapperWithoutABaseInheritsTheClustersStrategy(t *testing.T) {
	for name, s := range withoutBase() {
		t.Run(name, func(t *testing.T) {
			global := &recorder{base: every(7 * ms)}
			virtual(t, func(t *testing.T, w *world) {
				w.refuses(memd.OpSet, 2, memd.StatusTmpFail)
				took, _, err := w.upsert(s)
				require.NoError(t, err)
				require.Equal(t, 14*ms, took, "the cluster's own delays")
				require.Len(t, global.asked(), 2)
			}, strategy(global))
		})
	}
}

func TestAWrapperWithoutABaseAddsItsLimitToTheClustersStrategy(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(policy.Limit{MaxAttempts: 3})
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Equal(t, 3, in.Fired())
	}, strategy(every(ms)))
}

// TestAClustersOwnWrapperWithoutABaseEndsInTheBuiltInStrategy: a default that inherits the default has an end.
func TestAClustersOwnWrapperWithoutABaseEndsInTheBuiltInStrategy(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(nil)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 4, in.Fired())
		_, _, err = w.upsert(policy.Limit{MaxAttempts: 2})
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 6, in.Fired(), "both limits hold")
	}, strategy(policy.Limit{MaxAttempts: 4}))
}

// TestAThrottledFailureCountsOnce: the throttle of a policy file binds the call's own strategy and the default that it
// inherits, and a failure is one failure.
func TestAThrottledFailureCountsOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		_, _, err := w.upsert(policy.Limit{MaxAttempts: 50})
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, 5, in.Fired(), "the fifth failure of ten tokens stops, whatever is around the strategy")
	}, file(t, `{"retryThrottling":{"maxTokens":10,"tokenRatio":0.1}}`))
}

// lockAverse is the README's strategy: it embeds the default.
type lockAverse struct{ retry.FastFailOnTerminalError }

func (s lockAverse) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why == retry.KVLocked {
		return retry.Stop()
	}
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

func TestAStrategyThatEmbedsTheDefaultFailsFastOnTerminalErrors(t *testing.T) {
	virtualOf(t, asApp(), func(t *testing.T, w *world) {
		_, err := upsertIn(t, w.c.Bucket("absent"), nil)
		require.ErrorIs(t, err, retry.ErrTerminal)
		w.refuses(memd.OpSet, 1, memd.StatusLocked)
		_, _, err = w.upsert(nil)
		require.ErrorIs(t, err, cberr.DocumentLocked)
	}, strategy(lockAverse{}), asAppUser)
}
