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

// slowLog is a log handler that takes its time over one kind of line.
type slowLog struct {
	msg  string
	time time.Duration
}

func (h slowLog) Enabled(context.Context, slog.Level) bool { return true }
func (h slowLog) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h slowLog) WithGroup(string) slog.Handler            { return h }
func (h slowLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.msg {
		time.Sleep(h.time)
	}
	return nil
}

// A call that waits for the first map goes on waiting while one that was given lies before the config goroutine, however
// another node has failed meanwhile.
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
			cfg.Log = slog.New(slowLog{"Config refused", 100 * time.Millisecond}) // holds the config goroutine up
		})
		began := time.Now()
		_, err := kv.Do(ctx(t), c.Bucket("default"), kv.GetClusterConfig{Pinned: true})
		require.NoError(t, err)
		require.Equal(t, 100*time.Millisecond, time.Since(began))
	})
}
