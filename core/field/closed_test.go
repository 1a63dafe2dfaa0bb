package field_test

import (
	"context"
	"net"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// A call waits for the handshake of one node although another node has refused the login. After some milliseconds the
// client looks again whether the call should wait. Close ends that look, and nothing refers to the client then.
func TestNoLookIsDueAfterClose_D251(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret("another one")
		cfg.Net.NodeFilter = core.AnyNode
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			if addr != m.Node(0).Addr() {
				<-ctx.Done()
				return nil, ctx.Err()
			}
			return m.Dial(ctx, network, addr)
		}
		cluster, bucket := closedWhileACallWaits(t, cfg)
		time.Sleep(time.Microsecond) // the runtime forgets a stopped timer when it next looks for one that is due
		for range 3 {
			runtime.GC()
		}
		require.Nil(t, cluster.Value())
		require.Nil(t, bucket.Value())
	})
}

// closedWhileACallWaits opens and closes a client, and keeps no reference to it.
func closedWhileACallWaits(t *testing.T, cfg core.Config) (weak.Pointer[core.Cluster], weak.Pointer[core.Bucket]) {
	t.Helper()
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	b := c.Bucket("default")
	f := kv.Start(t.Context(), b, kv.Get{Key: []byte("k")})
	time.Sleep(5 * time.Millisecond)
	select {
	case <-f.Done():
		require.Fail(t, "the call has not waited")
	default:
	}
	require.NoError(t, c.Close())
	_, err = f.Wait(t.Context())
	require.Error(t, err)
	return weak.Make(c), weak.Make(b)
}

// tellsOfClose is a connection that says when it is closed.
type tellsOfClose struct {
	net.Conn
	tell func()
}

func (c tellsOfClose) Close() error {
	c.tell()
	return c.Conn.Close()
}

// Buckets are closed in the order of their names, one after the other: what a run of a program does is the same each
// time.
func TestBucketsAreClosedInTheOrderOfTheirNames_D259(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := []string{"a", "b", "c", "d", "default", "e"}
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 4), mock.Virtual())
		for _, name := range names {
			if name != "default" {
				require.NoError(t, m.CreateBucket(name, 4))
			}
		}
		var mu sync.Mutex
		var closed []string
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			name, ok := pprof.Label(ctx, "couchcore.bucket")
			nc, err := m.Dial(ctx, network, addr)
			if err != nil || !ok {
				return nc, err
			}
			return tellsOfClose{nc, func() {
				mu.Lock()
				defer mu.Unlock()
				closed = append(closed, name)
			}}, nil
		}
		c := openConfig(t, cfg)
		for _, name := range names {
			require.NoError(t, c.Bucket(name).WaitReady(within(t, time.Second)))
		}
		require.NoError(t, c.Close())
		mu.Lock()
		defer mu.Unlock()
		require.Equal(t, names, slices.Compact(closed))
	})
}
