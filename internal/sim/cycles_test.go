package sim_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/sim"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// closed counts a client's sockets.
type closed struct {
	net.Conn
	open *atomic.Int64
	once atomic.Bool
}

func (c *closed) Close() error {
	if c.once.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

// cycle is one kind of state in which a client is closed.
type cycle struct {
	name string
	// enter brings the client of cycle n into the state.
	enter func(t *testing.T, n int, m *mock.Cluster, b *core.Bucket)
}

func cycles() []cycle {
	upsert := func(t *testing.T, b *core.Bucket, n int, s retry.Strategy) {
		for i := range 3 {
			key := fmt.Appendf(nil, "k-%d-%d", n, i)
			kv.Go(t.Context(), b, kv.Upsert{Key: key, Value: key, Common: kv.Common{Retry: s}}, func(kv.MutationResult,
				error) {
			})
		}
	}
	ready := func(t *testing.T, b *core.Bucket) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, b.WaitReady(ctx))
	}
	return []cycle{
		{"before it connects", func(t *testing.T, n int, _ *mock.Cluster, b *core.Bucket) {
			if n%2 == 0 {
				upsert(t, b, n, nil)
			}
		}},
		{"during the handshake", func(t *testing.T, n int, _ *mock.Cluster, b *core.Bucket) {
			upsert(t, b, n, nil)
			time.Sleep(time.Duration(n%60) * 100 * time.Microsecond) // a handshake takes about three milliseconds
		}},
		{"with calls in flight", func(t *testing.T, n int, _ *mock.Cluster, b *core.Bucket) {
			ready(t, b)
			upsert(t, b, n, nil)
			time.Sleep(time.Duration(n%7) * 100 * time.Microsecond)
		}},
		{"during a rebalance", func(t *testing.T, n int, m *mock.Cluster, b *core.Bucket) {
			ready(t, b)
			for vb := range 64 {
				require.NoError(t, m.MoveVBucket("default", vb, (vb+n)%3))
				if vb%8 == 0 {
					upsert(t, b, n*64+vb, nil)
				}
				if vb == n%64 {
					break
				}
				time.Sleep(50 * time.Microsecond)
			}
		}},
		{"with parked calls", func(t *testing.T, n int, m *mock.Cluster, b *core.Bucket) {
			ready(t, b)
			in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
			defer in.Remove()
			upsert(t, b, n, retry.BestEffort{})
			upsert(t, b, n, retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
				<-ctx.Done()
				return retry.Stop()
			}))
			time.Sleep(time.Duration(1+n%20) * time.Millisecond)
		}},
		{"with a node that does not answer", func(t *testing.T, n int, m *mock.Cluster, b *core.Bucket) {
			addr := m.Node(n % 3).Addr()
			m.Network().Silence(addr)
			defer m.Network().Restore(addr)
			upsert(t, b, n, nil)
			time.Sleep(time.Duration(n%40) * time.Millisecond)
		}},
	}
}

// cycleCount is a part of what the gate asks for.
var cycleCount = flag.Int("sim.cycles", 400, "how often a client is opened and closed, in all states together")

// A client that is closed, in whatever state, leaves nothing: no goroutine, no socket, and no timer, which would keep
// the client in memory.
func TestOpenAndCloseInEveryState(t *testing.T) {
	all := *cycleCount
	if testing.Short() || raceEnabled {
		all = min(all, 600)
	}
	table := cycles()
	for _, c := range table {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, all/len(table)+1) })
		})
	}
}

func (c cycle) run(t *testing.T, times int) {
	m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Virtual(), mock.Latency(200*time.Microsecond),
		mock.Bucket("default", 64))
	synctest.Wait()
	before := sim.GoroutinesInBubble()
	var open atomic.Int64
	var kept []weak.Pointer[core.Cluster]
	var slowest time.Duration
	for n := range times {
		cluster := openCounted(t, m, &open, n >= 20)
		c.enter(t, n, m, cluster.Bucket("default"))
		began := time.Now()
		require.NoError(t, cluster.Close())
		slowest = max(slowest, time.Since(began))
		require.Zero(t, open.Load(), "sockets after cycle %d", n)
		kept = append(kept, weak.Make(cluster))
		if n%500 == 0 || n == times-1 {
			time.Sleep(time.Second) // the mock learns of the ends
			synctest.Wait()
			require.LessOrEqual(t, sim.GoroutinesInBubble(), before, "goroutines after cycle %d", n)
		}
	}
	require.Less(t, slowest, closeGrace)
	for range 3 {
		runtime.GC()
	}
	alive := 0
	for _, p := range kept {
		if p.Value() != nil {
			alive++
		}
	}
	t.Logf("%d cycles, slowest Close %v, %d clients in memory", times, slowest, alive)
	require.LessOrEqual(t, alive, 2, "clients that something still refers to")
}

// closeGrace is the configuration's CloseTimeout.
const closeGrace = 5 * time.Second

// openCounted makes a client that counts its sockets. A quick one logs in without the thousands of hashes of SCRAM.
func openCounted(t *testing.T, m *mock.Cluster, sockets *atomic.Int64, quick bool) *core.Cluster {
	return open(t, m, func(cfg *core.Config) {
		if quick {
			cfg.Auth.Mechanisms, cfg.Auth.AllowPlain = []string{"PLAIN"}, true
		}
		cfg.CloseTimeout = closeGrace
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := m.Dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			sockets.Add(1)
			return &closed{Conn: nc, open: sockets}, nil
		}
	})
}
