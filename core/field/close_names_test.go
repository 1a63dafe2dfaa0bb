package field_test

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// stuckAt is a network on which what concerns one address does not return until end is closed.
type stuckAt struct {
	dial, close bool // which of both
	on          atomic.Bool
	end         chan struct{}
}

func (s *stuckAt) use(m *mock.Cluster, is func(addr string) bool) func(*core.Config) {
	return func(cfg *core.Config) {
		cfg.CloseTimeout = time.Second
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if s.dial && is(addr) {
				<-s.end
			}
			nc, err := m.Dial(ctx, network, addr)
			if err != nil || !s.close || !is(addr) {
				return nc, err
			}
			return &stuckConn{nc, true, &s.on, s.end}, nil
		}
	}
}

// isKV says whether that is the address of a node's key-value service.
func isKV(addr string) bool { return strings.HasSuffix(addr, ":11210") }

// closesLate closes a cluster of which something does not return.
func closesLate(t *testing.T, c *core.Cluster) error {
	t.Helper()
	began := time.Now()
	err := c.Close()
	require.LessOrEqual(t, time.Since(began), time.Second+10*time.Millisecond)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	return err
}

// Close says of which nodes it has not waited for something, and of no others.
func TestCloseNamesTheNodesThatItDoesNotWaitFor_D146(t *testing.T) {
	for name, stuck := range map[string]*stuckAt{"Dial": {dial: true}, "Close": {close: true}} {
		t.Run("key-value, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 16), mock.Virtual())
				stuck.end = make(chan struct{})
				addr := nodeAt(t, m, 1)
				c := onMock(t, m, stuck.use(m, func(a string) bool { return a == addr }))
				err := c.Bucket("default").WaitReady(within(t, 5*time.Second))
				if stuck.dial {
					require.ErrorContains(t, err, "node "+addr+" is not connected")
				} else {
					require.NoError(t, err)
				}
				stuck.on.Store(true)
				want := `bucket "default": not ended: ` + addr + ": context deadline exceeded"
				require.ErrorContains(t, closesLate(t, c), want)
				close(stuck.end)
			})
		})
		t.Run("services, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
				stuck.end = make(chan struct{})
				c := onMock(t, m, stuck.use(m, func(a string) bool { return !isKV(a) }))
				require.NoError(t, c.Bucket("default").WaitReady(fresh(t)))
				stuck.on.Store(false)
				ask := &query.Request{Statement: "SELECT 1", Readonly: true}
				err := runQuery(within(t, 500*time.Millisecond), c, ask)
				require.Equal(t, stuck.dial, err != nil)
				stuck.on.Store(true)
				err = closesLate(t, c)
				host, _, splitErr := net.SplitHostPort(nodeAt(t, m, 0))
				require.NoError(t, splitErr)
				require.ErrorContains(t, err, "services: not ended: "+host+":")
				require.NotContains(t, err.Error(), "bucket")
				close(stuck.end)
			})
		})
	}
}

// What the program's own functions hold up is told from what nodes do.
func TestCloseNamesFunctionsOfTheProgram_D146(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
		c := onMock(t, m, func(cfg *core.Config) { cfg.CloseTimeout = time.Second })
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(fresh(t)))
		end := make(chan struct{})
		kv.Go(fresh(t), b, kv.Get{Key: []byte("k")}, func(kv.GetResult, error) { <-end })
		time.Sleep(100 * time.Millisecond)
		err := closesLate(t, c)
		require.ErrorContains(t, err, `bucket "default": functions of the program's, as of kv.Go: `)
		require.NotContains(t, err.Error(), nodeAt(t, m, 0))
		close(end)
	})
}

// A wait for nodes that is given up names each that is not connected, whether an attempt has failed there or goes on.
func TestWaitReadyNamesTheNodesThatAreNotConnected_D146(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 16), mock.Virtual())
		end := make(chan struct{})
		c := onMock(t, m, func(cfg *core.Config) {
			cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				switch addr {
				case nodeAt(t, m, 1):
					return nil, net.ErrClosed
				case nodeAt(t, m, 2):
					<-end
				}
				return m.Dial(ctx, network, addr)
			}
		})
		err := c.Bucket("default").WaitReady(within(t, time.Second))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "not connected: "+nodeAt(t, m, 1)+", "+nodeAt(t, m, 2))
		require.NotContains(t, err.Error(), nodeAt(t, m, 0))
		close(end)
	})
}

// nodeAt is the address of a node's key-value service.
func nodeAt(t *testing.T, m *mock.Cluster, node int) string {
	t.Helper()
	return strings.Split(strings.TrimPrefix(m.ConnString(), "couchbase://"), ",")[node]
}
