package mock_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// The full forms say the same as the terse ones, and more about the nodes.
func TestFullConfigurations(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 16), mock.Bucket("other", 8), mock.User("app", "pw",
		"other"), mock.User("Administrator", "password"))
	get := func(user, password, path string, into any) int {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+c.Node(0).ManagementAddr()+path,
			nil)
		require.NoError(t, err)
		req.SetBasicAuth(user, password)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			require.NoError(t, json.NewDecoder(resp.Body).Decode(into))
		}
		return resp.StatusCode
	}
	type bucket struct {
		Name  string                   `json:"name"`
		UUID  string                   `json:"uuid"`
		Map   map[string]any           `json:"vBucketServerMap"`
		Nodes []map[string]any         `json:"nodes"`
		Ext   []map[string]interface{} `json:"nodesExt"`
	}
	var terse, full bucket
	require.Equal(t, 200, get("Administrator", "password", "/pools/default/b/default", &terse))
	require.Equal(t, 200, get("Administrator", "password", "/pools/default/buckets/default", &full))
	require.Equal(t, terse.Map, full.Map)
	require.Equal(t, terse.UUID, full.UUID)
	require.Len(t, terse.Ext, 2)
	require.Empty(t, full.Ext)
	require.Len(t, full.Nodes, 2)
	require.Equal(t, "healthy", full.Nodes[1]["status"])
	require.Equal(t, true, full.Nodes[0]["thisNode"])
	var list []bucket
	require.Equal(t, 200, get("app", "pw", "/pools/default/buckets", &list))
	require.Len(t, list, 1)
	require.Equal(t, "other", list[0].Name)
	var pool bucket
	require.Equal(t, 200, get("Administrator", "password", "/pools/default", &pool))
	require.Len(t, pool.Nodes, 2)
	require.Equal(t, 401, get("Administrator", "wrong", "/pools/default", nil))
	require.Equal(t, 403, get("app", "pw", "/pools/default/buckets/default", nil))
	http.DefaultClient.CloseIdleConnections()
}
