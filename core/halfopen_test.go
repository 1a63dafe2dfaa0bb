package core_test

import (
	"context"
	"net"
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
)

// sink is a socket whose other end may vanish without a word: what is written then is lost.
type sink struct {
	net.Conn
	gone atomic.Bool
}

func (s *sink) Write(b []byte) (int, error) {
	if s.gone.Load() {
		return len(b), nil
	}
	return s.Conn.Write(b)
}

// TryWrite is what the connection prefers where a socket has it.
func (s *sink) TryWrite(b []byte) (int, error) {
	if s.gone.Load() {
		return len(b), nil
	}
	return s.Conn.(interface{ TryWrite([]byte) (int, error) }).TryWrite(b)
}

// A half-open connection: calls end as their kind says, and once the node's config poll stays unanswered too, the
// connection is replaced.
func TestHalfOpenConnectionIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 64), mock.Virtual())
		var mu sync.Mutex
		var sockets []*sink
		b := open(t, m, func(c *core.Config) {
			c.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := m.Dial(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				mu.Lock()
				defer mu.Unlock()
				sockets = append(sockets, &sink{Conn: nc})
				return sockets[len(sockets)-1], nil
			}
		}).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		key := []byte("k")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")})
		require.NoError(t, err)
		mu.Lock()
		for _, s := range sockets {
			s.gone.Store(true)
		}
		mu.Unlock()
		short := kv.Common{Timeout: 100 * time.Millisecond}
		_, err = kv.Do(ctx(t), b, kv.Get{Key: key, Common: short})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		_, err = kv.Do(ctx(t), b, kv.Append{Key: key, Value: []byte("w"), Common: short})
		require.ErrorIs(t, err, cberr.AmbiguousTimeout)

		r, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 10 * time.Second}})
		require.NoError(t, err, "a read waits for the new connection")
		require.Equal(t, "v", string(r.Value))
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		require.Len(t, sockets, 4, "each connection was replaced once")
	})
}

// A node that is slow with its map and answers everything else keeps its connection.
func TestSlowConfigIsNoReasonToReconnect(t *testing.T) {
	virtual(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}}, mock.Drop())
		hellos := m.Frames(memd.OpHello)
		began := time.Now()
		for time.Since(began) < 30*time.Second {
			for i := range byte(64) {
				_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte{'k', i}})
				require.NoError(t, err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		require.Equal(t, hellos, m.Frames(memd.OpHello))
	})
}
