package mock_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// ask sends a request with a body of a content type to node 0.
func (m *manager) ask(method, path, kind, body string) (int, string) {
	m.t.Helper()
	return m.askAt(m.c.Node(0).ManagementAddr(), method, path, kind, body)
}

// askAt is ask for any address.
func (m *manager) askAt(addr, method, path, kind, body string) (int, string) {
	m.t.Helper()
	req, err := http.NewRequestWithContext(m.t.Context(), method, "http://"+addr+path, strings.NewReader(body))
	require.NoError(m.t, err)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	if m.user != "" {
		req.SetBasicAuth(m.user, "password")
	}
	res, err := m.http.Do(req)
	require.NoError(m.t, err)
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	require.NoError(m.t, err)
	return res.StatusCode, string(b)
}

// Every path that SDKs, Testcontainers' module and the usual tools ask for is there, with and without a slash at its
// end; the bodies are those that they send.
func TestPathsOfClientsAreThere(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.TLS())
	m := newManager(t, c)
	for _, row := range []struct{ request, form string }{
		{"GET /pools", ""},
		{"GET /pools/default", ""},
		{"GET /pools/nodes", ""},
		{"GET /whoami", ""},
		{"GET /versions", ""},
		{"GET /nodes/self", ""},
		{"GET /nodeStatuses", ""},
		{"POST /node/controller/rename", "hostname=127.0.0.1"},
		{"POST /node/controller/setupServices", "services=kv,n1ql,index,fts"},
		{"POST /pools/default", "memoryQuota=512&indexMemoryQuota=256"},
		{"POST /settings/web", "username=Administrator&password=password&port=8091"},
		{"POST /settings/indexes", "storageMode=plasma"},
		{"POST /clusterInit", "services=kv&username=Administrator&password=password&port=SAME&memoryQuota=256"},
		{"PUT /node/controller/setupAlternateAddresses/external", "hostname=10.1.1.1&kv=31210"},
		{"DELETE /node/controller/setupAlternateAddresses/external", ""},
		{"GET /pools/default/b/default", ""},
		{"GET /pools/default/buckets/default", ""},
		{"GET /pools/default/buckets", ""},
		{"GET /pools/default/buckets/default/stats", ""},
		{"GET /pools/default/buckets/default/nodes", ""},
		{"GET /pools/default/buckets/default/docs", ""},
		{"GET /pools/default/buckets/default/scopes", ""},
		{"GET /pools/default/buckets/default/ddocs", ""},
		{"GET /pools/default/serverGroups", ""},
		{"GET /pools/default/nodeServices", ""},
		{"GET /pools/default/terseClusterInfo", ""},
		{"GET /pools/default/tasks", ""},
		{"GET /pools/default/rebalanceProgress", ""},
		{"GET /pools/default/trustedCAs", ""},
		{"GET /pools/default/certificate", ""},
		{"GET /pools/default/remoteClusters", ""},
		{"POST /pools/default/checkPermissions", "cluster.pools!read"},
		{"GET /settings/rbac/roles", ""},
		{"GET /settings/rbac/groups", ""},
		{"PUT /settings/rbac/groups/g", "roles=admin"},
		{"GET /settings/rbac/groups/g", ""},
		{"DELETE /settings/rbac/groups/g", ""},
		{"GET /settings/rbac/users", ""},
		{"GET /settings/rbac/users/local", ""},
		{"GET /settings/rbac/users/external", ""},
		{"GET /settings/querySettings", ""},
		{"POST /settings/querySettings", "queryTimeout=1"},
		{"GET /settings/stats", ""},
		{"POST /settings/stats", "sendStats=false"},
		{"GET /settings/web", ""},
		{"GET /settings/autoFailover", ""},
		{"POST /settings/autoFailover", "enabled=true&timeout=30"},
		{"GET /internalSettings", ""},
		{"GET /settings/security", ""},
		{"GET /settings/indexes", ""},
		{"POST /settings/developerPreview", "enabled=true"},
		{"GET /settings/autoCompaction", ""},
		{"POST /controller/setAutoCompaction", "databaseFragmentationThreshold[percentage]=40"},
		{"GET /sampleBuckets", ""},
		{"GET /indexStatus", ""},
		{"GET /metrics", ""},
		{"GET /_prometheusMetrics", ""},
		{"GET /_metering", ""},
		{"GET /logs", ""},
		{"GET /ui/index.html", ""},
		{"POST /controller/startLogsCollection", "nodes=*"},
		{"GET /pools/default/stats/range/kv_curr_items", ""},
		{"GET /pools/default/settings/memcached/global", ""},
		{"POST /pools/default/buckets/default/controller/compactBucket", ""},
		{"POST /pools/default/buckets/default/controller/doFlush", ""},
	} {
		method, path, _ := strings.Cut(row.request, " ")
		for _, slash := range []string{"", "/"} {
			if slash != "" && method == "DELETE" {
				continue // it is gone
			}
			status, body := m.ask(method, path+slash, "application/x-www-form-urlencoded", row.form)
			require.Equal(t, 200, status, "%s%s: %s", row.request, slash, body)
		}
	}
}

// What is not there is refused in ns_server's words, which differ by method.
func TestPathsThatAreNotThere(t *testing.T) {
	m := newManager(t, mock.Start(t))
	for request, want := range map[string]string{
		"GET /nothing/here":                          "Requested resource not found.\r\n",
		"GET /pools/default/buckets/nope":            "Requested resource not found.\r\n",
		"GET /pools/default/b/nope":                  "Requested resource not found.\r\n",
		"POST /nothing":                              "Object Not Found",
		"DELETE /pools/default":                      "Object Not Found",
		"GET /pools/default?uuid=x":                  "Cluster uuid does not match the requested.\r\n",
		"GET /pools/default/b/default?bucket_uuid=x": "Bucket uuid does not match the requested.\r\n",
	} {
		method, path, _ := strings.Cut(request, " ")
		status, body := m.ask(method, path, "", "")
		require.Equal(t, 404, status, request)
		require.Equal(t, want, body, request)
	}
	status, body := m.ask("TRACE", "/pools", "", "")
	require.Equal(t, 405, status)
	require.Equal(t, "Method Not Allowed", body)
}

// Without credentials only what a browser and a client's trust need is answered.
func TestPathsWithoutCredentials(t *testing.T) {
	m := newManager(t, mock.Start(t, mock.TLS()))
	m.user = ""
	m.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	for path, status := range map[string]int{
		"/": 301, "/ui/index.html": 200, "/pools/default/certificate": 200, "/pools": 401, "/whoami": 401,
		"/pools/default/trustedCAs": 401, "/nothing": 401,
	} {
		got, _ := m.ask("GET", path, "", "")
		require.Equal(t, status, got, path)
	}
}

// An account gets what its roles allow, and is told which permission it lacks.
func TestPermissionsOverHTTP(t *testing.T) {
	c := mock.Start(t, mock.User("Administrator", "password"), mock.User("app", "password", "default"),
		mock.Reader("reader", "password", "default"))
	m := newManager(t, c)
	status, _ := m.do("PUT", "/settings/rbac/users/local/looker", url.Values{
		"password": {"password"},
		"roles":    {"ro_admin"},
	})
	require.Equal(t, 200, status)
	const settings = "/settings/querySettings"
	for _, row := range []struct {
		user, request string
		status        int
	}{
		{"app", "GET /pools/default", 200},
		{"app", "GET /pools/default/buckets/default", 200},
		{"app", "POST /pools/default/buckets/default", 403},
		{"app", "GET " + settings, 403},
		{"app", "POST /controller/rebalance", 403},
		{"app", "GET /pools/default/buckets/default/docs", 200},
		{"reader", "GET /pools/default/buckets/default/docs", 200},
		{"reader", "POST /pools/default/buckets/default/docs/k", 403},
		{"looker", "GET " + settings, 200},
		{"looker", "POST " + settings, 403},
		{"looker", "GET /settings/rbac/users", 200},
		{"looker", "GET /pools/default/buckets/default/docs", 403},
		{"looker", "GET /pools/default/buckets/default", 200},
	} {
		m.user = row.user
		method, path, _ := strings.Cut(row.request, " ")
		status, body := m.ask(method, path, "", "")
		require.Equal(t, row.status, status, "%s: %s: %s", row.user, row.request, body)
		if row.status == 403 {
			require.Contains(t, body, `"permissions":["cluster.`, row.request)
		}
	}
	m.user = "app"
	_, body := m.ask("POST", "/pools/default/checkPermissions", "",
		"cluster.bucket[default].settings!read,cluster.bucket[other].settings!read, cluster.admin!all")
	require.JSONEq(t, `{"cluster.bucket[default].settings!read":true,"cluster.bucket[other].settings!read":false,
		"cluster.admin!all":false}`, body)
	status, body = m.ask("POST", "/pools/default/checkPermissions", "", "x")
	require.Equal(t, 400, status)
	require.Equal(t, `"Malformed permissions: [x]."`, body)
}
