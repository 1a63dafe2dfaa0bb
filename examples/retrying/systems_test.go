package retrying_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the programs of the README's section on retrying, one for each of the five systems.

func Example_reasons() {
	with(nil, func(ctx context.Context, w world) {
		w.refuse(memd.OpSet, memd.StatusTmpFail, 2)
		bucket := w.bucket
		patient := retry.BestEffort{Backoff: retry.Exponential(time.Millisecond, 100*time.Millisecond, 2)}
		res, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("{}"), Common: kv.Common{Retry: patient}})
		fmt.Println(err, res.RetryInfo().Retries(), res.RetryInfo().Reasons)
	})
	// Output: <nil> 2 KV_TEMPORARY_FAILURE
}

func Example_loop() {
	with(nil, func(ctx context.Context, w world) {
		bucket := w.bucket
		w.refuse(memd.OpGet, memd.StatusTmpFail, 2)
		once := policy.Limit{MaxAttempts: 1}
		budget := policy.NewStore(500, 100*time.Millisecond, policy.DefaultCosts()) // 500 tokens, one more every 100 ms
		loop := retry.Loop{Name: "read", Bucket: budget, MaxAttempts: 3, MaxElapsed: 10 * time.Second}
		doc, err := retry.Do(ctx, loop, nil, func(ctx context.Context) (kv.GetResult, error) {
			return kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: once}}) // the loop repeats it
		})
		fmt.Println(err, string(doc.Value))
	})
	// Output: <nil> {}
}

func Example_softAndHard() {
	const ms = time.Millisecond
	with(nil, func(ctx context.Context, w world) {
		bucket := w.bucket
		w.refuse(memd.OpGet, memd.StatusTmpFail, 9)
		delays := retry.Schedule(15*ms, 30*ms, 50*ms, 115*ms)
		limited := policy.Limit{Soft: 100 * ms, Hard: 200 * ms, Base: retry.BestEffort{Backoff: delays}}
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: limited}})
		info, _ := retry.InfoOf(err)
		// the fourth would pass the hard limit
		fmt.Println(info.Retries(), info.Waited, errors.Is(err, retry.ErrExhausted))
	})
	// Output: 3 95ms true
}

func Example_comeBack() {
	with(nil, func(ctx context.Context, w world) {
		w.server.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/pools"},
			mock.Answer{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"0"}}},
			mock.Answer{Status: http.StatusForbidden, Body: []byte("{}")})
		cluster := w.cluster
		patient := core.HTTPRequest{Method: "GET", Path: "/pools", Retry: policy.Graph(), Timeout: policy.GraphTime}
		resp, err := cluster.Do(ctx, &patient) // a 503 with Retry-After is waited for, a 403 is an answer
		if err != nil {
			panic(err) // a *core.ResponseError has the failed response
		}
		fmt.Println(resp.Status, resp.Body.Close())
	})
	// Output: 403 <nil>
}

func Example_file() {
	with(func(cfg *core.Config) {
		var err error
		cfg.Retry.Policy, err = core.ParsePolicy([]byte(`{"retryThrottling":{"maxTokens":10,"tokenRatio":0.1},"operationConfig":[
			{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.02s"}},
			{"name":[{}],"retryPolicy":{"maxAttempts":4,"initialBackoff":"0.01s","maxBackoff":"1s","backoffMultiplier":2,
				"retryableReasons":["KV_TEMPORARY_FAILURE",503]}}]}`))
		if err != nil {
			panic(err) // it names the JSON path and the value
		}
	}, func(ctx context.Context, w world) {
		// the active copy says nothing
		w.server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.DropReply())
		fmt.Println(must(kv.Do(ctx, w.bucket, kv.Get{Key: key})).FromReplica)
	})
	// Output: true
}

// The following are of the guide.

// doubling is a strategy with a backoff of its own.
type doubling struct{ retry.FastFailOnTerminalError }

// RetryAfter implements retry.Strategy.
func (s doubling) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why != retry.KVTemporaryFailure {
		return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
	}
	return retry.After(min(2*time.Millisecond<<min(r.BackoffStep, 6), 100*time.Millisecond)) // 2, 4, 8, ... 100 ms
}

func Example_ownBackoff() {
	with(func(cfg *core.Config) { cfg.Retry.Strategy = doubling{} }, func(ctx context.Context, w world) {
		w.refuse(memd.OpSet, memd.StatusTmpFail, 3)
		info := must(kv.Do(ctx, w.bucket, kv.Upsert{Key: key, Value: []byte("{}")})).RetryInfo()
		fmt.Println(info.Retries(), info.Waited)
	})
	// Output: 3 14ms
}

func Example_budget() {
	with(func(cfg *core.Config) {
		budget := policy.NewStore(15, time.Second, policy.Costs{Server: 5, Client: 5, Timeout: 5, Throttling: 10})
		cfg.Retry.Strategy = policy.Bucket{Store: budget} // all calls of the cluster share it
	}, func(ctx context.Context, w world) {
		bucket := w.bucket
		w.refuse(memd.OpGet, memd.StatusTmpFail, 9)
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key})
		fmt.Println(errors.Is(err, retry.ErrThrottled), errors.Is(err, cberr.TemporaryFailure))
	})
	// Output: true true
}

func Example_own() {
	with(nil, func(ctx context.Context, w world) {
		cluster := w.cluster
		w.server.ScriptQuery("system:indexes", mock.Answer{Rows: []string{"0"}}, mock.Answer{Rows: []string{"1"}})
		loop := cluster.Loop("wait for the index") // its retries are in cluster.RetryStats, cluster.Close ends it
		loop.Strategy, loop.MaxElapsed = retry.BestEffort{Backoff: retry.Constant(10 * time.Millisecond)}, time.Minute
		online, err := retry.Do(ctx, loop, func(online int, err error) retry.Directive {
			if err == nil && online == 0 {
				return retry.Again(retry.ServerSide)
			}
			return retry.Evaluate(err)
		}, func(ctx context.Context) (int, error) { return indexes(ctx, cluster) })
		fmt.Println(online, err)
	})
	// Output: 1 <nil>
}

// indexes counts those that are online.
func indexes(ctx context.Context, c *core.Cluster) (n int, err error) {
	rows, err := c.Query(ctx,
		&query.Request{Statement: "SELECT RAW COUNT(*) FROM system:indexes WHERE state = 'online'", Readonly: true})
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(&n); err != nil {
			return 0, err
		}
	}
	return n, rows.Err()
}

func Example_hedgedQuery() {
	with(nil, func(ctx context.Context, w world) {
		cluster := w.cluster
		rows, err := cluster.Query(ctx, &query.Request{
			Statement: "SELECT 1", Readonly: true, Hedge: &query.Hedge{MaxAttempts: 2, Delay: 50 * time.Millisecond},
		})
		if err != nil {
			panic(err)
		}
		for rows.Next() {
			fmt.Println(string(rows.Row()))
		}
	})
	// Output: {"$1":1}
}

func Example_retryAfter() {
	with(nil, func(ctx context.Context, w world) {
		w.server.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/pools"},
			mock.Answer{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"0"}}},
			mock.Answer{Body: []byte("{}")})
		cluster := w.cluster
		// 503 with Retry-After: 0, and then 200
		resp, err := cluster.Do(ctx, &core.HTTPRequest{Method: "GET", Path: "/pools"})
		if err != nil {
			panic(err)
		}
		fmt.Println(resp.Status, resp.Retry.Retries(), resp.Retry.Reasons, resp.Body.Close())
	})
	// Output: 200 1 SERVICE_RESPONSE_CODE_INDICATED <nil>
}
