package field_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// Each service's requests go to all of its nodes in even shares, whatever the program asks of other services between
// them. One counter for all services would send every request of a service to the same node in some of these orders.
func TestEachServiceHasTurnsOfItsOwn_D245(t *testing.T) {
	const rounds = 20
	for name, order := range map[string][]string{
		"query and search":        {"query", "search"},
		"query and analytics":     {"query", "analytics"},
		"query and management":    {"query", "management"},
		"all":                     {"query", "analytics", "search", "management"},
		"one three times as much": {"query", "query", "query", "search"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 8), mock.Virtual())
				answer := mock.Answer{Rows: []string{"1"}}
				m.ScriptQuery("SELECT 1", answer)
				m.ScriptAnalytics("SELECT 1", answer)
				m.ScriptSearch("i", answer)
				c := onMock(t, m, func(*core.Config) {})
				require.NoError(t, c.WaitReady(within(t, time.Second)))
				asked, total := map[string]map[string]int{}, map[string]int{} // by the service, and by the node too
				for range rounds {
					for _, service := range order {
						if asked[service] == nil {
							asked[service] = map[string]int{}
						}
						asked[service][nodeOf(t, c, service)]++
						total[service]++
					}
				}
				for service, nodes := range asked {
					require.Len(t, nodes, 2, "%s: %v", service, nodes)
					for _, count := range nodes {
						require.InDelta(t, total[service]/2, count, 1, "%s: %v", service, nodes)
					}
				}
			})
		})
	}
}

// nodeOf sends a request to a service and gives the node that answered it.
func nodeOf(t *testing.T, c *core.Cluster, service string) string {
	t.Helper()
	if service == "management" {
		resp, err := c.Do(within(t, time.Second), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, resp.Body)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		return resp.Endpoint
	}
	rows, err := ask(t, c)[service]()
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.NoError(t, rows.Close())
	return rows.(interface{ Endpoint() string }).Endpoint()
}
