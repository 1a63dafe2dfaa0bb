package field_test

import (
	"context"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
)

// An operation over several nodes waits for the map, and for its vbuckets. No request stands in for it meanwhile: a
// node would count, audit and meter what no program has asked for.
func TestWaitingForAMapSendsNothing_D160(t *testing.T) {
	s := scripted.New(t, 1)
	var full atomic.Bool
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		if full.Load() {
			return s.Render(scripted.Spec{Bucket: bucket, Rev: 2})
		}
		return s.Render(scripted.Spec{
			Bucket: bucket, Rev: 1, NoMap: true, Extra: `,"vBucketServerMap":{"hashAlgorithm":"CRC","numReplicas":0,` +
				`"serverList":[],"vBucketMap":[]}`,
		})
	}
	var made atomic.Int64
	s.Nodes[0].SetHook(func(_ *scripted.Session, p *memd.Packet) bool {
		switch {
		case p.Opcode == memd.OpHello: // the first map takes some time
			time.Sleep(50 * time.Millisecond)
		case p.Opcode == memd.OpNoop || p.Opcode == memd.OpGetMeta:
			made.Add(1)
		}
		return false
	})
	b := open(t, s, func(cfg *core.Config) { cfg.Maps.PollInterval = 50 * time.Millisecond }).Bucket("default")
	ctx := within(t, 5*time.Second)
	_, err := b.Layout(ctx)
	require.NoError(t, err)
	require.Zero(t, made.Load(), "for a layout")
	copies := make(chan error, 1)
	go func() {
		patient := kv.Common{Timeout: 5 * time.Second}
		_, err := kv.GetAnyReplica(ctx, b, kv.GetReplica{Key: []byte("k"), Common: patient})
		copies <- err
	}()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = kv.GetAnyReplica(short, b, kv.GetReplica{Key: []byte("k")})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	full.Store(true)
	require.Error(t, <-copies, "the document is not there")
	require.NoError(t, ctx.Err())
	require.Zero(t, made.Load(), "for a read of all copies")
}

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
			_, err := kv.GetAllReplicas(ctx, b, kv.GetReplica{Common: c, Key: key})
			return err
		},
		"any replica": func(ctx context.Context, b *core.Bucket, c kv.Common) error {
			_, err := kv.GetAnyReplica(ctx, b, kv.GetReplica{Common: c, Key: key})
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
