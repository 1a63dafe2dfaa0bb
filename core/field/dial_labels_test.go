package field_test

import (
	"context"
	"net"
	"runtime/pprof"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// Dial is told for which connection it is, by labels that profiles show, too.
func TestDialIsToldForWhichConnectionItIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.KV.Connections = 2
		var mu sync.Mutex
		told := map[[3]string]int{}
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			node, _ := pprof.Label(ctx, "couchcore.node")
			bucket, _ := pprof.Label(ctx, "couchcore.bucket")
			connection, _ := pprof.Label(ctx, "couchcore.connection")
			mu.Lock()
			told[[3]string{node, bucket, connection}]++
			mu.Unlock()
			require.Equal(t, addr, node)
			return m.Dial(ctx, network, addr)
		}
		b := openConfig(t, cfg).Bucket("default")
		require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
		time.Sleep(10 * time.Millisecond) // the second connections begin a moment later
		mu.Lock()
		defer mu.Unlock()
		for _, n := range m.Nodes() {
			for _, connection := range []string{"0", "1"} {
				require.Equal(t, 1, told[[3]string{n.Addr(), "default", connection}])
			}
		}
		require.Len(t, told, 4)
	})
}
