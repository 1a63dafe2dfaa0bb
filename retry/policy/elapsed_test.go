package policy_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// The clock of a file's token bucket may be code of the user's, which uses the bucket itself.
func TestTheClockOfABucketIsNotAskedUnderItsLock_D208(t *testing.T) {
	var cfg *policy.Config
	inside := false
	cfg, err := policy.Parse([]byte(`{"tokenBucket":{"capacity":10,"refill":"1s"},"operationConfig":[
		{"name":[{}],"retryPolicy":{"maxAttempts":3,"initialBackoff":"1s","maxBackoff":"1s","backoffMultiplier":1,
		"retryableReasons":["KV_TEMPORARY_FAILURE"]}}]}`), policy.ParseOptions{Elapsed: func() time.Duration {
		if cfg != nil && !inside {
			inside = true
			_, _ = ask(cfg)
		}
		return 0
	}})
	require.NoError(t, err)
	_, ok := ask(cfg)
	require.True(t, ok)
	require.True(t, inside)
}

// ask pays for a retry under the file.
func ask(cfg *policy.Config) (d time.Duration, ok bool) {
	e, _ := cfg.For(retry.KV, "get")
	p := retry.Rehearsal{Ask: func(r *retry.Request, why retry.Reason) retry.Action {
		return e.Strategy.RetryAfter(nil, r, why) //nolint:staticcheck // shipped strategies look at no context
	}}
	next := p.Next(retry.KVTemporaryFailure)
	return next.Delay, !next.Unpaid
}
