package field_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
)

// handshaken is a connection that does f once when the client takes the deadline of its handshake away.
type handshaken struct {
	net.Conn
	f func()
}

func (h *handshaken) SetDeadline(t time.Time) error {
	if t.IsZero() && h.f != nil {
		h.f()
		h.f = nil
	}
	return h.Conn.SetDeadline(t)
}

// TestCloseWhileAConnectionIsReplaced_D166: a connection that a new one has just replaced is closed with the client,
// whatever moment Close chooses. The moment here is when the new connection is whole; a test of package dispatch has
// the one in which the old connection was left open.
func TestCloseWhileAConnectionIsReplaced_D166(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Bucket("default", 16), mock.Virtual())
		cfg, err := core.ParseConnString(m.ConnString())
		require.NoError(t, err)
		cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
		cfg.Maps.NoNotifications, cfg.Maps.PollInterval = true, time.Hour
		var during atomic.Pointer[func()]
		cfg.Net.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := m.Dial(ctx, network, addr)
			if f := during.Load(); f != nil && err == nil {
				nc = &handshaken{nc, *f}
			}
			return nc, err
		}
		c := openConfig(t, cfg)
		require.NoError(t, c.Bucket("default").WaitReady(within(t, time.Minute)))

		m.BumpRevision()
		closed := make(chan error, 1)
		closing := func() {
			go func() { closed <- c.Close() }()
			time.Sleep(time.Second) // virtual: Close has got as far as it can
		}
		during.Store(&closing)
		require.NoError(t, c.SetCredentials(core.Credentials{
			Username: cfg.Auth.Username, Password: cfg.Auth.Password,
		}))
		require.NoError(t, <-closed)
	})
}
