package field_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// TestTelemetryBeginsBeforeTheFirstMap_D182: a connection whose node is in no map yet when reports are made counts in
// those that follow.
func TestTelemetryBeginsBeforeTheFirstMap_D182(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Virtual())
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGetClusterConfig}, Times: 3}, mock.Status(memd.StatusTmpFail))
		reports := make(chan string, 1000)
		c := toCollector(t, collect(t, m, func(ctx context.Context, ws *websocket.Conn) {
			for {
				_, text, err := command(ctx, ws, mock.TelemetryGet)
				if err != nil {
					return
				}
				reports <- text
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
					return
				}
			}
		}))
		for range 5 {
			require.Empty(t, nextOf(t, reports))
		}
		require.NoError(t, upsert(t, c.Bucket("default")))
		var all strings.Builder
		for range len(reports) + 10 {
			all.WriteString(nextOf(t, reports))
		}
		require.Equal(t, 1, strings.Count(all.String(), "sdk_kv_r_total"), all.String())
	})
}

// TestAppTelemetryCanBeEnded: a client that is open tells nothing any more, and goes on with everything else.
func TestAppTelemetryCanBeEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(2), mock.Virtual(), mock.AppTelemetry())
		c, _ := telling(t, m)
		connects(t, m, 1)
		c.EndAppTelemetry()
		c.EndAppTelemetry()
		time.Sleep(time.Second)
		require.Empty(t, m.TelemetryClients())
		m.SetAppTelemetry(false) // another map, and back
		time.Sleep(5 * time.Second)
		m.SetAppTelemetry(true)
		require.NoError(t, upsert(t, c.Bucket("default")))
		time.Sleep(time.Minute)
		require.Empty(t, m.TelemetryClients())
		require.NoError(t, c.Close())

		c, _ = telling(t, m, func(cfg *core.Config) { cfg.Observe.AppTelemetry.Disabled = true })
		c.EndAppTelemetry()
		_, err := kv.Do(t.Context(), c.Bucket("default"), kv.Get{Key: []byte("k")})
		require.NoError(t, err)
	})
}
