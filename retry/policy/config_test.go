package policy_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
	"github.com/couchcore/couchcore/retry/policy"
)

// strategyOf is what a document has for every operation.
func strategyOf(t testing.TB, text string) retry.Strategy {
	t.Helper()
	e, ok := parse(t, text, policy.ParseOptions{}).For(retry.Query, "query")
	require.True(t, ok)
	require.NotNil(t, e.Strategy)
	return e.Strategy
}

// TestFileGovernsAnOperation runs a file's stack under the orchestrator: attempts, delays, limits, and reasons that it
// does not list.
func TestFileGovernsAnOperation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strategyOf(t, retryPolicy(map[string]string{"jitter": `"none"`, "retryableReasons": `["KV_LOCKED",429,"SCOPE_NOT_FOUND"]`}))
		c := run(s, retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 100, 300, 700), c.at)
		c.ended(t, retry.ErrExhausted, errCause)
		require.Len(t, run(s, retry.ServiceResponseCodeIndicated, retry.Hint{Code: 429}).at, 4)
		require.Len(t, run(s, retry.ServiceResponseCodeIndicated, retry.Hint{Code: 503}).at, 1)
		require.ErrorIs(t, run(s, retry.ScopeNotFound, retry.Hint{}).err, retry.ErrTerminal,
			"fast failing lies outside")

		c = run(s, retry.KVLocked, retry.Hint{Pushback: retry.PushbackAfter(time.Minute)})
		require.Equal(t, inMS(0, 60e3, 120e3, 180e3), c.at, "GA6-28: no attempt more")

		limits := map[string]string{"jitter": `"none"`, "softLimit": `"0.3s"`}
		require.Equal(t, inMS(0, 100, 300), run(strategyOf(t, retryPolicy(limits)), retry.KVLocked, retry.Hint{}).at,
			"300 ms are waited")
		limits = map[string]string{"jitter": `"none"`, "hardLimit": `"0.6s"`}
		c = run(strategyOf(t, retryPolicy(limits)), retry.KVLocked, retry.Hint{})
		require.Equal(t, inMS(0, 100, 300), c.at, "a third retry would come after 700 ms")
		require.Equal(t, 300*ms, c.end)
	})
}

// TestUnsafeCodesOfAFile proves GA6-6 with a file: its reasons do not get a write sent twice.
func TestUnsafeCodesOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strategyOf(t, retryPolicy(map[string]string{"retryableReasons": `["SOCKET_CLOSED_WHILE_IN_FLIGHT"]`}))
		for _, idempotent := range []bool{false, true} {
			c := newCall(s, script(answer{lost: true}))
			c.st.Idempotent = idempotent
			c.play().ended(t, io.EOF)
			require.Equal(t, !idempotent, c.inDoubt)
			require.Len(t, c.at, map[bool]int{false: 1, true: 5}[idempotent], "the first loss is transparent")
		}
	})
}

// TestPushbackRestartsEveryJitter proves GA6-29 for the file's backoffs, also the one that goes by the last delay.
func TestPushbackRestartsEveryJitter(t *testing.T) {
	for _, jitter := range []string{"none", "additive", "decorrelated"} {
		synctest.Test(t, func(t *testing.T) {
			fields := map[string]string{"maxAttempts": `6`, "jitter": strconv.Quote(jitter)}
			c := parse(t, retryPolicy(fields), policy.ParseOptions{MaxAttemptsCap: 10, JitterSource: random(0.5)})
			e, _ := c.For(retry.KV, "get")
			withoutHint := answer{why: retry.KVLocked}
			pushed := answer{why: retry.KVLocked, hint: retry.Hint{Pushback: retry.PushbackAfter(900 * ms)}}
			x := newCall(e.Strategy, script(withoutHint, withoutHint, pushed, withoutHint, withoutHint,
				answer{ok: true})).play()
			require.Len(t, x.at, 6)
			delay := func(n int) time.Duration { return x.at[n+1] - x.at[n] }
			require.Equal(t, 900*ms, delay(2))
			require.Equal(t, delay(0), delay(3), jitter)
			require.Equal(t, delay(1), delay(4), jitter)
		})
	}
}

// TestDisabledAndPinned proves GA6-46: with retries switched off only what no server has seen, and what is always
// retried, is sent again, whatever a file says; and a file can forbid that a caller replaces its policy.
func TestDisabledAndPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := strategyOf(t, retryPolicy(map[string]string{
			"jitter": `"none"`, "retryableReasons": `["KV_LOCKED","KV_TEMPORARY_FAILURE","NODE_NOT_AVAILABLE","SOCKET_CLOSED_WHILE_IN_FLIGHT"]`,
		}))
		for _, c := range []struct {
			first   answer
			retried bool
		}{
			{answer{why: retry.KVLocked}, false},
			{answer{why: retry.KVTemporaryFailure}, false},
			{answer{lost: true}, false},
			{answer{why: retry.NodeNotAvailable, none: true}, true},
			{answer{why: retry.KVNotMyVBucket}, true},
			{answer{why: retry.KVCollectionOutdated}, true},
		} {
			x := newCall(nil, script(c.first, answer{ok: true}))
			x.orc = retry.New(retry.Options{Default: s, DisableRetries: true})
			x.play()
			require.Equal(t, c.retried, x.err == nil, "%+v", c)
			enabled := newCall(s, script(c.first, answer{ok: true})).play()
			require.NoError(t, enabled.err)
		}
	})
	for _, document := range []func(map[string]string) string{retryPolicy, hedgingPolicy} {
		for value, want := range map[string]bool{"": false, `false`: false, `true`: true} {
			e, _ := parse(t, document(map[string]string{"pinned": value}), policy.ParseOptions{}).For(retry.KV, "get")
			require.Equal(t, want, e.Pinned)
		}
	}
}

// TestThrottleOfAFile proves GA6-21, GA6-23 and GA6-25 with a file: each node has its own tokens, which the stack and
// the one that sees successes share.
func TestThrottleOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := `{"retryThrottling":{"maxTokens":10,"tokenRatio":0.5},` +
			retryPolicy(map[string]string{"jitter": `"none"`, "retryableReasons": `["KV_TEMPORARY_FAILURE"]`})[1:]
		cfg := parse(t, text, policy.ParseOptions{})
		e, _ := cfg.For(retry.KV, "get")
		layers(t, e.Strategy, true)
		require.Len(t, run(e.Strategy, retry.KVTemporaryFailure, retry.Hint{}).at, 4, "four failures leave six tokens")
		x := run(e.Strategy, retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, inMS(0), x.at, "the fifth leaves five")
		require.Zero(t, x.end)
		x.ended(t, retry.ErrThrottled, errCause)
		require.False(t, cfg.Tokens("a").Allowed())
		require.True(t, cfg.Tokens("b").Allowed())
		cfg.Tokens("a").Success()
		require.True(t, cfg.Tokens("a").Allowed(), "5.5")

		// A strategy from elsewhere is bound too.
		own := cfg.Throttled(schedule(10))
		require.True(t, retry.IsInline(own))
		require.Len(t, run(own, retry.KVTemporaryFailure, retry.Hint{}).at, 1)
		require.Nil(t, cfg.Throttled(nil))
		none := parse(t, `{}`, policy.ParseOptions{})
		require.Equal(t, retry.BestEffort{}, none.Throttled(retry.BestEffort{}), "no throttle: the strategy itself")
		require.Nil(t, none.Tokens("a"))
	})
}

// TestTokensOfNodes keeps the registry bounded, free of nodes that left, and free of locks and allocations where a node
// is known.
func TestTokensOfNodes(t *testing.T) {
	cfg := parse(t, throttling(nil), policy.ParseOptions{})
	require.Nil(t, cfg.Tokens(""), "no endpoint, no node")
	a, b := cfg.Tokens("a"), cfg.Tokens("b")
	require.NotSame(t, a, b)
	require.Same(t, a, cfg.Tokens("a"))
	require.Zero(t, testing.AllocsPerRun(100, func() { cfg.Tokens("a") }))
	for range 5 {
		a.Failure()
		b.Failure()
	}
	cfg.Retain(func(endpoint string) bool { return endpoint == "a" })
	require.Equal(t, 1, cfg.Nodes())
	require.Same(t, a, cfg.Tokens("a"))
	require.True(t, cfg.Tokens("b").Allowed(), "a node that comes back starts afresh")
	for n := range policy.MaxNodes {
		cfg.Tokens(strconv.Itoa(n))
	}
	require.Equal(t, policy.MaxNodes, cfg.Nodes())
	require.Nil(t, cfg.Tokens("one too many"))
	require.Same(t, a, cfg.Tokens("a"))
	cfg.Retain(func(string) bool { return false })
	require.Zero(t, cfg.Nodes())
	require.NotNil(t, cfg.Tokens("one too many"))
}

// TestTokensOfNodesFromManyGoroutines checks that everyone gets the same tokens of a node, also while others come and
// go.
func TestTokensOfNodesFromManyGoroutines(t *testing.T) {
	cfg := parse(t, throttling(nil), policy.ParseOptions{})
	kept := cfg.Tokens("kept")
	var wg sync.WaitGroup
	same := make([][]*policy.Tokens, 4)
	for g := range same {
		wg.Go(func() {
			for n := range 200 {
				same[g] = append(same[g], cfg.Tokens(fmt.Sprint("node", n)))
				if cfg.Tokens("kept") != kept {
					same[g] = nil
				}
				cfg.Tokens(fmt.Sprint("passing", g, n))
				cfg.Retain(func(endpoint string) bool { return endpoint == "kept" || endpoint[0] == 'n' })
			}
		})
	}
	wg.Wait()
	for g := range same {
		require.Equal(t, same[0], same[g])
		require.Len(t, same[g], 200)
	}
	require.Equal(t, 201, cfg.Nodes())
}

func TestNoConfig(t *testing.T) {
	var none *policy.Config
	_, ok := none.For(retry.KV, "get")
	require.False(t, ok)
	_, _, ok = none.Throttling()
	require.False(t, ok)
	require.Nil(t, none.Tokens("a"))
	require.Equal(t, retry.BestEffort{}, none.Throttled(retry.BestEffort{}))
	none.Retain(func(string) bool { return false })
}

func TestLookingUpAllocatesNothing(t *testing.T) {
	data, err := os.ReadFile("testdata/policy.json")
	require.NoError(t, err)
	cfg := parse(t, string(data), policy.ParseOptions{})
	require.Zero(t, testing.AllocsPerRun(100, func() { cfg.For(retry.KV, "get"); cfg.For(retry.Views, "x") }))
}

// pushing is a failure with which a server asks for quiet.
type pushing struct{ after time.Duration }

func (pushing) Error() string              { return "busy" }
func (p pushing) Pushback() retry.Pushback { return retry.PushbackAfter(p.after) }

// TestHedgesOfAFile proves GA6-30 with a hedging policy of a file: a delay that a server names moves the next hedge,
// and the file's delay resumes after it.
func TestHedgesOfAFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, _ := parse(t, hedgingPolicy(map[string]string{"maxAttempts": `4`, "hedgingDelay": `"0.5s"`}), policy.ParseOptions{}).For(retry.KV, "get")
		start := time.Now()
		var mu sync.Mutex
		var at []time.Duration
		_, _, err := hedge.Do(t.Context(), hedge.Policy{
			MaxAttempts: e.Hedge.MaxAttempts, Delay: e.Hedge.Delay, Idempotent: true,
			NonFatal: func(error) bool { return true },
		}, func(ctx context.Context, n int, _ *hedge.Avoid) (int, error) {
			mu.Lock()
			at = append(at, time.Since(start))
			mu.Unlock()
			if n == 0 {
				return 0, pushing{70 * ms}
			}
			if n < 3 {
				<-ctx.Done()
				return 0, ctx.Err()
			}
			return n, nil
		})
		require.NoError(t, err)
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, inMS(0, 70, 570, 1070), at)
	})
}
