package core_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// crowd is goroutines that read until stop is called. It fails the test if one of the calls does.
type crowd struct {
	over chan struct{}
	wg   sync.WaitGroup

	mu   sync.Mutex
	used map[string]int // by connection
	errs []error
}

func (c *crowd) stop(t *testing.T) map[string]int {
	close(c.over)
	c.wg.Wait()
	require.Empty(t, c.errs)
	return c.used
}

// during stops it after some time.
func (c *crowd) during(t *testing.T, d time.Duration) map[string]int {
	time.Sleep(d)
	return c.stop(t)
}

func newCrowd(b *core.Bucket, n int, timeout ...time.Duration) *crowd {
	c := &crowd{over: make(chan struct{}), used: map[string]int{}}
	var common kv.Common
	for _, d := range timeout {
		common.Timeout = d
	}
	for w := range n {
		c.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-c.over:
					return
				default:
				}
				res, err := kv.Do(context.Background(), b, kv.Get{Common: common, Key: fmt.Appendf(nil, "k%d", (w+i)%500)})
				c.mu.Lock()
				if c.used[res.Connection()]++; err != nil {
					c.errs = append(c.errs, err)
				}
				c.mu.Unlock()
			}
		})
	}
	return c
}

// alone runs f with a cluster of some nodes, 1 ms away, that have what a crowd reads, on a machine with four processors.
func alone(t *testing.T, nodes int, f func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket), change ...func(*core.Config)) {
	t.Helper()
	before := runtime.GOMAXPROCS(4)
	defer runtime.GOMAXPROCS(before)
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(nodes), mock.Bucket("default", 64), mock.Virtual(), mock.Latency(time.Millisecond))
		c := open(t, m, change...)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		for i := range 500 {
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
			require.NoError(t, err)
		}
		f(t, m, c, b)
	})
}

// A node with one connection gets a second one while many calls are in flight, and both are used. It goes when
// there is nothing to do for it, and comes back with the next crowd.
func TestACrowdGetsASecondConnection(t *testing.T) {
	alone(t, 1, func(t *testing.T, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) {
		require.Len(t, newCrowd(b, 20).during(t, 200*time.Millisecond), 1)
		require.Len(t, b.Status(), 1)
		for range 2 {
			require.Len(t, newCrowd(b, 400).during(t, 60*time.Millisecond), 2)
			require.Len(t, b.Status(), 2)
			var used map[string]int
			for n := 0; n < 20 && len(used) != 1; n++ {
				used = newCrowd(b, 10).during(t, 100*time.Millisecond)
			}
			require.Len(t, used, 1, "few calls share a connection, sooner or later")
			require.Len(t, b.Status(), 2)
			time.Sleep(time.Minute)
			require.Len(t, b.Status(), 1)
			require.Len(t, m.Network().Links(), 1)
		}
	})
}

// There is one connection where the configuration says so, and where there are as many nodes as processors.
func TestWhereNoSecondConnectionIsMade(t *testing.T) {
	crowded := func(nodes int) func(*testing.T, *mock.Cluster, *core.Cluster, *core.Bucket) {
		return func(t *testing.T, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) {
			require.Len(t, newCrowd(b, 400*nodes).during(t, 60*time.Millisecond), nodes)
			require.Len(t, b.Status(), nodes)
		}
	}
	alone(t, 1, crowded(1), func(c *core.Config) { c.Connections = 1 })
	alone(t, 4, crowded(4))
}

// The loss of either connection is not felt, beyond what was in flight on it, and a lost second one comes back only after
// some time.
func TestTheLossOfEitherConnection(t *testing.T) {
	alone(t, 1, func(t *testing.T, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) {
		many := newCrowd(b, 400)
		time.Sleep(60 * time.Millisecond)
		links := m.Network().Links()
		require.Len(t, links, 2)
		links[1].Reset()
		time.Sleep(60 * time.Millisecond)
		require.Len(t, b.Status(), 1)
		require.Same(t, links[0], m.Network().Links()[0])
		many.stop(t)
		time.Sleep(10 * time.Second)
		many = newCrowd(b, 400)
		time.Sleep(60 * time.Millisecond)
		links = m.Network().Links()
		require.Len(t, links, 2)
		links[0].Reset()
		time.Sleep(60 * time.Millisecond)
		now := m.Network().Links()
		require.Len(t, now, 2)
		require.Same(t, links[1], now[0], "the second stays, and the first is made again")
		many.stop(t)
	})
}

// A node that takes no second connection is asked for one from time to time, and is as good as any other.
func TestASecondConnectionThatIsRefused(t *testing.T) {
	var dials atomic.Int32
	alone(t, 1, func(t *testing.T, _ *mock.Cluster, _ *core.Cluster, b *core.Bucket) {
		for want := range 3 { // at once, and after ten seconds
			require.Len(t, newCrowd(b, 400).during(t, 60*time.Millisecond), 1)
			require.EqualValues(t, 2+want, dials.Load())
			require.Len(t, b.Status(), 1)
			require.NoError(t, b.Status()[0].Err)
			time.Sleep(10 * time.Second)
		}
	}, func(c *core.Config) {
		dial := c.Dial
		c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if dials.Add(1) > 1 {
				return nil, errors.New("no more")
			}
			return dial(ctx, network, addr)
		}
	})
}

// Closing does not wait for a second connection that is being made, nor does a node that leaves.
func TestASecondConnectionThatTakesLong(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, m *mock.Cluster, c *core.Cluster){
		"close": func(t *testing.T, _ *mock.Cluster, c *core.Cluster) { require.NoError(t, c.Close()) },
		"leave": func(t *testing.T, m *mock.Cluster, _ *core.Cluster) {
			require.NoError(t, m.RemoveNode(0))
			require.NoError(t, m.Rebalance())
		},
	} {
		var dials, ended atomic.Int32
		alone(t, 2, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
			many := newCrowd(b, 800)
			time.Sleep(60 * time.Millisecond)
			require.EqualValues(t, 4, dials.Load(), name)
			close(many.over)
			many.wg.Wait()
			end(t, m, c)
			time.Sleep(5 * time.Second)
			require.NotZero(t, ended.Load(), name)
		}, func(c *core.Config) {
			dial := c.Dial
			c.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if dials.Add(1) > 2 {
					<-ctx.Done()
					ended.Add(1)
					return nil, ctx.Err()
				}
				return dial(ctx, network, addr)
			}
		})
	}
}

// A call that waits for its answer on the second connection gets it, however long the connection has had nothing else to do.
func TestAnUnusedSecondConnectionStaysForItsCalls(t *testing.T) {
	alone(t, 1, func(t *testing.T, m *mock.Cluster, _ *core.Cluster, b *core.Bucket) {
		many := newCrowd(b, 400, 10*time.Minute)
		time.Sleep(60 * time.Millisecond)
		in := m.Inject(mock.Match{Key: []byte("k7")}, mock.Hold())
		time.Sleep(2 * time.Second) // all come to that key
		close(many.over)
		for _, s := range b.Status() {
			require.NotZero(t, s.InFlight)
		}
		time.Sleep(2 * time.Minute)
		require.Len(t, b.Status(), 1, "nobody else may have it")
		require.Len(t, m.Network().Links(), 2)
		in.Release()
		many.wg.Wait()
		require.Empty(t, many.errs)
		time.Sleep(time.Minute)
		require.Len(t, m.Network().Links(), 1)
	})
}

// Both connections get new credentials, and no call is lost.
func TestASecondConnectionGetsNewCredentials(t *testing.T) {
	alone(t, 1, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
		many := newCrowd(b, 400)
		time.Sleep(60 * time.Millisecond)
		before := ids(b)
		require.Len(t, before, 2)
		require.NoError(t, m.SetPassword("Administrator", "another"))
		require.NoError(t, c.SetCredentials(core.Credentials{Username: "Administrator", Password: core.NewSecret("another")}))
		time.Sleep(time.Second)
		after := ids(b)
		require.Len(t, after, 2)
		for id := range after {
			require.False(t, before[id])
		}
		many.stop(t)
	})
}

// counters is so many callers, each of whom counts up a document of its own and keeps how often it was told that it has, and
// how often that is in doubt.
type counters struct {
	b           *core.Bucket
	n           int
	told, doubt []uint64
}

// increment goes on until stop is called.
func (c *counters) increment() (stop func()) {
	if c.told == nil {
		c.told, c.doubt = make([]uint64, c.n), make([]uint64, c.n)
	}
	over := make(chan struct{})
	var wg sync.WaitGroup
	for w := range c.n {
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				_, err := kv.Do(context.Background(), c.b, kv.Increment{Key: fmt.Appendf(nil, "n%d", w), Delta: 1, Initial: new(uint64)})
				var e *kv.Error
				if err == nil {
					c.told[w]++
				} else if !errors.As(err, &e) || e.Ambiguous() {
					c.doubt[w]++
				}
			}
		})
	}
	return func() {
		close(over)
		wg.Wait()
	}
}

// check compares that with the documents.
func (c *counters) check(t *testing.T) {
	require.NotEqual(t, make([]uint64, c.n), c.doubt, "some were in flight")
	for w := range c.n {
		res, err := kv.Do(ctx(t), c.b, kv.Increment{Key: fmt.Appendf(nil, "n%d", w)})
		require.NoError(t, err)
		applied := res.Value + 1 // the first has made it 0
		require.GreaterOrEqual(t, applied, c.told[w], w)
		require.LessOrEqual(t, applied, c.told[w]+c.doubt[w], w)
	}
}

// Whatever happens to the two connections, what a counter says is what its callers were told, but for calls in doubt.
func TestACrowdsCallsAreAppliedOnce(t *testing.T) {
	alone(t, 1, func(t *testing.T, m *mock.Cluster, c *core.Cluster, b *core.Bucket) {
		reset := func(which ...int) func() {
			return func() {
				links := m.Network().Links()
				for _, i := range which {
					links[i].Reset()
				}
			}
		}
		password := 0
		troubles := []func(){
			reset(0), reset(1), reset(0, 1),
			func() {
				password++
				require.NoError(t, m.SetPassword(mock.DefaultUser, fmt.Sprint(password)))
				require.NoError(t, c.SetCredentials(core.Credentials{Username: mock.DefaultUser, Password: core.NewSecret(fmt.Sprint(password))}))
			},
			func() { m.BumpRevision() },
		}
		counts := counters{b: b, n: 300}
		for _, trouble := range troubles {
			stop := counts.increment()
			time.Sleep(60*time.Millisecond + 500*time.Microsecond) // every request is on its way to the node or back
			require.Len(t, m.Network().Links(), 2)
			trouble()
			time.Sleep(40 * time.Millisecond)
			stop()
			time.Sleep(20 * time.Second)
		}
		counts.check(t)
		require.Len(t, b.Status(), 1)
	})
}
