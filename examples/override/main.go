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

// noRetries is a strategy: it is asked why an attempt failed, and says when to try again, or not.
var noRetries = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })

func main() {
	ctx := context.Background()
	server := must(mock.New(mock.Nodes(3)))
	cfg := must(core.ParseConnString(server.ConnString()))
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	cluster := must(core.Open(ctx, cfg))
	bucket := cluster.Bucket("default")
	key := []byte("airline_10")
	must(kv.Do(ctx, bucket, kv.Upsert{Key: key, Value: []byte("{}")}))
	refuseTwice := func() *mock.Injection {
		return server.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	}

	refuseTwice()
	res := must(kv.Do(ctx, bucket, kv.Get{Key: key}))
	info := res.RetryInfo()
	fmt.Printf("the cluster's strategy: ok after %d retries because of %v\n", info.Retries(), info.Reasons)

	refuseTwice()
	_, err := kv.Do(ctx, bucket, kv.Get{Key: key, Common: kv.Common{Retry: noRetries}})
	var failed *kv.Error
	fmt.Println("this call's own:", errors.As(err, &failed), failed.Kind(), failed.Retry.Retries(), "retries")

	fmt.Println("closed:", errors.Join(cluster.Close(), server.Close()) == nil)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
