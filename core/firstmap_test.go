package core_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// askedLog is a log handler that does f when it is asked for a line of that level. The goroutine that writes the line
// waits for that, as no goroutine waits for the line itself: so f is done at that place.
type askedLog struct {
	slog.Handler
	level slog.Level
	f     func()
}

func (h askedLog) Enabled(_ context.Context, level slog.Level) bool {
	if level == h.level {
		h.f()
	}
	return false
}

// A call that waits for the first map goes on waiting while one that was given lies before the config goroutine,
// however another node has failed meanwhile.
func TestAMapThatHasComeIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		node := func(n int, op memd.Opcode) mock.Match {
			return mock.Match{Nodes: []int{n}, Opcodes: []memd.Opcode{op}}
		}
		m.Inject(node(0, memd.OpGetClusterConfig), mock.Rewrite(func(_, rep *memd.Packet) { rep.Value = []byte("{") }))
		m.Inject(node(1, memd.OpHello), mock.Delay(10*time.Millisecond))
		m.Inject(node(2, memd.OpHello), mock.Delay(20*time.Millisecond))
		m.Inject(node(2, memd.OpSASLStep), mock.Status(memd.StatusAuthError))
		c := open(t, m, func(cfg *core.Config) {
			refused := func() { time.Sleep(100 * time.Millisecond) } // holds the config goroutine up
			cfg.Observe.Log = slog.New(askedLog{slog.DiscardHandler, slog.LevelWarn, refused})
		})
		began := time.Now()
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.GetClusterConfig{Pinned: true})
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}
