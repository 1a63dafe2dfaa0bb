package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// impatient waits for everything but a lock.
type impatient struct{ retry.FastFailOnTerminalError }

// RetryAfter implements retry.Strategy.
func (s impatient) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why == retry.KVLocked {
		return retry.Stop()
	}
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

func main() {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(3)))
	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password, cfg.Retry.Strategy = "Administrator", core.NewSecret("password"), impatient{}
	cluster := must(core.Open(ctx, cfg))
	bucket := cluster.Bucket("default")
	key := []byte("airline_10")
	must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("{}")}))

	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	res := must(kv.Do(ctx, bucket, kv.Get{Key: key}))
	fmt.Println("busy: ok after", res.RetryInfo().Retries(), "retries")

	server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusLocked))
	_, err := kv.Do(ctx, bucket, kv.Get{Key: key})
	var failed *kv.Error
	fmt.Println("locked:", errors.As(err, &failed), failed.Kind(), "after", failed.Retry.Retries(), "retries")

	fmt.Println("closed:", errors.Join(cluster.Close(), server.Close()) == nil)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
