package core_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

// TestServiceOptionsOfAConnectionString puts each of them into its own field.
func TestServiceOptionsOfAConnectionString(t *testing.T) {
	cfg, err := core.ParseConnString("couchbase://h?query_timeout=1s&search_timeout=2s&analytics_timeout=3s&" +
		"view_timeout=4s" +
		"&management_timeout=5s&max_http_connections=6&max_perhost_idle_http_connections=7&" +
		"idle_http_connection_timeout=8s")
	require.NoError(t, err)
	require.Equal(t, []time.Duration{
		1 * time.Second, 2 * time.Second, 3 * time.Second, 4 * time.Second,
		5 * time.Second, 8 * time.Second,
	},
		[]time.Duration{
			cfg.HTTP.QueryTimeout, cfg.HTTP.SearchTimeout, cfg.HTTP.AnalyticsTimeout, cfg.HTTP.ViewTimeout,
			cfg.HTTP.ManagementTimeout, cfg.HTTP.IdleTimeout,
		})
	require.Equal(t, []int{6, 7}, []int{cfg.HTTP.MaxConnections, cfg.HTTP.MaxIdle})
	for _, change := range []func(*core.Config){
		func(c *core.Config) { c.HTTP.QueryTimeout = -1 }, func(c *core.Config) { c.HTTP.ManagementTimeout = -1 },
		func(c *core.Config) { c.HTTP.MaxConnections = -1 }, func(c *core.Config) { c.HTTP.IdleTimeout = -1 },
	} {
		bad := cfg
		change(&bad)
		_, err := core.Open(t.Context(), bad)
		require.Error(t, err)
	}
}
