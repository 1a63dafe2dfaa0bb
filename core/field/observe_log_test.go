package field_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// lines are the log's with a message, the oldest first.
func (j *journal) lines(t *testing.T, msg string) (all []map[string]any) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.buf.String()) {
		var l map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		if l["msg"] == msg {
			all = append(all, l)
		}
	}
	return all
}

// The log tells a client's story: when it was opened and closed, each connection with the names by which a server's log
// and an error have it, and at level debug each step of connecting and each collection that was looked up.
func TestTheLogTellsOfAClientsLife_D175(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		j := &journal{}
		c, _ := mocked(t, m, func(cfg *core.Config) {
			cfg.Observe.TracerProvider = nil
			cfg.Observe.Log = slog.New(slog.NewJSONHandler(j, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		b := c.Bucket("default")
		require.NoError(t, second(m.CreateScope("default", "shop")))
		require.NoError(t, second(m.CreateCollection("default", "shop", "orders")))
		op := kv.Upsert{Key: []byte("k")}
		res, err := kv.Do(within(t, time.Second), b.Collection("shop", "orders"), op)
		require.NoError(t, err)
		synctest.Wait()

		opened := j.lines(t, "Cluster opened")
		require.Len(t, opened, 1)
		require.Contains(t, opened[0]["hosts"], m.Node(0).Addr())
		connected := j.lines(t, "Connected")
		require.Len(t, connected, 2, "one of each node")
		ids := map[any]bool{}
		for _, l := range connected {
			require.Equal(t, "INFO", l["level"])
			require.Regexp(t, "^"+opened[0]["client_id"].(string)+"/[0-9a-f]{16}$", l["connection_id"])
			require.NotEmpty(t, l["local"])
			require.Contains(t, l, "elapsed")
			ids[l["connection_id"]] = l["endpoint"] == res.Endpoint()
		}
		require.True(t, ids[res.Connection()], "the connection of a result is one of the log")
		steps := map[any]int{}
		for _, l := range j.lines(t, "Bootstrap step") {
			require.Equal(t, "DEBUG", l["level"])
			steps[l["step"]]++
		}
		require.Equal(t, 2, steps["HELLO"], steps)
		require.Equal(t, 2, steps["SELECT_BUCKET"], steps)
		resolved := j.lines(t, "Collection resolved")
		require.Len(t, resolved, 1)
		require.Equal(t, "shop.orders", resolved[0]["collection"])

		m.DisconnectAll()
		time.Sleep(time.Second)
		require.Len(t, j.lines(t, "Connection lost"), 2)
		require.Len(t, j.lines(t, "Connected"), 4)
		require.NoError(t, c.Close())
		closed := j.lines(t, "Cluster closed")
		require.Len(t, closed, 1)
		require.Equal(t, opened[0]["client_id"], closed[0]["client_id"])
		require.GreaterOrEqual(t, closed[0]["elapsed"], float64(time.Second))
	})
}
