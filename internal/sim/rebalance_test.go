package sim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

const (
	rebalanceVBuckets = 1024
	rebalanceWorkers  = 64
	rebalanceSettled  = 250 * time.Millisecond // after its end, every call needs one request
)

// open makes a client of a cluster on a network in memory.
func open(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password, cfg.Net.Dial = mock.DefaultUser, core.NewSecret(mock.DefaultPassword), m.Dial
	for _, f := range change {
		f(&cfg)
	}
	c, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	return c
}

// moved is one call under a rebalance.
type moved struct {
	began   time.Time
	key     string
	write   bool
	got     string
	retries int
	err     error
}

// request is what the nodes see of it.
func (c *moved) request() memd.Opcode {
	if c.write {
		return memd.OpAdd
	}
	return memd.OpGet
}

// moving is the load under a rebalance.
type moving struct {
	m  *mock.Cluster
	b  *core.Bucket
	mu sync.Mutex
	// Of all calls; their frames are those of the mock.
	calls []moved
}

// load makes calls until ctx ends: each worker writes a document of its own and reads it back.
func (l *moving) load(ctx context.Context, worker int) {
	for n := 0; ctx.Err() == nil; n++ {
		time.Sleep(time.Duration(4000+(worker*7919+n*104729)%4000) * time.Microsecond)
		c := moved{began: time.Now(), key: fmt.Sprintf("k-%d-%d", worker, n/2), write: n%2 == 0}
		if c.write {
			res, err := kv.Do(context.Background(), l.b, kv.Insert{Key: []byte(c.key), Value: []byte(c.key)})
			c.retries, c.err = res.RetryInfo().Retries(), err
		} else {
			res, err := kv.Do(context.Background(), l.b, kv.Get{Key: []byte(c.key)})
			c.got, c.retries, c.err = string(res.Value), res.RetryInfo().Retries(), err
		}
		l.mu.Lock()
		l.calls = append(l.calls, c)
		l.mu.Unlock()
	}
}

func (l *moving) frames() int { return l.m.Frames(memd.OpAdd) + l.m.Frames(memd.OpGet) }

func (l *moving) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.calls)
}

// atOnce is the mock's own rebalance: eight maps, one right after the other.
func atOnce(t *testing.T, m *mock.Cluster) {
	node := m.AddNode()
	time.Sleep(300 * time.Millisecond)
	require.NoError(t, m.Rebalance())
	time.Sleep(600 * time.Millisecond)
	require.NoError(t, m.RemoveNode(node))
}

// stepwise moves one vbucket after the other, with a map each, to a fourth node and back.
func stepwise(t *testing.T, m *mock.Cluster) {
	require.NoError(t, m.Respawn(3))
	for vb := range rebalanceVBuckets {
		if vb%4 == 3 {
			require.NoError(t, m.MoveVBucket("default", vb, 3))
		} else { // within the three, so that every vbucket moves
			require.NoError(t, m.MoveVBucket("default", vb, (vb*3/rebalanceVBuckets+1)%3))
		}
		time.Sleep(1700 * time.Microsecond)
	}
	for vb := range rebalanceVBuckets {
		require.NoError(t, m.MoveVBucket("default", vb, vb*3/rebalanceVBuckets))
		time.Sleep(1300 * time.Microsecond)
	}
}

// Every vbucket moves, 3 -> 4 -> 3 nodes, under load: at most 1.1 requests for a call, nothing lost, nothing applied
// twice, and from 250 ms after the end on one request for a call.
func TestRebalanceUnderLoad(t *testing.T) {
	for name, run := range map[string]struct {
		nodes  int
		move   func(*testing.T, *mock.Cluster)
		pushes bool
	}{
		"at once, told":      {3, atOnce, true},
		"at once, not told":  {3, atOnce, false},
		"stepwise, told":     {4, stepwise, true},
		"stepwise, not told": {4, stepwise, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(run.nodes), mock.Replicas(1), mock.Virtual(), mock.RecordFrames(),
					mock.Latency(200*time.Microsecond), mock.Bucket("default", rebalanceVBuckets))
				if run.nodes > 3 { // the fourth begins without any vbucket
					for vb := range rebalanceVBuckets {
						require.NoError(t, m.MoveVBucket("default", vb, vb*3/rebalanceVBuckets))
					}
				}
				c := open(t, m, func(cfg *core.Config) { cfg.Maps.NoNotifications = !run.pushes })
				rebalance(t, m, c.Bucket("default"), run.move)
				require.NoError(t, c.Close())
			})
		})
	}
}

func rebalance(t *testing.T, m *mock.Cluster, b *core.Bucket, move func(*testing.T, *mock.Cluster)) {
	t.Helper()
	ready, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, b.WaitReady(ready))
	l := &moving{m: m, b: b}
	ctx, stop := context.WithCancel(t.Context())
	var workers sync.WaitGroup
	for id := range rebalanceWorkers {
		workers.Go(func() { l.load(ctx, id) })
	}
	time.Sleep(100 * time.Millisecond)
	beforeCalls, beforeFrames := l.count(), l.frames()
	move(t, m)
	ended := time.Now()
	duringCalls, duringFrames := l.count()-beforeCalls, l.frames()-beforeFrames
	time.Sleep(rebalanceSettled + 500*time.Millisecond)
	stop()
	workers.Wait()

	perCall := float64(duringFrames) / float64(duringCalls)
	t.Logf("%d calls during the rebalance, %.3f requests each; %d calls altogether", duringCalls, perCall, len(l.calls))
	require.Greater(t, duringCalls, 3000)
	require.LessOrEqual(t, perCall, 1.1)
	require.LessOrEqual(t, float64(l.frames())/float64(len(l.calls)), 1.1)
	applied := map[string]int{}
	for _, a := range m.ApplyLog("default") {
		applied[a.Key]++
	}
	type request struct {
		op  memd.Opcode
		key string
	}
	sent := map[request]int{}
	for _, f := range m.FrameLog() {
		if f.Opcode == memd.OpAdd || f.Opcode == memd.OpGet {
			sent[request{f.Opcode, f.Key[1:]}]++ // behind the default collection's id
		}
	}
	retried, later := 0, 0
	for _, c := range l.calls {
		require.NoError(t, c.err, c.key)
		require.Equal(t, 1, applied[c.key], c.key)
		if !c.write {
			require.Equal(t, c.key, c.got)
		}
		if c.retries > 0 {
			retried++
		}
		if c.began.After(ended.Add(rebalanceSettled)) {
			later++
			require.Zero(t, c.retries, "%s began %v after the end", c.key, c.began.Sub(ended))
			require.Equal(t, 1, sent[request{c.request(), c.key}], "%s began %v after the end", c.key,
				c.began.Sub(ended))
		}
	}
	require.Positive(t, later)
	require.Positive(t, retried, "no call has met the rebalance")
}
