package policy_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestStackIsInline checks that every wrapper answers for what it wraps, and that a nil Base is BestEffort.
func TestStackIsInline(t *testing.T) {
	blocking := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	for _, wrap := range []func(retry.Strategy) retry.Strategy{
		func(b retry.Strategy) retry.Strategy { return policy.Limit{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Throttle{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Bucket{Base: b} },
		func(b retry.Strategy) retry.Strategy { return policy.Pushback{Base: b} },
		func(b retry.Strategy) retry.Strategy {
			return policy.Only{Base: b, Reasons: retry.Reasons(0).With(retry.KVLocked)}
		},
	} {
		name := fmt.Sprintf("%T", wrap(nil))
		require.True(t, retry.IsInline(wrap(nil)), name)
		require.True(t, retry.IsInline(wrap(retry.BestEffort{})), name)
		require.False(t, retry.IsInline(wrap(blocking)), name)
		r := &retry.Request{Idempotent: true, JitterSource: random(0.5), BackoffStep: 3}
		d, ok := wrap(nil).RetryAfter(t.Context(), r, retry.KVLocked).Delay()
		require.True(t, ok, name)
		require.Equal(t, 6*ms, d, name)
	}
}

// TestStackFromOutsideIn runs the whole stack in the order that the package recommends.
func TestStackFromOutsideIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := policy.NewTokens(100, 100)
		s := retry.FastFailOnTerminalError{Base: policy.Only{
			Reasons: retry.Reasons(0).With(retry.KVTemporaryFailure).With(retry.AuthenticationError),
			Base: policy.Limit{
				MaxAttempts: 3,
				Base: policy.Throttle{
					Node: func(string) *policy.Tokens { return tokens },
					Base: policy.Pushback{Base: schedule(10)},
				},
			},
		}}
		require.True(t, retry.IsInline(s))
		require.ErrorIs(t, run(s, retry.AuthenticationError, retry.Hint{}).err, retry.ErrTerminal)
		f := run(s, retry.KVTemporaryFailure, retry.Hint{})
		require.ErrorIs(t, f.err, retry.ErrExhausted)
		require.Len(t, f.at, 3)
		require.Len(t, run(s, retry.KVLocked, retry.Hint{}).at, 1)
	})
}
