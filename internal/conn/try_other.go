//go:build !unix || aix

package conn

import "net"

// newTry gives the non-blocking attempt that a connection offers itself; sockets of this system have none, so a
// goroutine of their own flushes them.
func newTry(nc net.Conn) tryWriter {
	t, _ := nc.(tryWriter)
	return t
}
