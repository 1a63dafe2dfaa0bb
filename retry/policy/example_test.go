package policy_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// A policy file gives operations a strategy; what is wrong with one is said with its path and value.
func ExampleParse() {
	const file = `{"operationConfig": [{
		"name": [{"service": "query"}],
		"retryPolicy": {
			"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s", "backoffMultiplier": 2,
			"retryableReasons": ["QUERY_INDEX_NOT_FOUND"], "hardLimit": "2s"
		}
	}]}`
	cfg, err := policy.Parse([]byte(file), policy.ParseOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, ok := cfg.For(retry.Query, "query")
	fmt.Println(ok, retry.IsInline(e.Strategy))

	_, err = policy.Parse([]byte(`{"retryThrottling": {"maxTokens": 5000, "tokenRatio": 0.1}}`), policy.ParseOptions{})
	var wrong *policy.ParseError
	if errors.As(err, &wrong) {
		fmt.Println(wrong.Path, wrong.Value)
	}
	fmt.Println(err)
	// Output:
	// true true
	// retryThrottling.maxTokens 5000
	// retryThrottling.maxTokens: must be an integer from 1 to 1000: 5000
}

// Wrappers are stacked around a strategy, and each only narrows or delays what the one below it would do.
func ExampleLimit() {
	backoff := retry.Exponential(100*time.Millisecond, time.Second, 2)
	s := policy.Limit{
		Base:        policy.Pushback{Base: retry.BestEffort{Backoff: backoff}},
		MaxAttempts: 6,
		Hard:        2 * time.Second,
		Fit:         policy.Drop,
	}
	fmt.Println(s.Plan(backoff))
	// Output: 2s
}

// A budget is shared by operations; what a successful one has paid for its retries comes back.
func ExampleBucket() {
	store := policy.NewStore(500, time.Second, policy.Costs{})
	s := policy.Limit{MaxAttempts: 3, Base: policy.Bucket{Store: store}}
	fmt.Println(retry.IsInline(s), store.Tokens())
	// Output: true 500
}
