//go:build unix

package conn

import (
	"net"
	"syscall"
)

// tryTCP makes one non-blocking write attempt on a TCP socket without an allocation.
type tryTCP struct {
	raw   syscall.RawConn
	quiet func() bool // see Conn.quietly
	buf   []byte
	n     int
	err   error
	fn    func(fd uintptr) bool
}

func newTry(nc net.Conn, quietly func() bool) tryWriter {
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
	t := &tryTCP{raw: raw, quiet: quietly}
	t.fn = func(fd uintptr) bool {
		for {
			t.n, t.err = t.once(int(fd))
			if t.err != syscall.EINTR { //nolint:errorlint // a bare errno
				return true
			}
		}
	}
	return t
}

func (t *tryTCP) once(fd int) (int, error) {
	if len(t.buf) <= quietWrite && t.quiet() {
		return writeNow(fd, t.buf)
	}
	return syscall.Write(fd, t.buf)
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
