package conn

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// An attempt writes what the socket takes, and no more, whatever mode the descriptor is in.
func TestAnAttemptToWriteDoesNotBlock(t *testing.T) {
	for name, prepare := range map[string]func(*testing.T, *net.TCPConn){
		"non-blocking": func(*testing.T, *net.TCPConn) {},
		"blocking":     func(t *testing.T, nc *net.TCPConn) { testkit.Block(t, nc) },
	} {
		t.Run(name, func(t *testing.T) {
			near, far := Loopback(t)
			prepare(t, near)
			w := newTry(near)
			whole := bytes.Repeat([]byte("0123456789abcdef"), 4096)
			sent := 0
			for {
				n, err := w.TryWrite(whole[sent%16:])
				require.NoError(t, err)
				if n == 0 {
					break
				}
				sent += n
			}
			got := make([]byte, sent)
			_, err := io.ReadFull(far, got)
			require.NoError(t, err)
			require.Equal(t, bytes.Repeat([]byte("0123456789abcdef"), sent/16+1)[:sent], got)
			require.NoError(t, far.SetLinger(0))
			require.NoError(t, far.Close())
			require.Eventually(t, func() bool { _, err := w.TryWrite(whole); return err != nil }, 10*time.Second,
				time.Millisecond)
		})
	}
}
