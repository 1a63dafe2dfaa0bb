package sim

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The runtime keeps a stopped timer of the client's while one of a judge's is due before it, and that is not the
// client's doing.
func TestTheJudgesTimersKeepNoClientInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{plan: &plan{}, report: newReport(Options{}), m: mock.Start(t, mock.Virtual())}
		w.later.call(time.Second, func() { t.Error("a function was called after the end") })
		openWithACall(t, w)
		require.NoError(t, w.c.Close())
		c := w.letGo()
		require.NoError(t, w.m.Close())
		w.later.call(time.Second, func() { t.Error("a function was called after the end") })
		time.Sleep(time.Microsecond)
		synctest.Wait()
		w.checkMemory(c)
		require.Empty(t, w.report.Violations)
		time.Sleep(time.Minute)
	})
}

// openWithACall gives the world a client that has a timer for a call, and has a function called after that.
func openWithACall(t *testing.T, w *world) {
	t.Helper()
	cfg, err := core.ParseConnString(w.m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cfg.Net.Dial, cfg.Net.NodeFilter = w.m.Dial, core.AnyNode
	w.c, err = core.Open(context.Background(), cfg)
	require.NoError(t, err)
	w.b = w.c.Bucket("default")
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.NoError(t, w.b.WaitReady(ctx))
	w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Hold())
	kv.Start(context.Background(), w.b, kv.Get{Key: []byte("k")})
	time.Sleep(10 * time.Millisecond)
	w.later.call(time.Hour, func() { t.Error("a function was called after the end") })
}
