package handshake

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// A descriptor in blocking mode is put back into the other one, also inside a wrapper; what has no descriptor stays as
// it is.
func TestABlockingDescriptorIsUnblocked(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	dialled, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	near := dialled.(*net.TCPConn)
	for _, nc := range []net.Conn{near, struct{ *net.TCPConn }{near}} {
		testkit.Block(t, near)
		require.NoError(t, unblock(nc))
		raw, err := near.SyscallConn()
		require.NoError(t, err)
		var flags uintptr
		require.NoError(t, raw.Control(func(fd uintptr) {
			flags, _, _ = syscall.Syscall(syscall.SYS_FCNTL, fd,
				syscall.F_GETFL, 0)
		}))
		require.NotZero(t, flags&syscall.O_NONBLOCK)
	}
	a, b := net.Pipe()
	defer b.Close()
	require.NoError(t, unblock(a))
	require.NoError(t, a.Close())
	require.NoError(t, near.Close())
	require.Error(t, unblock(near), "a connection that Dial has closed")
}
