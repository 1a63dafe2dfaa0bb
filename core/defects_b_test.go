package core_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// D54: wherever calls wait, no more of them do than the limits of queues and of retries allow together; those beyond
// end at once and say so. Attempts that come due add nothing to what waits.
func TestLimitsBoundAllThatWaits_D54(t *testing.T) {
	const queue, parked, waiters = 100, 300, 32768 // waiters for collections have the default limit
	many := 100_000
	if raceEnabled {
		many = 5000
	}
	for name, c := range map[string]struct {
		calls, most int
		collection  string
		stop        func(t *testing.T, m *mock.Cluster, b *core.Bucket)
	}{
		"a dead node": {calls: many, most: parked, stop: func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
			require.NoError(t, m.Kill(0))
			time.Sleep(100 * time.Millisecond)
		}},
		"a connection that is being made": {calls: many / 5, most: queue + parked, stop: func(t *testing.T,
			m *mock.Cluster, _ *core.Bucket,
		) {
			m.Inject(only(memd.OpHello, 0), mock.Delay(5*time.Second))
			require.NoError(t, m.CloseConns(0))
			synctest.Wait()
		}},
		"a collection's id": {calls: waiters + 5000, most: waiters + parked, collection: "c", stop: func(_ *testing.T,
			m *mock.Cluster, _ *core.Bucket,
		) {
			m.Inject(only(memd.OpCollectionsGetID, 0), mock.Drop())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")),
					mock.Virtual())
				b := open(t, m, func(c *core.Config) {
					c.Limits.Queue, c.Limits.Parked = queue,
						parked
				}).Bucket("default")
				require.NoError(t, b.WaitReady(ctx(t)))
				c.stop(t, m, b)
				op := kv.Get{Key: []byte("k")}
				if c.collection != "" {
					op.Scope, op.Collection = "s", c.collection
				}
				began := time.Now()
				fs, all := make([]kv.Future[kv.GetResult], 0, c.calls), ctx(t)
				for range c.calls {
					fs = append(fs, kv.Start(all, b, op))
				}
				for i := range 5 {
					synctest.Wait()
					waiting := 0
					for _, f := range fs {
						select {
						case <-f.Done():
						default:
							waiting++
						}
					}
					if i == 0 {
						require.GreaterOrEqual(t, waiting, c.most-1) // the client asks for a map itself
					}
					require.LessOrEqual(t, waiting, c.most)
					time.Sleep(300 * time.Millisecond)
				}
				refused := 0
				for _, f := range fs {
					select {
					case <-f.Done():
						if _, err := f.Wait(all); !errors.Is(err, retry.ErrTooManyInRetry) {
							require.ErrorIs(t, err, retry.ErrTooManyInRetry)
						}
						refused++
					default:
					}
				}
				require.GreaterOrEqual(t, refused, c.calls-c.most)
				require.Less(t, time.Since(began), 2*time.Second)
			})
		})
	}
}

// stalled gives a bucket whose calls wait for a connection, and fit in its queue. Its clock is the real one.
func stalled(t *testing.T) *core.Bucket {
	t.Helper()
	m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16))
	b := open(t, m, func(c *core.Config) { c.Limits.Queue, c.KV.Timeout = 1<<20, time.Minute }).Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	m.Inject(only(memd.OpHello, 0), mock.Delay(40*time.Second))
	require.NoError(t, m.CloseConns(0))
	return b
}

// D57: what it costs to cancel a call that waits does not grow with how many others do. Those that began last go first:
// who walks the queue meets all others.
func TestCancelingDoesNotWalkTheQueue_D57(t *testing.T) {
	many := 150_016
	if raceEnabled {
		many = 10_000
	}
	each := func(n int) time.Duration {
		b := stalled(t)
		fs := make([]kv.Future[kv.GetResult], n)
		for i := range fs {
			fs[i] = kv.Start(context.Background(), b, kv.Get{Key: []byte("k")})
		}
		runtime.GC() // not meanwhile
		began := time.Now()
		for i := range fs {
			if !fs[n-1-i].Cancel() {
				t.Fatal("it has ended by itself")
			}
		}
		return time.Since(began) / time.Duration(n)
	}
	least, all := time.Hour, time.Hour
	for range 3 { // a busy machine may spoil some
		least, all = min(least, each(many/64)), min(all, each(many))
	}
	t.Logf("to cancel one of %d takes %v, one of %d %v", many/64, least, many, all)
	if !raceEnabled { // what it costs hides what a walk would
		require.Less(t, all, 24*least) // a walk makes it more than 50 times as much, a busy machine up to 10 times
	}
}

// wakeUps is how often goroutines became ready to run; the runtime counts about one in eight.
func wakeUps() (n uint64) {
	s := []metrics.Sample{{Name: "/sched/latencies:seconds"}}
	metrics.Read(s)
	for _, c := range s[0].Value.Float64Histogram().Counts {
		n += c
	}
	return n
}

// D64: a call wakes the one connection that it goes over, however many there are to its node.
func TestACallWakesOneConnection_D64(t *testing.T) {
	each := map[int]uint64{}
	for _, conns := range []int{1, 16} {
		change := func(c *core.Config) {
			c.KV.Connections = conns
			dial := c.Net.Dial
			c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				return struct{ net.Conn }{nc}, err // without a raw socket each has a goroutine that writes
			}
		}
		limited(t, change, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
			require.NoError(t, b.WaitReady(ctx(t)))
			time.Sleep(time.Second) // all are connected
			for range 5 {           // the rest of the process may wake goroutines too
				before := wakeUps()
				for range 1000 {
					_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
					require.NoError(t, err)
				}
				if n := wakeUps() - before; each[conns] == 0 || n < each[conns] {
					each[conns] = n
				}
			}
		})
	}
	require.Positive(t, each[1])
	require.Less(t, each[16], 3*each[1])
}

// D66: each of the four ways to survive a change of the cluster is walked, alone: nothing else could have helped.
func TestEveryWayOfFailoverIsWalked_D66(t *testing.T) {
	alone := kv.Common{Retry: retry.Func(func(context.Context, *retry.Request,
		retry.Reason,
	) retry.Action {
		return retry.Stop()
	})}
	for name, c := range map[string]struct {
		push   bool
		change func(t *testing.T, m *mock.Cluster, vb int)
		check  func(t *testing.T, m *mock.Cluster, b *core.Bucket, key []byte)
	}{
		"not my vbucket": {change: func(t *testing.T, m *mock.Cluster, vb int) {
			require.NoError(t, m.MoveVBucket("default", vb, 1))
		}, check: func(t *testing.T, m *mock.Cluster, b *core.Bucket, key []byte) {
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: alone})
			require.NoError(t, err)
			require.True(t, res.RetryInfo().Reasons.Has(retry.KVNotMyVBucket))
			require.Equal(t, 2, m.Frames(memd.OpSet)) // by the map that came with the answer
			require.Equal(t, m.Node(1).Addr(), res.Endpoint())
		}},
		"a pushed map": {push: true, change: func(t *testing.T, m *mock.Cluster, vb int) {
			require.NoError(t, m.MoveVBucket("default", vb, 1))
		}, check: func(t *testing.T, m *mock.Cluster, b *core.Bucket, key []byte) {
			time.Sleep(2 * time.Millisecond) // the client waits 1 ms, so that all nodes have told of the map
			_, nodes, _ := b.Locate(key)
			require.Equal(t, m.Node(1).Addr(), nodes[0])
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: alone})
			require.NoError(t, err)
			require.Zero(t, res.RetryInfo().Transparent)
		}},
		"a connection made anew": {change: func(t *testing.T, m *mock.Cluster, _ int) {
			require.NoError(t, m.CloseConns(0))
		}, check: func(t *testing.T, m *mock.Cluster, b *core.Bucket, key []byte) {
			hellos := m.Frames(memd.OpHello)
			time.Sleep(time.Second)
			require.Equal(t, hellos+1, m.Frames(memd.OpHello))
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: alone})
			require.NoError(t, err)
			require.Equal(t, m.Node(0).Addr(), res.Endpoint())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Bucket("default", 64), mock.Virtual())
				b := open(t, m, func(cfg *core.Config) {
					cfg.Maps.PollInterval, cfg.Maps.NoNotifications = time.Hour,
						!c.push
				}).Bucket("default")
				require.NoError(t, b.WaitReady(ctx(t)))
				key := keyOn(t, b, m.Node(0).Addr())
				vb, _, _ := b.Locate(key)
				c.change(t, m, int(vb))
				c.check(t, m, b, key)
			})
		})
	}
	t.Run("a node that leaves", func(t *testing.T) { // with an answer on its way
		virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
			key := keyOn(t, b, m.Node(2).Addr())
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Nodes: []int{2}}, mock.DelayReply(6*time.Second))
			f := kv.Start(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 9 * time.Second, Retry: alone.Retry}})
			synctest.Wait()
			require.NoError(t, m.RemoveNode(2))
			time.Sleep(4 * time.Second)
			_, nodes, _ := b.Locate(key)
			require.NotEqual(t, m.Node(2).Addr(), nodes[0])
			_, err := f.Wait(ctx(t))
			require.ErrorIs(t, err, cberr.DocumentNotFound) // that is an answer
			time.Sleep(time.Second)
			require.Zero(t, m.Node(2).Connections())
		})
	})
}
