package field_test

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// TestWaitingForAMapIsBoundedByTheOperation_D165: what is done on every node, and what polls copies, waits for the map
// with the operation's own timeout and asks the operation's own strategy.
func TestWaitingForAMapIsBoundedByTheOperation_D165(t *testing.T) {
	const limit = 300 * time.Millisecond
	stop := retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })
	key := []byte("k")
	for name, run := range map[string]func(context.Context, *core.Bucket, kv.Common) error{
		"statistics": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.StatAll(ctx, b, kv.Stat{Common: c})
			return err
		},
		"manifests": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.ManifestAll(ctx, b, kv.GetManifest{Common: c})
			return err
		},
		"all replicas": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.GetAllReplicas(ctx, b, kv.GetReplicas{Common: c, Key: key})
			return err
		},
		"any replica": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.GetAnyReplica(ctx, b, kv.GetReplicas{Common: c, Key: key})
			return err
		},
		"a polled write": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.DoPolled(ctx, b, kv.Upsert{Common: c, Key: key}, kv.PollDurability{PersistTo: 1})
			return err
		},
		"a scan": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			s, err := kv.Scan{Common: c}.Run(ctx, b)
			if err == nil {
				s.Close()
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := openConfig(t, core.Config{
					Seeds: core.SeedConfig{Hosts: []string{"127.0.0.1:1"}},
					Net: core.NetConfig{Dial: func(context.Context, string, string) (net.Conn, error) {
						return nil, syscall.ECONNREFUSED
					}},
				}).Bucket("default")
				began := time.Now()
				require.Error(t, run(t.Context(), b, kv.Common{Timeout: limit}))
				require.InDelta(t, limit, time.Since(began), float64(20*time.Millisecond))

				began = time.Now()
				require.Error(t, run(t.Context(), b, kv.Common{Retry: stop}))
				require.Less(t, time.Since(began), time.Second)
			})
		})
	}
}
