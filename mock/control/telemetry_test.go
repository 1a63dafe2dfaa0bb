package control_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTelemetryOverHTTP(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	require.Empty(t, c.ok("GET", "/v1/telemetry", nil)["clients"])
	c.ok("PUT", "/v1/telemetry", body{"enabled": true})
	clients := func() []any { return c.ok("GET", "/v1/telemetry", nil)["clients"].([]any) }
	require.Eventually(t, func() bool { return len(clients()) == 1 }, 20*time.Second, 5*time.Millisecond)
	require.Equal(t, "Administrator", clients()[0].(body)["user"])
	c.ok("POST", "/v1/telemetry/ask", nil) // a client that answers counts
	c.upsert(b, "k", "1")
	items := c.ok("POST", "/v1/telemetry/ask", nil)["items"].([]any)
	require.Len(t, items, 1)
	require.InDelta(t, 0, items[0].(body)["status"], 0)
	require.Contains(t, items[0].(body)["text"], "sdk_kv_r_total{")
	require.NotEmpty(t, c.ok("GET", "/v1/telemetry", nil)["metrics"])
	items = c.ok("POST", "/v1/telemetry/ask", body{"command": 7})["items"].([]any)
	require.InDelta(t, 1, items[0].(body)["status"], 0)
	require.Equal(t, "command", c.fails(400, "POST", "/v1/telemetry/ask", body{"command": 256})["field"])
	c.ok("DELETE", "/v1/telemetry", nil)
	require.Empty(t, c.ok("GET", "/v1/telemetry", nil)["metrics"])
	c.ok("PUT", "/v1/telemetry", body{"enabled": false})
	require.Eventually(t, func() bool { return len(clients()) == 0 }, 20*time.Second, 5*time.Millisecond)
}
