package field_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A cluster that waits until it is ready before a bucket was asked for is closed and turned to TLS like one with a
// bucket, and a wait for a named bucket connects to that alone.
func TestWaitReadyWithoutABucket_D270(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual(), mock.TLS())
		var dials atomic.Int64
		var down atomic.Bool
		opened := func() *core.Cluster {
			return onMock(t, m, func(cfg *core.Config) {
				cfg.Maps.Bootstrap = core.BootstrapKV
				cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
					dials.Add(1)
					if down.Load() {
						return nil, errors.New("down")
					}
					return m.Dial(ctx, network, addr)
				}
			})
		}
		named := opened()
		require.NoError(t, named.WaitReady(within(t, time.Second), core.Ready{Bucket: "default"}))
		require.EqualValues(t, 3, dials.Load())
		require.NoError(t, named.Close())

		closed := opened()
		require.NoError(t, closed.Close())
		require.ErrorIs(t, closed.WaitReady(within(t, time.Second)), retry.ErrClosed)
		require.EqualValues(t, 3, dials.Load())

		down.Store(true)
		waiting := opened()
		ended := make(chan error, 1)
		go func() { ended <- waiting.WaitReady(within(t, time.Hour)) }()
		time.Sleep(10 * time.Second)
		require.NoError(t, waiting.Close())
		before := dials.Load()
		require.ErrorIs(t, <-ended, retry.ErrClosed)
		time.Sleep(time.Minute)
		require.Equal(t, before, dials.Load())

		turned := opened()
		go func() { ended <- turned.WaitReady(within(t, time.Minute)) }()
		time.Sleep(10 * time.Second)
		require.NoError(t, turned.SetTLS(trusted(m))) // the ports of before speak no TLS
		down.Store(false)
		require.NoError(t, <-ended)
	})
}

// A bucket whose maps come over HTTP becomes ready when a map ends the way to a seed that is not in it.
func TestReadyWhenASeedIsGivenUp_D271(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64, mock.Memcached()), mock.Virtual())
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Status(memd.StatusUnknownCommand))
		const dead = "10.9.9.9:11210"
		var down atomic.Bool
		var mu sync.Mutex
		var conns []net.Conn
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Seeds.Hosts = append(cfg.Seeds.Hosts, dead)
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				if down.Load() || addr == dead {
					return nil, errors.New("down")
				}
				nc, err := m.Dial(ctx, network, addr)
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					conns = append(conns, nc)
				}
				return nc, err
			}
		})
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(within(t, time.Minute)))
		time.Sleep(10 * time.Second)
		down.Store(true)
		mu.Lock()
		for _, nc := range conns {
			require.NoError(t, nc.Close())
		}
		mu.Unlock()
		time.Sleep(20 * time.Second) // the client begins with the seeds again
		down.Store(false)
		require.NoError(t, b.WaitReady(within(t, time.Minute)))
	})
}
