package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// doctor --orphans reads what the client itself has written, with either of slog's handlers, and takes no report of
// slow operations for one of orphans.
func TestDoctorReadsWhatTheClientWrites_D156(t *testing.T) {
	for name, handler := range map[string]func(f *os.File) slog.Handler{
		"text": func(f *os.File) slog.Handler { return slog.NewTextHandler(f, nil) },
		"json": func(f *os.File) slog.Handler { return slog.NewJSONHandler(f, nil) },
	} {
		file := filepath.Join(t.TempDir(), name)
		f, err := os.Create(file)
		require.NoError(t, err)
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8))
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Observe.Log, cfg.Observe.Thresholds.KV = slog.New(handler(f)), time.Nanosecond
		c, err := core.Open(t.Context(), cfg)
		require.NoError(t, err)
		b := c.Bucket("default")
		require.NoError(t, b.WaitReady(t.Context()))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Delay(300*time.Millisecond))
		for range 3 {
			_, err = kv.Do(t.Context(), b, kv.Get{Key: []byte("k"), Common: kv.Common{Timeout: 20 * time.Millisecond}})
			require.Error(t, err)
		}
		require.Eventually(t, func() bool { return b.Orphans() == 3 }, 10*time.Second, time.Millisecond)
		require.NoError(t, c.Close())
		require.NoError(t, f.Close())
		r := cmd{}.run("doctor", "--orphans", file, "--json")
		require.Zero(t, r.code, r.stderr)
		o := r.object(t)
		require.InDelta(t, 3, o["orphans"], 0, name)
		require.Equal(t, orphanServers, o["likely"], "the mock counts its delay as work")
		require.Contains(t, o["slowest"], "get on "+m.Node(0).Addr())
		require.Contains(t, o["slowest"], "ms in all")
	}
}
