package field_test

import (
	"context"
	"net"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// A wait that ends when a bucket can be used ends well although another seed refuses the login, also when the
// connection that makes it ready comes while the wait looks at that refusal.
func TestReadyBesideARefusedLogin_D269(t *testing.T) {
	refuse := func(m *mock.Cluster, node int) {
		m.Inject(mock.Match{Nodes: []int{node}, Opcodes: []memd.Opcode{memd.OpSASLStep}},
			mock.Status(memd.StatusAuthError))
	}
	for name, c := range map[string]struct {
		nodes int
		ready core.Ready
	}{
		"a node of the map":  {2, core.Ready{Bucket: "default", State: core.Degraded}},
		"no node of the map": {1, core.Ready{Bucket: "default"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(8))
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(c.nodes), mock.Bucket("default", 64), mock.Virtual())
				stranger := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
				refuse(stranger, 0)
				if c.nodes > 1 {
					refuse(m, 1)
				}
				const at = "10.9.9.9:11210"
				for range rounds() {
					cl := onMock(t, m, func(cfg *core.Config) {
						if c.nodes == 1 {
							cfg.Seeds.Hosts = append(cfg.Seeds.Hosts, at)
						}
						cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
							if addr == at {
								return stranger.Dial(ctx, network, stranger.Node(0).Addr())
							}
							return m.Dial(ctx, network, addr)
						}
					})
					ended := make(chan error, 64) // one wait alone hardly ever looks at that moment
					for range cap(ended) {
						go func() { ended <- cl.WaitReady(within(t, 2*time.Second), c.ready) }()
					}
					for range cap(ended) {
						require.NoError(t, <-ended)
					}
					require.NoError(t, cl.Close())
				}
			})
		})
	}
}

// A wait whose strategy gives up ends well if the bucket has become ready while the strategy was asked.
func TestReadyWhileTheStrategyIsAsked_D269(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 64), mock.Virtual())
		refused := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSASLStep}}, mock.Status(memd.StatusAuthError))
		c := onMock(t, m, func(*core.Config) {})
		asked := 0
		require.NoError(t, c.WaitReady(within(t, time.Minute), core.Ready{
			Bucket: "default",
			Strategy: retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action {
				asked++
				refused.Remove()
				time.Sleep(10 * time.Second) // meanwhile the node takes the login
				return retry.Stop()
			}),
		}))
		require.Equal(t, 1, asked)
	})
}

// rounds is how often what two goroutines must meet for is tried. The race detector makes each some times as long.
func rounds() int {
	if raceEnabled {
		return 30
	}
	return 300
}
