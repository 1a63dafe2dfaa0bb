package mock_test

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// pathParts are what paths of services are made of, and what no path has.
var pathParts = []string{
	"api", "index", "i", "query", "service", "count", "bucket", "default", "scope", "_default", "_design", "d", "_view",
	"v", "pools", "buckets", "nodes", "settings", "rbac", "users", "local", "analytics", "link", "admin", "ping",
	"prepareds", "collections", "..", "%2e%2e", "", "%00", "%ff", "x", "controller", "rebalance", "docs", "stats",
	"v1", "functions", "f", "settings", "config", "deploy", "undeploy", "pause", "resume", "status",
}

var bodies = []string{
	"", "{", "null", "[]", `{"statement":"SELECT 1"}`, `{"statement":"SELECT * FROM default"}`, `{"statement":"((((("}`,
	`{"query":{"query":"a:b^~"},"size":-1}`, `{"query":{"conjuncts":[{}]},"facets":{"a":{}}}`,
	`{"views":{"v":{"map":"("}}}`,
	`{"sourceName":"default","type":"fulltext-index"}`, `{"knn":[{"field":"f","k":1}]}`, "a=b&c", "%", "\x00\xff",
	"name=x&ramQuota=-1", `{"statement":"SELECT $1","args":1}`, `{"prepared":"p","encoded_plan":"!"}`,
	`{"ctl":1,"query":[]}`, `{"appname":"f","depcfg":{"source_bucket":"default"},"settings":{"deployment_status":1}}`,
}

// TestRandomHTTPRequestsDoNotCrash sends requests of parts that belong together and of parts that do not to every
// service. Each is answered; the node goes on.
func TestRandomHTTPRequestsDoNotCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	c := mock.Start(t, mock.VBuckets(2), mock.Documents("default", map[string]any{"k": map[string]any{"n": 1}}))
	require.NoError(t, c.PutSearchIndex("i", `{"sourceName":"default"}`))
	client := &http.Client{
		Transport: &http.Transport{}, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	t.Cleanup(client.CloseIdleConnections)
	services := []mock.Service{
		mock.ManagementService, mock.ViewsService, mock.QueryService, mock.SearchService,
		mock.AnalyticsService, mock.EventingService,
	}
	for range 1000 {
		path := "/" + pick(pathParts)
		for range random.IntN(7) {
			path += "/" + pick(pathParts)
		}
		if random.IntN(4) == 0 {
			path = pick([]string{
				"/query/service", "/api/index/i/query", "/analytics/service", "/default/_design/d",
				"/api/v1/functions/f", "/api/v1/functions/f/settings",
			})
		}
		rq, err := http.NewRequestWithContext(t.Context(), pick([]string{"GET", "POST", "PUT", "DELETE", "PATCH"}),
			"http://"+c.Node(0).ServiceAddr(services[random.IntN(len(services))]), strings.NewReader(pick(bodies)))
		require.NoError(t, err)
		rq.URL.Opaque = path + "?" + pick([]string{"", "a=b", "key=[", "limit=-1", "stale=x", "statement=SELECT", "%"})
		rq.Header.Set("Content-Type", pick([]string{"", "application/json", "application/x-www-form-urlencoded"}))
		if random.IntN(8) > 0 {
			rq.SetBasicAuth(mock.DefaultUser, mock.DefaultPassword)
		}
		if random.IntN(20) == 0 {
			rq.Header.Set("Cb-On-Behalf-Of", pick([]string{"x", "Og==", "YTpsb2NhbA=="}))
		}
		answer, err := client.Do(rq)
		require.NoError(t, err, "%s %s", rq.Method, path)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err, "%s %s", rq.Method, path)
		require.NoError(t, answer.Body.Close())
	}
	require.NotNil(t, login(t, c))
}

// TestAClusterStartsFast: the fastest of some starts takes less than a tenth of a second, 1,024 vbuckets included.
func TestAClusterStartsFast(t *testing.T) {
	least := time.Hour
	for range 10 {
		began := time.Now()
		c, err := mock.New(mock.Nodes(3), mock.VBuckets(1024))
		require.NoError(t, err)
		nc, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", c.Node(2).Addr())
		require.NoError(t, err)
		least = min(least, time.Since(began))
		require.NoError(t, nc.Close())
		require.NoError(t, c.Close())
	}
	require.Less(t, least, 100*time.Millisecond)
}
