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
		var mu sync.Mutex
		told := map[[3]string]int{}
		dial := func(ctx context.Context, network, addr string) (net.Conn, error) {
			node, _ := pprof.Label(ctx, "couchcore.node")
			bucket, _ := pprof.Label(ctx, "couchcore.bucket")
			connection, _ := pprof.Label(ctx, "couchcore.connection")
			mu.Lock()
			told[[3]string{node, bucket, connection}]++
			mu.Unlock()
			require.Equal(t, addr, node)
			return m.Dial(ctx, network, addr)
		}
		openMock(t, m, func(cfg *core.Config) { cfg.KV.Connections, cfg.Net.Dial = 2, dial })
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
