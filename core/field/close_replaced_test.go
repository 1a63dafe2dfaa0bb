package field_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// atInfo is a log handler that discards, and calls f once when it is asked whether it wants a line at info level.
type atInfo struct {
	slog.Handler
	f atomic.Pointer[func()]
}

func (h *atInfo) Enabled(_ context.Context, l slog.Level) bool {
	if l == slog.LevelInfo {
		if f := h.f.Swap(nil); f != nil {
			(*f)()
		}
	}
	return false
}

// TestCloseWhileAConnectionIsReplaced_D166: a connection that a new one has just replaced is closed with the client,
// whatever moment Close chooses. The moment here is when the map that came with the new connection is considered.
func TestCloseWhileAConnectionIsReplaced_D166(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Net.Dial, cfg.Maps.NoNotifications, cfg.Maps.PollInterval = m.Dial, true, time.Hour
		h := &atInfo{Handler: slog.DiscardHandler}
		cfg.Observe.Log = slog.New(h)
		c := openConfig(t, cfg)
		require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Minute)))

		m.BumpRevision()
		closed := make(chan error, 1)
		during := func() {
			go func() { closed <- c.Close() }()
			time.Sleep(time.Second) // virtual: Close has got as far as it can
		}
		h.f.Store(&during)
		require.NoError(t, c.SetCredentials(core.Credentials{Username: cfg.Auth.Username, Password: cfg.Auth.Password}))
		require.NoError(t, <-closed)
	})
}
