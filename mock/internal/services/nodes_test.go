package services_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// servicesOf are the services by node that a configuration lists, and the addresses in its vbucket map.
func servicesOf(t *testing.T, c *mock.Cluster) (services []map[string]int, servers []string) {
	t.Helper()
	var config struct {
		NodesExt []struct{ Services map[string]int }
		Map      struct{ ServerList []string } `json:"vBucketServerMap"`
		Nodes    []any
	}
	require.NoError(t, json.Unmarshal(c.ConfigJSON("default"), &config))
	for _, n := range config.NodesExt {
		services = append(services, n.Services)
	}
	require.Len(t, config.Nodes, len(config.Map.ServerList))
	return services, config.Map.ServerList
}

func TestServicesOfNodes(t *testing.T) {
	c := mock.Start(t, mock.Virtual(), mock.TLS(), mock.Nodes(3), mock.NodeServices(0, mock.QueryService),
		mock.Services(mock.KVService, mock.ViewsService))
	services, servers := servicesOf(t, c)
	// Nodes with vbuckets come first, in the order of the map.
	require.Equal(t, []string{"10.0.0.2:11210", "10.0.0.3:11210"}, servers)
	kv := map[string]int{"mgmt": 8091, "mgmtSSL": 18091, "kv": 11210, "kvSSL": 11207, "capi": 8092, "capiSSL": 18092}
	require.Equal(t, []map[string]int{kv, kv, {"mgmt": 8091, "mgmtSSL": 18091, "n1ql": 8093, "n1qlSSL": 18093}},
		services)
	require.Empty(t, c.Node(0).Addr())
	require.Empty(t, c.Node(0).ServiceAddr(mock.SearchService))
	require.Empty(t, c.Node(0).ServiceAddr(mock.Service(99)))
	require.Equal(t, "10.0.0.1:18093", c.Node(0).ServiceTLSAddr(mock.QueryService))
	require.Equal(t, "couchbase://10.0.0.2:11210,10.0.0.3:11210", c.ConnString())
	require.Error(t, c.MoveVBucket("default", 0, 0))
	require.Equal(t, 3, c.AddNode())
	require.NoError(t, c.Rebalance())
	_, servers = servicesOf(t, c)
	require.Len(t, servers, 3)
	require.NoError(t, c.RemoveNode(0))
	services, _ = servicesOf(t, c)
	require.Len(t, services, 3)

	_, err := mock.New(mock.Virtual(), mock.Services(mock.QueryService))
	require.ErrorContains(t, err, "buckets")
	require.Equal(t, "n1ql", mock.QueryService.String())
	require.Equal(t, "unknown", mock.Service(99).String())
}

func TestServicesEndAndReturnWithTheirNode(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := newAsker(t, c)
	ask := func() error {
		_, err := a.try(1, mock.QueryService, "GET", "/query/service?statement=SELECT+1", "", nil)
		return err
	}
	require.NoError(t, ask())
	require.NoError(t, c.Kill(1))
	require.Error(t, ask())
	require.NoError(t, c.Respawn(1))
	require.NoError(t, ask())
}
