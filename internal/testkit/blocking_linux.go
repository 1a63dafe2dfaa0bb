package testkit

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Block clears O_NONBLOCK on a socket, as (*os.File).Fd does with the file of a connection.
func Block(t testing.TB, nc *net.TCPConn) {
	t.Helper()
	raw, err := nc.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), false) }))
	require.NoError(t, err)
}
