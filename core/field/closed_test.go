package field_test

import (
	"context"
	"net"
	"runtime"
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
