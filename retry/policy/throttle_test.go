package policy_test

import (
	"math"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestTokens proves GA6-20 and I10 against a model: the maximum at first, one less for a failure, a ratio more for a
// success, never outside of 0 and the maximum.
func TestTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most, ratio := rapid.IntRange(1, 20).Draw(t, "max"), rapid.IntRange(1, 3000).Draw(t, "ratio")
		tokens, model := policy.NewTokens(most, ratio), most*1000
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			if rapid.Bool().Draw(t, "success") {
				tokens.Success()
				model = min(model+ratio, most*1000)
			} else {
				model = max(model-1000, 0)
				require.Equal(t, 2*model > most*1000, tokens.Failure())
			}
			require.Equal(t, 2*model > most*1000, tokens.Allowed())
		}
	})
	var none *policy.Tokens
	none.Success()
	require.True(t, none.Failure() && none.Allowed())
	huge := policy.NewTokens(math.MaxInt, math.MaxInt)
	require.True(t, huge.Failure() && huge.Allowed())
}

// TestTokensFromManyGoroutines proves GA6-20 under a race: no failure is lost.
func TestTokensFromManyGoroutines(t *testing.T) {
	tokens := policy.NewTokens(1000, 1000)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 120 {
				tokens.Failure()
			}
		})
	}
	wg.Wait()
	for range 20 {
		require.True(t, tokens.Allowed())
		tokens.Failure()
	}
	require.False(t, tokens.Allowed(), "500 of 1000 are left")
	for range 4 {
		wg.Go(func() {
			for range 100 {
				tokens.Success()
				tokens.Failure()
			}
		})
	}
	wg.Wait()
	require.False(t, tokens.Allowed())
	tokens.Success()
	require.True(t, tokens.Allowed(), "501")
	require.Zero(t, testing.AllocsPerRun(100, func() { tokens.Success(); tokens.Failure() }))
}

// TestFifthFailureOfTenStops proves GA6-21: at half of the tokens there are no retries until there are more.
func TestFifthFailureOfTenStops(t *testing.T) {
	tokens := policy.NewTokens(10, 100)
	for n, want := range []bool{true, true, true, true, false, false} {
		require.Equal(t, want, tokens.Failure(), "failure %d", n+1)
		require.Equal(t, want, tokens.Allowed())
	}
	for range 10 { // from 4 tokens back to 5
		require.False(t, tokens.Allowed())
		tokens.Success()
	}
	require.False(t, tokens.Allowed())
	tokens.Success()
	require.True(t, tokens.Allowed(), "above half")
}

func throttled(nodes map[string]*policy.Tokens) policy.Throttle {
	return policy.Throttle{Base: schedule(10), Node: func(e string) *policy.Tokens { return nodes[e] }}
}

// TestThrottleNeverWaits proves GA6-23 for retries: a refused one fails its operation at once, with the cause.
func TestThrottleNeverWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*policy.Tokens{"a": policy.NewTokens(10, 100)}
		c := run(throttled(nodes), retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20, 30, 40), c.at, "the fifth failure stops")
		require.Equal(t, 40*ms, c.end, "at once")
		c.ended(t, retry.ErrThrottled, errCause)
		next := run(throttled(nodes), retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0), next.at, "the first send is never refused")
		require.Zero(t, next.end)
		next.ended(t, retry.ErrThrottled, errCause)
		require.EqualValues(t, 1, next.orc.Stats().Operations[retry.OperationKey{
			Service:   retry.Query,
			Operation: "query",
		}].Throttled)
	})
}

// TestThrottleIsOfOneNode proves GA6-25: one node's failures stop retries there and nowhere else.
func TestThrottleIsOfOneNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nodes := map[string]*policy.Tokens{"a": policy.NewTokens(10, 100), "b": policy.NewTokens(10, 100)}
		run(throttled(nodes), retry.KVTemporaryFailure, retry.Hint{}).ended(t, retry.ErrThrottled)
		require.False(t, nodes["a"].Allowed())
		require.True(t, nodes["b"].Allowed())
		b := newCall(throttled(nodes), script(answer{why: retry.KVTemporaryFailure}, answer{ok: true}))
		b.endpoint = "b"
		require.Equal(t, inMS(0, 10), b.play().at)
		require.NoError(t, b.err)
		elsewhere := newCall(throttled(nodes), script(answer{why: retry.KVTemporaryFailure}, answer{ok: true}))
		elsewhere.endpoint = "unknown"
		require.Len(t, elsewhere.play().at, 2, "no tokens, no throttle")
	})
	require.True(t, retries(policy.Throttle{}, retry.Request{}, retry.KVLocked), "no nodes, no throttle")
}

// TestWhatCountsAgainstANode proves GA6-24, D5 and GA6-44: failures that the node is to blame for, and its wish not to
// be tried again; neither a busy item, nor what no server has seen, nor a reason that the policy does not list.
func TestWhatCountsAgainstANode(t *testing.T) {
	for why := range retry.All() {
		tokens := policy.NewTokens(2, 1)
		s := policy.Throttle{Node: func(string) *policy.Tokens { return tokens }}
		retries(s, retry.Request{}, why)
		require.Equal(t, !why.Fault(), tokens.Allowed(), "%v", why)
		if !why.Fault() {
			retries(s, retry.Request{Pushback: retry.PushbackNever()}, why)
			require.False(t, tokens.Allowed(), "%v, and do not retry", why)
			require.Equal(t, why.Unseen() && !why.Terminal(), retries(s, retry.Request{}, why), "%v while throttled",
				why)
		}
		require.False(t, why.Fault() && why.Unseen(), "%v", why)
	}

	tokens := policy.NewTokens(2, 1)
	s := policy.Only{
		Reasons: retry.Reasons(0).With(retry.KVTemporaryFailure),
		Base:    policy.Throttle{Node: func(string) *policy.Tokens { return tokens }, Base: policy.Pushback{}},
	}
	require.False(t, retries(s, retry.Request{}, retry.QueryIndexNotFound))
	require.True(t, tokens.Allowed(), "not listed")
	require.False(t, retries(s, retry.Request{Pushback: retry.PushbackNever()}, retry.QueryIndexNotFound))
	require.False(t, tokens.Allowed(), "not listed, but the node asked for quiet")
}

// TestThrottleSeesTheLastFailure counts the failure that a limit above ends.
func TestThrottleSeesTheLastFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tokens := policy.NewTokens(2, 1)
		s := policy.Limit{MaxAttempts: 1, Base: policy.Throttle{Node: func(string) *policy.Tokens { return tokens }}}
		run(s, retry.KVTemporaryFailure, retry.Hint{}).ended(t, errCause)
		require.False(t, tokens.Allowed())
	})
}
