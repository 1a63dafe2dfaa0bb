package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: console CONNECTION_STRING CONTROL_API")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:gocritic // the signal's handler ends with the process
	}
}

// run writes and reads orders until ctx ends. Failures are shown by the console.
func run(ctx context.Context, connection, controlAPI string) (err error) {
	cfg, err := core.ParseConnString(connection)
	if err != nil {
		return err
	}
	cfg.Auth.Username, cfg.Auth.Password = "Administrator", core.NewSecret("password")
	r := report("orders", controlAPI)
	defer r.close()
	cfg.Observe.Hook, cfg.Observe.Retry = r, r
	cluster, err := core.Open(ctx, cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	bucket := cluster.Bucket("default")
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		key := fmt.Appendf(nil, "order::%d", n%100)
		_, _ = kv.Do(about(ctx, key), bucket, kv.Upsert{Key: key, Value: []byte(`{"total":7}`)})
		_, _ = kv.Do(about(ctx, key), bucket, kv.Get{Key: key})
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
