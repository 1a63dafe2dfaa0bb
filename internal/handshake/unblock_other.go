//go:build !unix || aix

package handshake

import "net"

// unblock does nothing: the runtime of this system does not rely on a mode of the descriptor.
func unblock(net.Conn) error { return nil }
