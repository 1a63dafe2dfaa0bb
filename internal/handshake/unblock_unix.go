//go:build unix && !aix

package handshake

import (
	"errors"
	"net"
	"syscall"
)

// unblock sets O_NONBLOCK on the descriptor of a connection that the user's Dial has given. Without it reads and writes
// keep a thread each, deadlines do not work, and Close waits for them.
func unblock(nc net.Conn) error {
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil // no descriptor: not a socket of the system
	}
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = syscall.SetNonblock(int(fd), true) }); err != nil {
		return err
	}
	return failed
}
