package field_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
)

// queryNode answers queries and gives maps whose only node has no data service.
func queryNode(t *testing.T) (port string) {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	port = u.Port()
	raw := fmt.Sprintf(`{"rev":1,"revEpoch":1,"clusterUUID":"cu","nodesExt":[{"services":{"mgmt":%[1]s,"n1ql":%[1]s},"thisNode":true}]}`, port)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/query/service":
			_, _ = io.WriteString(w, `{"results":[1],"status":"success"}`)
		case r.URL.Path == "/pools/default/nodeServices":
			_, _ = io.WriteString(w, raw)
		case strings.HasPrefix(r.URL.Path, "/pools/default/nodeServicesStreaming"):
			_, _ = io.WriteString(w, raw+"\n\n\n\n")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			http.NotFound(w, r)
		}
	})
	return port
}

func one(t *testing.T, c *core.Cluster) {
	t.Helper()
	rows, err := c.Query(within(t, 2*time.Second), &query.Request{Statement: "SELECT 1"})
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.NoError(t, rows.Close())
}

// A map without a data node is a map of services: requests go by it, and the cluster is ready.
func TestAMapWithoutADataNodeIsUsableForServices_D124(t *testing.T) {
	for name, setting := range map[string]core.Bootstrap{
		"over HTTP alone": core.BootstrapHTTP,
		"over both":       core.BootstrapBoth,
	} {
		t.Run(name, func(t *testing.T) {
			port := queryNode(t)
			c := openConfig(t, core.Config{
				Seeds: core.SeedConfig{HTTPHosts: []string{"127.0.0.1:" + port}},
				Net:   core.NetConfig{NodeFilter: core.AnyNode},
				Maps:  core.MapConfig{Bootstrap: setting},
			})
			one(t, c)
			require.NoError(t, c.WaitReady(within(t, 2*time.Second)))
			one(t, c)
			require.Empty(t, c.Diagnostics().RefusedMaps)
			require.NoError(t, c.Close())
		})
	}
}

// A node whose connection brings such a map stays connected: it brings the next one, too.
func TestAMapWithoutADataNodeOverAConnection_D124(t *testing.T) {
	port := queryNode(t)
	s := scripted.New(t, 1)
	rev := 1
	s.Map = func(_ *scripted.Node, bucket string) []byte {
		rev++
		return s.Render(scripted.Spec{Bucket: bucket, Rev: int64(rev), Services: func(*scripted.Node) string { return `{"n1ql":` + port + `}` }})
	}
	c := open(t, s, func(cfg *core.Config) { cfg.Maps.PollInterval = 20 * time.Millisecond })
	one(t, c)
	require.NoError(t, c.WaitReady(within(t, 2*time.Second)))
	b := c.Bucket("")
	before, _ := b.Map()
	require.Eventually(t, func() bool { m, _ := b.Map(); return m.Rev > before.Rev+2 }, 5*time.Second,
		10*time.Millisecond)
	require.Equal(t, 1, s.Nodes[0].Accepted())
	one(t, c)
}
