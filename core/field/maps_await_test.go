package field_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
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
		_, err := kv.GetAnyReplica(ctx, b, kv.GetReplicas{Key: []byte("k"), Common: patient})
		copies <- err
	}()
	short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, err = kv.GetAnyReplica(short, b, kv.GetReplicas{Key: []byte("k")})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	full.Store(true)
	require.Error(t, <-copies, "the document is not there")
	require.NoError(t, ctx.Err())
	require.Zero(t, made.Load(), "for a read of all copies")
}
