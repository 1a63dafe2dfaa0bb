package core_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"sync/atomic"
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

// D40: what has failed leaves no lock behind: after a bucket that could not be opened, and after each kind of map that
// could not be used, the same thing succeeds.
func TestAFailureLeavesNothingLocked_D40(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		late := open(t, m).Bucket("late")
		for range 3 {
			short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			require.Error(t, late.WaitReady(short))
			cancel()
			_, err := kv.Do(ctx(t), late, kv.Upsert{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 100 * time.Millisecond},
			})
			require.ErrorIs(t, err, cberr.BucketNotFound)
		}
		require.NoError(t, m.CreateBucket("late", 8))
		_, err := kv.Do(ctx(t), late, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 8 * time.Second}})
		require.NoError(t, err)
		require.NoError(t, late.WaitReady(ctx(t)))

		good := string(m.ConfigJSON("default"))
		for i, bad := range []string{
			"{", "[]", `{"rev":1000000,"revEpoch":9,"name":"default"}`,
			strings.ReplaceAll(good, `"kv":`, `"none":`), // no node can be reached
		} {
			require.NotEqual(t, good, bad)
			key := keyOn(t, b, m.Node(i%2).Addr())
			vb, _, _ := b.Locate(key)
			in := m.Inject(only(memd.OpGetClusterConfig, 0), mock.Rewrite(func(_, rep *memd.Packet) {
				rep.Value, rep.Datatype = []byte(bad), memd.DatatypeJSON
				if i == 3 { // newer than the present one
					rep.Value = bytes.Replace(rep.Value, []byte(`"rev":`), []byte(`"rev":9`), 1)
				}
			}))
			time.Sleep(5 * time.Second)
			in.Remove()
			require.NoError(t, m.MoveVBucket("default", int(vb), 1-i%2))
			for range 3 {
				res, err := kv.Do(ctx(t), b, kv.Upsert{Key: key})
				require.NoError(t, err, i)
				require.Equal(t, m.Node(1-i%2).Addr(), res.Endpoint())
			}
		}
	})
}

// D44: the table of connections grows and shrinks while others look at it; the race detector sees no harm in that.
func TestPoolsGrowWhileTheyAreLookedAt_D44(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var wg sync.WaitGroup
		over := make(chan struct{})
		for range 4 {
			wg.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					for _, s := range b.Status() {
						_ = s.State
					}
					_, _ = b.Map()
					_, _, _ = b.Locate([]byte("k"))
					_ = b.WaitReady(ctx(t))
					_, _ = kv.Do(ctx(t), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 10 * time.Millisecond}})
					time.Sleep(20 * time.Millisecond)
				}
			})
		}
		for i := range 3 {
			n := m.AddNode()
			require.NoError(t, m.Rebalance())
			time.Sleep(3 * time.Second)
			require.NoError(t, m.CloseConns(i))
			time.Sleep(time.Second)
			require.NoError(t, m.RemoveNode(n))
			time.Sleep(15 * time.Second)
		}
		close(over)
		wg.Wait()
		require.Len(t, b.Status(), 9)
		require.NoError(t, b.WaitReady(ctx(t)))
	}, threeConnections)
}

// D45: a connection that ends, or whose node leaves, or whose client is closed, between being made and being published,
// is neither served nor left open.
func TestAConnectionEndsWhileItIsPublished_D45(t *testing.T) {
	for _, step := range []string{"broken", "left", "closed"} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
			var c *core.Cluster
			var live atomic.Int64
			var armed atomic.Bool
			reached := make(chan struct{})
			// The client takes the handshake's deadline away when the connection is whole and no other goroutine knows
			// of it yet.
			whole := func() {
				if !armed.CompareAndSwap(true, false) {
					return
				}
				if live.Load() != 3 {
					t.Error("not the moment that is meant")
				}
				switch step {
				case "broken":
					m.DisconnectAll()
				case "left":
					_ = m.Failover(2)
				case "closed":
					go func() { _ = c.Close() }()
				}
				close(reached)
				time.Sleep(5 * time.Second)
			}
			c = open(t, m, func(cfg *core.Config) {
				dial := cfg.Net.Dial
				cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					nc, err := dial(ctx, network, addr)
					if err != nil {
						return nil, err
					}
					live.Add(1)
					return &undue{&closeCounter{nc, &live, sync.Once{}}, whole}, nil
				}
			})
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			armed.Store(true)
			require.NoError(t, m.CloseConns(2))
			<-reached
			time.Sleep(20 * time.Second)
			want := map[string]int64{"broken": 3, "left": 2, "closed": 0}[step]
			require.Equal(t, want, live.Load(), step)
			if want == 0 {
				return
			}
			require.Len(t, b.Status(), int(want))
			for i := range 100 {
				_, err := kv.Do(ctx(t), b, kv.Upsert{
					Key:    fmt.Appendf(nil, "%d", i),
					Common: kv.Common{Timeout: 100 * time.Millisecond},
				})
				require.NoError(t, err)
			}
		})
	}
}

// undue is a connection that does f when its deadline is taken away.
type undue struct {
	net.Conn
	f func()
}

func (u *undue) SetDeadline(t time.Time) error {
	if t.IsZero() {
		u.f()
	}
	return u.Conn.SetDeadline(t)
}

// D45, D46: a handshake may be cut anywhere in what the node sends, also at its last bytes: the connection is made
// again.
func TestAHandshakeIsCutAnywhere_D45_D46(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		var cut atomic.Int64
		var last atomic.Pointer[mock.Link]
		cut.Store(-1)
		m.Network().OnLink(func(l *mock.Link) {
			last.Store(l)
			if n := cut.Swap(-1); n >= 0 {
				l.Down().EndAfter(int(n))
			}
		})
		require.NoError(t, m.CloseConns(0))
		time.Sleep(time.Second)
		whole := last.Load().Down().Written()
		require.Positive(t, whole)
		next := func(n int64) int64 { // coarse steps, and single ones at the end
			if n < whole-10 {
				return min(n+211, whole-10)
			}
			return n + 1
		}
		for n := int64(0); n <= whole+1; n = next(n) {
			cut.Store(n)
			require.NoError(t, m.CloseConns(0))
			time.Sleep(time.Second)
			require.NoError(t, b.WaitReady(ctx(t)), n)
			_, err := kv.Do(ctx(t), b, kv.Get{
				Key:    keyOn(t, b, m.Node(0).Addr()),
				Common: kv.Common{Timeout: time.Second},
			})
			require.ErrorIs(t, err, cberr.DocumentNotFound, n) // also when only the answer is cut
		}
	})
}

// D46: connections that break while others are being made, or while they are replaced, in any order, are made again.
func TestConnectionsBreakWhileTheyAreMade_D46(t *testing.T) {
	for seed := range uint64(3) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 46))
			m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(),
				mock.Latency(time.Millisecond))
			c := open(t, m, func(cfg *core.Config) { cfg.KV.Connections = 1 + int(seed%2) })
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			for i := range 200 {
				switch n := random.IntN(3); random.IntN(5) {
				case 0:
					_ = m.CloseConns(n)
				case 1:
					m.DisconnectAll()
				case 2:
					require.NoError(t, m.Kill(n))
					time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
					require.NoError(t, m.Respawn(n))
				case 3:
					password := fmt.Sprintf("password-%d", i)
					require.NoError(t, m.SetPassword("Administrator", password))
					require.NoError(t, c.SetCredentials(core.Credentials{
						Username: "Administrator",
						Password: core.NewSecret(password),
					}))
				case 4:
					m.BumpRevision()
				}
				time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
			}
			time.Sleep(10 * time.Second)
			for _, s := range b.Status() {
				require.True(t, s.Connected, s.Addr)
			}
			for i := range 100 {
				_, err := kv.Do(ctx(t), b, kv.Upsert{
					Key:    fmt.Appendf(nil, "%d", i),
					Common: kv.Common{Timeout: 100 * time.Millisecond},
				})
				require.NoError(t, err)
			}
		})
	}
}

// D46: a connection that has taken another one's place is missed when it ends, as any other is: no one takes its node
// for connected, and it is made again.
func TestAReplacementThatEndsIsMissed_D46(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		c := open(t, m)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		first := b.Status()[0].ID
		require.NoError(t, m.SetPassword("Administrator", "another"))
		require.NoError(t, c.SetCredentials(core.Credentials{
			Username: "Administrator",
			Password: core.NewSecret("another"),
		}))
		time.Sleep(time.Second)
		second := b.Status()[0].ID
		require.NotEqual(t, first, second)
		for range 2 {
			require.NoError(t, m.Kill(0))
			synctest.Wait()
			require.False(t, b.Status()[0].Connected)
			short, cancel := context.WithTimeout(t.Context(), time.Second)
			require.Error(t, b.WaitReady(short))
			cancel()
			require.NoError(t, m.Respawn(0))
			require.NoError(t, b.WaitReady(ctx(t)))
			require.NotEqual(t, second, b.Status()[0].ID)
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: 100 * time.Millisecond}})
			require.NoError(t, err)
		}
	})
}

// slowClose is a connection whose Close takes its time once it is told to.
type slowClose struct {
	net.Conn
	slow *atomic.Bool
}

func (c slowClose) Close() error {
	if c.slow.Load() {
		time.Sleep(5 * time.Second)
	}
	return c.Conn.Close()
}

// D48: a call whose answer brings a map that closes connections, slowly, keeps its deadline, and what only looks at the
// client does not wait.
func TestASlowCloseDelaysNoCall_D48(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		var slow atomic.Bool
		c := open(t, m, func(cfg *core.Config) {
			dial := cfg.Net.Dial
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := dial(ctx, network, addr)
				return slowClose{nc, &slow}, err
			}
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		key := keyOn(t, b, m.Node(2).Addr())
		slow.Store(true)
		require.NoError(t, m.Failover(2))
		began := time.Now()
		for range 2000 {
			// the first brings the map
			_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Timeout: 100 * time.Millisecond}})
			require.NoError(t, err)
			looked := time.Now()
			mp, _ := b.Map()
			require.Len(t, mp.Nodes, 2)
			_ = b.Status()
			_ = b.Orphans()
			_, _, _ = b.Locate(key)
			_ = c.Bucket("default")
			require.Zero(t, time.Since(looked))
			time.Sleep(3 * time.Millisecond)
		}
		require.LessOrEqual(t, time.Since(began), 6100*time.Millisecond)
		slow.Store(false)
	})
}

// D52: who waits for the first map may begin again from within his own callback or strategy, whether the map came or
// not.
func TestCallbacksOfTheFirstMapBeginAnew_D52(t *testing.T) {
	for _, up := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
			c := open(t, m, func(cfg *core.Config) {
				dial := cfg.Net.Dial
				cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					time.Sleep(50 * time.Millisecond) // all have begun by then
					if !up {
						return nil, io.ErrUnexpectedEOF
					}
					return dial(ctx, network, addr)
				}
			})
			b := c.Bucket("default")
			var ended, asked atomic.Int64
			var again func(depth int)
			s := inline(func() retry.Action {
				if asked.Add(1) <= 100 {
					again(1)
				}
				return retry.Stop()
			})
			again = func(depth int) {
				kv.Go(ctx(t), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: s}}, func(_ kv.MutationResult,
					err error,
				) {
					ended.Add(1)
					if up != (err == nil) {
						t.Error(err)
					}
					_ = b.Status()
					_ = c.Bucket("default")
					if depth > 0 {
						again(depth - 1)
					}
				})
			}
			for range 100 {
				again(2)
			}
			time.Sleep(5 * time.Second)
			want := int64(300)
			if !up {
				want += 200
			}
			require.Equal(t, want, ended.Load())
		})
	}
}

// inline is a strategy that says that it never blocks.
type inline func() retry.Action

func (f inline) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action { return f() }

// Inline implements retry.Inline.
func (inline) Inline() bool { return true }
