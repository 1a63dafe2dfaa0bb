//go:build !unix

package conn

import "net"

// newTry gives the non-blocking attempt that a connection offers itself; sockets of this system have none, so a
// goroutine of their own flushes them.
func newTry(nc net.Conn, _ func() bool) tryWriter {
	t, _ := nc.(tryWriter)
	return t
}
