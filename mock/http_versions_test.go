package mock_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// Paths and settings are those of the cluster's version; what came later is as unknown as anything else.
func TestManagementIsOfItsVersion(t *testing.T) {
	const collection = bucketsPath + "/default/scopes/_default/collections/c"
	since := []struct{ version, request string }{
		{"7.0", "GET " + bucketsPath + "/default/scopes"},
		{"7.0", "GET /pools/default/stats/range/x"},
		{"7.1", "GET /pools/default/trustedCAs"},
		{"7.2", "PATCH " + collection},
		{"7.6", "GET /settings/resourceManagement"},
		{"8.0", "GET /settings/appTelemetry"},
	}
	for _, version := range []string{"6.6", "7.0", "7.1", "7.2", "7.6", "8.0"} {
		m := newManager(t, mock.Start(t, mock.Version(version)))
		m.ask("POST", bucketsPath+"/default/scopes/_default/collections", formKind, "name=c")
		for _, row := range since {
			method, path, _ := strings.Cut(row.request, " ")
			form := ""
			if method == "PATCH" {
				form = "history=false"
			}
			status, body := m.ask(method, path, formKind, form)
			want := 404
			if version >= row.version {
				want = 200
			}
			require.Equal(t, want, status, "%s: %s: %s", version, row.request, body)
		}
		settings := m.object("/settings/querySettings")
		require.Equal(t, version >= "7.6", settings["queryUseReplica"] != nil, version)
		status, _ := m.ask("POST", "/settings/querySettings", formKind, "queryUseReplica=on")
		require.Equal(t, version >= "7.6", status == 200, version)
		require.True(t, strings.HasPrefix(m.object("/pools")["implementationVersion"].(string), version))
		require.True(t, strings.HasPrefix(m.object("/nodes/self")["version"].(string), version))
		require.Equal(t, version >= "7.6", m.object(bucketsPath + "/default")["rank"] != nil, version)
		status, _ = m.ask("POST", bucketsPath, formKind, "name=m&ramQuotaMB=100&bucketType=memcached")
		require.Equal(t, version < "8.0", status == 202, "memcached buckets ended with 8.0: %s", version)
	}
}
