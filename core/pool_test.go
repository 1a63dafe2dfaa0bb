package core_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func threeConnections(c *core.Config) { c.KV.Connections = 3 }

// C17: a node has as many connections as the configuration says, all of them are used, and the loss of one is not felt.
func TestAPoolOfConnections_C17(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		require.Len(t, b.Status(), 9)
		var wg sync.WaitGroup
		var mu sync.Mutex
		used := map[string]int{}
		load := func() {
			for i := range 300 {
				wg.Go(func() {
					res, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "k%d", i), Value: []byte("v")})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					used[res.Connection()]++
					mu.Unlock()
				})
			}
			wg.Wait()
		}
		load()
		require.Len(t, used, 9)
		for id, n := range used {
			require.Greater(t, n, 20, id)
		}
		m.Inject(only(memd.OpGet, 1), mock.CloseBefore()) // takes one of the nine down
		res, err := kv.Do(ctx(t), b, kv.Get{Key: []byte("k1")})
		require.NoError(t, err)
		require.Equal(t, "v", string(res.Value))
		load()
		for _, s := range b.Status() {
			require.True(t, s.Connected)
		}
	}, threeConnections)
}

// A silent connection of a pool is found out by the requests for the cluster map, and replaced; the others stay.
func TestASilentConnectionOfAPoolIsReplaced(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		links := m.Network().Links()
		require.Len(t, links, 9)
		links[4].Up().Drop()
		links[4].Down().Drop()
		time.Sleep(30 * 2500 * time.Millisecond)
		for i := range 100 {
			_, err := kv.Do(ctx(t), b, kv.Upsert{
				Key:    fmt.Appendf(nil, "k%d", i),
				Common: kv.Common{Timeout: 100 * time.Millisecond},
			})
			require.NoError(t, err)
		}
		stayed := 0
		for _, l := range m.Network().Links() {
			for _, old := range links {
				if l == old {
					stayed++
				}
			}
		}
		require.GreaterOrEqual(t, stayed, 8)
	}, threeConnections)
}

// A request that belongs to a connection of a pool goes there, and nowhere else once that one is gone.
func TestARequestOfOneConnection(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		res, err := kv.Do(ctx(t), b, kv.GetClusterConfig{Pinned: true})
		require.NoError(t, err)
		for range 20 {
			again, err := kv.Do(ctx(t), b, kv.GetClusterConfig{Pinned: true, Connection: res.Connection()})
			require.NoError(t, err)
			require.Equal(t, res.Connection(), again.Connection())
		}
		require.NoError(t, m.CloseConns(0))
		time.Sleep(time.Second)
		_, err = kv.Do(ctx(t), b, kv.GetClusterConfig{Pinned: true, Connection: res.Connection()})
		var gone *call.ConnectionGoneError
		require.ErrorAs(t, err, &gone)
	}, threeConnections)
}

// The connections of a pool are begun in order. A key always goes over the same one, requests without a key take turns,
// and what the client asks for itself takes no caller's turn: so what calls go over does not depend on which goroutine
// was first.
func TestAPoolIsUsedInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := mock.New(mock.Nodes(1), mock.Virtual(), mock.Bucket("default", 64))
		require.NoError(t, err)
		defer m.Close()
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		var began []time.Time
		cfg.Auth.Username, cfg.Auth.Password, cfg.KV.Connections = mock.DefaultUser,
			core.NewSecret(mock.DefaultPassword), 3
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			began = append(began, time.Now())
			return m.Dial(ctx, network, addr)
		}
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		defer c.Close()
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		require.Len(t, began, 3)
		require.True(t, began[0].Before(began[1]) && began[1].Before(began[2]))
		last, own := "", ""
		for range 30 {
			res, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
			require.NoError(t, err)
			if own != "" {
				require.Equal(t, own, res.Connection())
			}
			own = res.Connection()
			turn, err := kv.Do(ctx(t), b, kv.Noop{})
			require.NoError(t, err)
			require.NotEqual(t, last, turn.Connection(), "they take turns")
			last = turn.Connection()
			m.BumpRevision() // the node tells of it, and is asked for the map
			synctest.Wait()
		}
	})
}
