package field_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// toServices are requests of every kind that need a cluster map.
func toServices(c *core.Cluster) map[string]func(ctx context.Context) error {
	hedge := &core.Hedge{MaxAttempts: 2, Delay: time.Millisecond}
	return map[string]func(ctx context.Context) error{
		"query": func(ctx context.Context) error { return runQuery(ctx, c, &query.Request{Statement: "SELECT 1"}) },
		"hedged query": func(ctx context.Context) error {
			return runQuery(ctx, c, &query.Request{Statement: "SELECT 1", Readonly: true, Hedge: hedge})
		},
		"prepared query": func(ctx context.Context) error {
			return runQuery(ctx, c, &query.Request{Statement: "SELECT 1", Prepare: true})
		},
		"analytics": func(ctx context.Context) error {
			return runAnalytics(ctx, c, &analytics.Request{Statement: "SELECT 1"})
		},
		"search": func(ctx context.Context) error {
			_, err := c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{}})
			return err
		},
		"view": func(ctx context.Context) error {
			_, err := c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v"})
			return err
		},
		"manifest": func(ctx context.Context) error { _, err := c.Bucket("default").Manifest(ctx); return err },
		"buckets":  func(ctx context.Context) error { _, err := c.Buckets(ctx); return err },
		"raw": func(ctx context.Context) error {
			_, err := c.Do(ctx, &core.HTTPRequest{Service: core.Query, Method: "GET", Path: "/"})
			return err
		},
	}
}

// A request to a service that has no map to go by says why: the map that is not used, or what nodes have
// been met with.
func TestRequestsToServicesNameWhyThereIsNoMap_D126(t *testing.T) {
	refused := scripted.New(t, 1)
	refused.Map = func(_ *scripted.Node, bucket string) []byte {
		return refused.Render(scripted.Spec{Bucket: bucket, Services: func(*scripted.Node) string { return `{"kv":"x"}` }})
	}
	manager := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, `{"no":"map"}`) }))
	t.Cleanup(manager.Close)
	for name, c := range map[string]struct {
		cfg  core.Config
		want string
	}{
		"a map that is refused": {core.Config{Seeds: core.SeedConfig{Hosts: refused.Addrs()}}, "port of kv"},
		"a map over HTTP that is refused": {core.Config{
			Seeds: core.SeedConfig{HTTPHosts: []string{manager.Listener.Addr().String()}},
			Maps:  core.MapConfig{Bootstrap: core.BootstrapHTTP},
		}, "is not used"},
		"a port that is closed": {
			core.Config{Seeds: core.SeedConfig{Hosts: []string{"127.0.0.1:1"}}},
			"node 127.0.0.1:1 is not connected: connection refused",
		},
		"a closed port for HTTP": {core.Config{
			Seeds: core.SeedConfig{HTTPHosts: []string{"127.0.0.1:1"}},
			Maps:  core.MapConfig{Bootstrap: core.BootstrapHTTP},
		}, "node 127.0.0.1:1 gives no cluster map over HTTP: connection refused"},
	} {
		c.cfg.Net.NodeFilter = core.AnyNode
		cl := openConfig(t, c.cfg)
		cl.Bucket("default")
		for what, run := range toServices(cl) {
			err := run(within(t, 200*time.Millisecond))
			require.ErrorIs(t, err, cberr.UnambiguousTimeout, "%s, %s", name, what)
			require.ErrorContains(t, err, c.want, "%s, %s", name, what)
		}
		cl = openConfig(t, func() core.Config { c.cfg.Retry.Strategy = failOnce; return c.cfg }())
		cl.Bucket("default")
		for what, run := range toServices(cl) {
			err := run(within(t, 5*time.Second))
			require.ErrorIs(t, err, cberr.ServiceNotAvailable, "%s, %s", name, what)
			require.ErrorContains(t, err, c.want, "%s, %s", name, what)
		}
	}
}

// A map that is used and does not name the service may be behind one that is not used.
func TestARequestToAServiceNamesTheNewerMapThatIsRefused_D126(t *testing.T) {
	s, c, b := pushing(t, 1)
	toAll(s, push("default", 1, 2, string(s.Render(scripted.Spec{Rev: 2, Bucket: "default", Services: func(*scripted.Node) string { return `{"kv":70000,"n1ql":8093}` }}))))
	requireWorks(t, b)
	err := runQuery(within(t, 200*time.Millisecond), c, &query.Request{Statement: "SELECT 1"})
	require.ErrorContains(t, err, "port of kv")
	var refused *core.MapError
	require.ErrorAs(t, err, &refused)
}
