package guides_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

var key = []byte("order::1")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// withPassword runs f with a mock cluster and a client that logs in with a password.
func withPassword(password string, f func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster)) {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(2), mock.VBuckets(16)))
	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(password)
	cluster := must(core.Open(ctx, cfg))
	f(ctx, server, cluster)
	if err := errors.Join(cluster.Close(), server.Close()); err != nil {
		panic(err)
	}
}

func with(f func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster)) {
	withPassword(mock.DefaultPassword, f)
}

func Example_errors() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))

		_, err := kv.Do(ctx, bucket, kv.Insert{Key: []byte("order::1"), Value: []byte("{}")})
		var failed *kv.Error
		switch {
		case errors.Is(err, cberr.DocumentExists):
			fmt.Println("it exists")
		case errors.As(err, &failed) && failed.InDoubt:
			fmt.Println("it may have been written: read it before you write it again")
		case err != nil:
			fmt.Println(err) // on which node, after how many retries, why
		}
	})
	// Output: it exists
}

func Example_timeout() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))

		_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Timeout: 100 * time.Millisecond}})
		fmt.Println(err)
	})
	// Output: <nil>
}

func Example_shutdown() {
	with(func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))
		writing := kv.Start(ctx, bucket, kv.Upsert{Key: key})

		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := cluster.Shutdown(ctx); err != nil {
			fmt.Println(err) // how many operations had to be ended, or what did not close
		}

		_, err := writing.Wait(ctx)
		fmt.Println("the write that was under way:", err)
		_, err = kv.Do(ctx, bucket, kv.Get{Key: key})
		fmt.Println("a new call:", errors.Is(err, retry.ErrClosed))
	})
	// Output:
	// the write that was under way: <nil>
	// a new call: true
}

func Example_timeoutSaysWhy() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))

		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Drop()) // a node that does not answer
		_, err := kv.Do(ctx, bucket, kv.Upsert{Key: key, Common: kv.Common{Timeout: 50 * time.Millisecond}})
		var failed *kv.Error
		if errors.As(err, &failed) {
			fmt.Println(failed.Kind(), "|", failed.Stage, "|", failed.InDoubt)
		}
	})
	// Output: ambiguous_timeout | waiting for the answer | true
}

func Example_watch() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))
		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		must(kv.Do(ctx, bucket, kv.Get{Key: key}))
		if err := bucket.WaitReady(ctx); err != nil {
			panic(err)
		}

		report := cluster.Diagnostics() // asks no node
		for _, c := range report.Services["kv"] {
			fmt.Println(c.State, c.Queued, c.InFlight)
		}
		stats := cluster.RetryStats()
		get := stats.Operations[retry.OperationKey{Service: retry.KV, Operation: "get"}]
		fmt.Println(get.Reasons[retry.KVTemporaryFailure].Retries)
	})
	// Output:
	// connected 0 0
	// connected 0 0
	// 2
}

func Example_wrongPassword() {
	withPassword("wrong", func(ctx context.Context, _ *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key})
		fmt.Println(errors.Is(err, cberr.Timeout), errors.Is(err, cberr.AuthenticationFailure))

		patient := kv.Common{Retry: retry.BestEffort{}, Timeout: 200 * time.Millisecond}
		_, err = kv.Do(ctx, bucket, kv.Get{Key: key, Common: patient})
		fmt.Println(errors.Is(err, cberr.Timeout), errors.Is(err, cberr.AuthenticationFailure))
	})
	// Output:
	// false true
	// true true
}

func Example_once() {
	with(func(ctx context.Context, server *mock.Cluster, cluster *core.Cluster) {
		bucket := cluster.Bucket("default")
		must(kv.Do(ctx, bucket, kv.Upsert{Key: key}))
		server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.Status(memd.StatusTmpFail))

		once := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
		_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: once}})

		fmt.Println(errors.Is(err, cberr.TemporaryFailure))
	})
	// Output: true
}
