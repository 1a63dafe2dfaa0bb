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
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

var key = []byte("airline_10")

// world is a mock cluster and a client of it.
type world struct {
	server  *mock.Cluster
	cluster *core.Cluster
	bucket  *core.Bucket
}

// with runs f with a cluster that has one document, and a client that change has configured.
func with(change func(*core.Config), f func(ctx context.Context, w world)) {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(2), mock.VBuckets(16)))
	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	if change != nil {
		change(&cfg)
	}
	cluster := must(core.Open(ctx, cfg))
	bucket := cluster.Bucket(mock.DefaultBucket)
	must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("{}"), Durability: memd.DurabilityMajority}))
	f(ctx, world{server, cluster, bucket})
	if err := errors.Join(cluster.Close(), server.Close()); err != nil {
		panic(err)
	}
}

// refuse lets the next requests of a kind fail.
func (w world) refuse(op memd.Opcode, st memd.Status, times int) {
	w.server.Inject(mock.Match{Opcodes: []memd.Opcode{op}, Times: times}, mock.Status(st))
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func Example_perCall() {
	with(nil, func(ctx context.Context, w world) {
		w.refuse(memd.OpSet, memd.StatusTmpFail, 2)
		bucket := w.bucket
		patient := retry.BestEffort{Backoff: retry.Constant(2 * time.Millisecond)}
		res, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("{}"), Common: kv.Common{Retry: patient}})
		fmt.Println(err, res.RetryInfo().Retries(), res.RetryInfo().Waited)
	})
	// Output: <nil> 2 4ms
}

func Example_backoff() {
	backoff := retry.Clamp(retry.FullJitter(retry.Exponential(5*time.Millisecond, time.Second, 2), nil),
		time.Millisecond, time.Second)
	strategy := retry.FastFailOnTerminalError{Base: retry.BestEffort{Backoff: backoff}}

	with(func(cfg *core.Config) { cfg.Retry.Strategy = strategy }, func(ctx context.Context, w world) {
		w.refuse(memd.OpGet, memd.StatusTmpFail, 2)
		fmt.Println(must(kv.Do(ctx, w.bucket, kv.Get{Key: key})).RetryInfo().Retries())
	})
	// Output: 2
}

func Example_limit() {
	with(nil, func(ctx context.Context, w world) {
		bucket := w.bucket
		w.refuse(memd.OpGet, memd.StatusTmpFail, 9)
		twice := policy.Limit{MaxAttempts: 2}
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: twice}})
		fmt.Println(errors.Is(err, retry.ErrExhausted), errors.Is(err, cberr.TemporaryFailure))
	})
	// Output: true true
}

func Example_only() {
	onlyLocks := policy.Only{Reasons: retry.Reasons(0).With(retry.KVLocked)}
	with(func(cfg *core.Config) { cfg.Retry.Strategy = onlyLocks }, func(ctx context.Context, w world) {
		w.refuse(memd.OpGet, memd.StatusTmpFail, 1)
		_, err := kv.Do(ctx, w.bucket, kv.Get{Key: key})
		fmt.Println(errors.Is(err, cberr.TemporaryFailure))
	})
	// Output: true
}

func Example_policyFile() {
	file := []byte(`{"operationConfig":[{"name":[{"service":"kv","operation":"upsert"}],"retryPolicy":{"maxAttempts":2,
		"initialBackoff":"0.001s","maxBackoff":"0.01s","backoffMultiplier":2,"retryableReasons":["KV_TEMPORARY_FAILURE"]}}]}`)
	with(func(cfg *core.Config) {
		read, err := core.ParsePolicy(file)
		if err != nil {
			panic(err) // it names the JSON path and the value
		}
		cfg.Retry.Policy = read
	}, func(ctx context.Context, w world) {
		w.refuse(memd.OpSet, memd.StatusTmpFail, 9)
		_, err := kv.Do(ctx, w.bucket, kv.Upsert{Key: key, Value: []byte("{}")})
		fmt.Println(errors.Is(err, retry.ErrExhausted))
	})
	// Output: true
}

func Example_policyError() {
	_, err := core.ParsePolicy([]byte(`{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1}}]}`))
	fmt.Println(err)
	// Output: operationConfig[0].retryPolicy.maxAttempts: must be an integer above 1: 1
}

func Example_hedging() {
	with(nil, func(ctx context.Context, w world) {
		bucket := w.bucket
		// the active copy says nothing
		w.server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.DropReply())
		res, err := kv.Do(ctx, bucket, kv.Get{Key: key, Hedge: &kv.Hedge{MaxAttempts: 2, Delay: 10 * time.Millisecond}})
		fmt.Println(err, res.FromReplica)
	})
	// Output: <nil> true
}

func Example_info() {
	with(nil, func(ctx context.Context, w world) {
		bucket := w.bucket
		w.refuse(memd.OpGet, memd.StatusTmpFail, 9)
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: policy.Limit{MaxAttempts: 3}}})
		if info, ok := retry.InfoOf(err); ok {
			fmt.Println("sent again", info.Retries(), "times because of", info.Reasons, "last stage", info.Stage)
			for _, a := range info.Log {
				_ = a.Endpoint // and a.At, and a.Delay
				fmt.Println(a.Reason)
			}
		}
		var failed *kv.Error
		if errors.As(err, &failed) {
			fmt.Println(failed.Kind(), "may have been applied:", failed.Ambiguous())
		}
	})
	// Output:
	// sent again 2 times because of KV_TEMPORARY_FAILURE last stage response
	// KV_TEMPORARY_FAILURE
	// KV_TEMPORARY_FAILURE
	// KV_TEMPORARY_FAILURE
	// temporary_failure may have been applied: false
}

func Example_classify() {
	with(func(cfg *core.Config) {
		cfg.Retry.Classify = func(a core.Answer) retry.Reason {
			if a.Operation == "get" && memd.Status(a.Code) == memd.StatusInternal {
				return retry.KVTemporaryFailure
			}
			return retry.Unknown // as without the hook
		}
	}, func(ctx context.Context, w world) {
		w.refuse(memd.OpGet, memd.StatusInternal, 1)
		fmt.Println(must(kv.Do(ctx, w.bucket, kv.Get{Key: key})).RetryInfo().Reasons)
	})
	// Output: KV_TEMPORARY_FAILURE
}

func Example_failedResponse() {
	with(nil, func(ctx context.Context, w world) {
		w.server.Script(mock.ServiceMatch{Service: mock.ManagementService}, mock.Answer{
			Status: http.StatusServiceUnavailable, Header: http.Header{"X-Reason": {"rebalance"}},
			Body: []byte("later"),
		})
		cluster := w.cluster
		_, err := cluster.Do(ctx, &core.HTTPRequest{Method: "PUT", Path: "/pools"})
		var failed *core.ResponseError
		if errors.As(err, &failed) {
			fmt.Println(failed.Status, failed.Header["X-Reason"], string(failed.Body))
		}
	})
	// Output: 503 [rebalance] later
}

func Example_graph() {
	with(nil, func(ctx context.Context, w world) {
		cluster := w.cluster
		patient := core.HTTPRequest{Method: "GET", Path: "/pools", Retry: policy.Graph(), Timeout: policy.GraphTime}
		resp, err := cluster.Do(ctx, &patient)
		fmt.Println(err, resp.Status)
		_ = resp.Body.Close()
	})
	// Output: <nil> 200
}

func Example_stats() {
	with(nil, func(ctx context.Context, w world) {
		cluster := w.cluster
		w.refuse(memd.OpGet, memd.StatusTmpFail, 2)
		must(kv.Do(ctx, w.bucket, kv.Get{Key: key}))
		gets := cluster.RetryStats().Operations[retry.OperationKey{Service: retry.KV, Operation: "get"}]
		fmt.Println(gets.Retries, gets.Failed)
	})
	// Output: 2 1
}
