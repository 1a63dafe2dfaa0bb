// Package promises_test tries what the documents on retrying promise a user. Each test is named after its statement and
// goes the way a user goes: the public API on one side, package mock or mock/scripted on the other. It imports nothing
// internal.
package promises_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock/scripted"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// within is a context that ends after d.
func within(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// open is a cluster of the client's, on a scripted one.
func open(t testing.TB, s *scripted.Cluster, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	cfg := core.Config{
		Seeds: core.SeedConfig{Hosts: s.Addrs()},
		Net:   core.NetConfig{NodeFilter: core.AnyNode},
	}
	for _, c := range change {
		c(&cfg)
	}
	return openConfig(t, cfg)
}

func openConfig(t testing.TB, cfg core.Config) *core.Cluster {
	t.Helper()
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// ready is bucket "default" after WaitReady.
func ready(t testing.TB, s *scripted.Cluster, change ...func(*core.Config)) *core.Bucket {
	t.Helper()
	b := open(t, s, change...).Bucket("default")
	require.NoError(t, b.WaitReady(within(t, 5*time.Second)))
	return b
}

// services is a cluster of one node whose query, search, analytics and views services are the handler.
func services(t testing.TB, handler http.HandlerFunc, change ...func(*core.Config)) *core.Cluster {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	port := u.Port()
	s := scripted.New(t, 1)
	s.Map = func(n *scripted.Node, bucket string) []byte {
		return s.Render(scripted.Spec{Bucket: bucket, Services: func(n *scripted.Node) string {
			return `{"kv":` + strconv.Itoa(n.Port()) + `,"mgmt":` + port + `,"n1ql":` + port + `,"fts":` + port + `,"cbas":` + port +
				`,"capi":` + port + `,"eventingAdminPort":` + port + `,"backupAPI":` + port + `}`
		}})
	}
	c := open(t, s, change...)
	require.NoError(t, c.Bucket("default").WaitReady(within(t, 5*time.Second)))
	return c
}
