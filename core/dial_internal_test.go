//go:build linux

package core

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// tcp_keepalive_time and enable_tcp_keepalives are options of the sockets.
func TestOptionsOfKeepAliveReachTheSocket(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	for query, want := range map[string]int{
		"": 60, "?tcp_keepalive_time=7s": 7, "?enable_tcp_keepalives=false": 0,
		"?enable_tcp_keepalives=false&tcp_keepalive_time=7s":  0,
		"?tcp_keepalive_time=7s&enable_tcp_keepalives=false":  0,
		"?tcp_keepalive_time=9000&enable_tcp_keepalives=true": 9,
	} {
		cfg, err := ParseConnString("couchbase://h" + query)
		require.NoError(t, err)
		cfg, err = cfg.withDefaults()
		require.NoError(t, err)
		nc, err := cfg.Net.Dial(t.Context(), "tcp", l.Addr().String())
		require.NoError(t, err)
		raw, err := nc.(*net.TCPConn).SyscallConn()
		require.NoError(t, err)
		on, idle := 0, 0
		require.NoError(t, raw.Control(func(fd uintptr) {
			on, _ = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
			idle, _ = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		}))
		require.NoError(t, nc.Close())
		require.Equal(t, want != 0, on != 0, query)
		if want != 0 {
			require.Equal(t, want, idle, query)
		}
	}
}
