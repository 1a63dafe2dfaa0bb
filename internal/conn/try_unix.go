//go:build unix && !aix

package conn

import (
	"net"
	"syscall"
)

// tryTCP makes one non-blocking write attempt on a TCP socket without an allocation. MSG_DONTWAIT makes the attempt
// non-blocking whatever mode the descriptor is in: a user's Dial, or another owner of the connection's file, may have
// cleared O_NONBLOCK.
type tryTCP struct {
	raw syscall.RawConn
	buf []byte
	n   int
	err error
	fn  func(fd uintptr) bool
}

func newTry(nc net.Conn) tryWriter {
	if t, ok := nc.(tryWriter); ok {
		return t
	}
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	t := &tryTCP{raw: raw}
	t.fn = func(fd uintptr) bool {
		for {
			t.n, t.err = syscall.SendmsgN(int(fd), t.buf, nil, nil, syscall.MSG_DONTWAIT)
			if t.err != syscall.EINTR { //nolint:errorlint // a bare errno
				return true
			}
		}
	}
	return t
}

// TryWrite writes what the socket takes at once. Only one goroutine may call it at a time.
func (t *tryTCP) TryWrite(b []byte) (int, error) {
	t.buf = b
	err := t.raw.Write(t.fn)
	t.buf = nil
	if err == nil {
		err = t.err
	}
	if err == syscall.EAGAIN { //nolint:errorlint // a bare errno
		return 0, nil
	}
	return max(t.n, 0), err
}
