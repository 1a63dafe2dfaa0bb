package core_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// D54: wherever calls wait, no more of them do than the limits of queues and of retries allow together; those beyond end
// at once and say so. Attempts that come due add nothing to what waits.
func TestLimitsBoundAllThatWaits_D54(t *testing.T) {
	if raceEnabled {
		t.Skip("too many calls for the race detector")
	}
	const queue, parked, waiters = 100, 300, 32768 // waiters for collections have the default limit
	for name, c := range map[string]struct {
		calls, most int
		collection  string
		stop        func(t *testing.T, m *mock.Cluster, b *core.Bucket)
	}{
		"a dead node": {calls: 100_000, most: parked, stop: func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
			require.NoError(t, m.Kill(0))
			time.Sleep(100 * time.Millisecond)
		}},
		"a connection that is being made": {calls: 20_000, most: queue + parked, stop: func(t *testing.T, m *mock.Cluster, _ *core.Bucket) {
			m.Inject(only(memd.OpHello, 0), mock.Delay(5*time.Second))
			require.NoError(t, m.CloseConns(0))
			synctest.Wait()
		}},
		"a collection's id": {calls: waiters + 5000, most: waiters + parked, collection: "c", stop: func(_ *testing.T, m *mock.Cluster, _ *core.Bucket) {
			m.Inject(only(memd.OpCollectionsGetID, 0), mock.Drop())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16, mock.WithCollection("s", "c")), mock.Virtual())
				b := open(t, m, func(c *core.Config) { c.QueueLimit, c.MaxParked = queue, parked }).Bucket("default")
				require.NoError(t, b.WaitReady(ctx(t)))
				c.stop(t, m, b)
				op := kv.Get{Key: []byte("k")}
				if c.collection != "" {
					op.Scope, op.Collection = "s", c.collection
				}
				began := time.Now()
				var fs []kv.Future[kv.GetResult]
				for range c.calls {
					fs = append(fs, kv.Start(ctx(t), b, op))
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
						_, err := f.Wait(ctx(t))
						require.ErrorIs(t, err, retry.ErrTooManyInRetry)
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
	b := open(t, m, func(c *core.Config) { c.QueueLimit, c.KVTimeout = 1<<20, time.Minute }).Bucket("default")
	require.NoError(t, b.WaitReady(ctx(t)))
	m.Inject(only(memd.OpHello, 0), mock.Delay(9*time.Second))
	require.NoError(t, m.CloseConns(0))
	return b
}

// D57: what it costs to cancel a call that waits does not grow with how many others do. Those that began last go first:
// who walks the queue meets all others.
func TestCancelingDoesNotWalkTheQueue_D57(t *testing.T) {
	if raceEnabled {
		t.Skip("times are not those of the race detector")
	}
	each := func(n int) time.Duration {
		b := stalled(t)
		fs := make([]kv.Future[kv.GetResult], n)
		for i := range fs {
			fs[i] = kv.Start(context.Background(), b, kv.Get{Key: []byte("k")})
		}
		began := time.Now()
		for i := range fs {
			require.True(t, fs[n-1-i].Cancel(), "it has ended by itself")
		}
		return time.Since(began) / time.Duration(n)
	}
	few, many := time.Hour, time.Hour
	for range 3 { // a busy machine may spoil some
		few, many = min(few, each(1000)), min(many, each(150_000))
	}
	require.Less(t, many, 10*few, "so much longer takes each of 150,000 than of 1,000")
}
