package conn_test

import (
	"context"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/conn"
)

// Requests are gathered here, not by the kernel, which would hold a second one back until the first is answered.
func TestTheKernelHoldsNothingBack(t *testing.T) {
	var socket *net.TCPConn
	connect(t, document, func(o *conn.Options) {
		dial := o.Dial
		o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := dial(ctx, network, addr)
			socket, _ = nc.(*net.TCPConn)
			return nc, err
		}
	})
	raw, err := socket.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		v, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
		require.NoError(t, err)
		require.Equal(t, 1, v)
	}))
}
