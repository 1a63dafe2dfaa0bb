//go:build !unix

package conn

import (
	"net"
	"sync/atomic"
)

// newTry gives the non-blocking attempt that a connection offers itself; sockets of this system have none, so a
// goroutine of their own flushes them.
func newTry(nc net.Conn, _ *atomic.Int32) tryWriter {
	t, _ := nc.(tryWriter)
	return t
}
