package conn

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// linger reads for a reader that stays on its processor, see relay, where that and the other connection's are all there are.
// When there is nothing to be read it waits in a system call of its own for a short time, which keeps the processor: were it
// given up, the runtime would wake a thread for it with the next caller that is woken, which takes half of the callers away,
// and whichever processor is free would get the reader.
//
// While both processors are kept so nobody looks after the program's other connections and timers. So the reader lingers no
// longer than lingerMax, and after lingerPark it parks as it would have without: its processor runs whatever has become ready,
// looks after the network, and comes back to the reader, too, if there is an answer for it.
type linger struct {
	raw    syscall.RawConn
	now    func() int64
	parked int64 // when the reader did so last
	done   bool  // it has lingered in this read
	buf    []byte
	n      int
	err    error
	poll   pollFd
	left   syscall.Timespec // to linger
	read   func(fd uintptr) bool
}

// pollFd is the kernel's struct pollfd.
type pollFd struct {
	fd              int32
	events, revents int16
}

const (
	pollIn     = 1
	lingerMax  = 200 * time.Microsecond
	lingerPark = 500 * time.Microsecond
)

// newLinger gives nil for what is no TCP socket.
func newLinger(nc net.Conn, now func() int64) *linger {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	l := &linger{raw: raw, now: now}
	l.read = func(fd uintptr) bool {
		for {
			l.n, l.err = syscall.Read(int(fd), l.buf)
			switch {
			case l.err == syscall.EINTR: //nolint:errorlint // a bare errno
			case l.err != syscall.EAGAIN: //nolint:errorlint // a bare errno
				return true
			case l.done || !l.wait(fd):
				l.parked = l.now()
				return false
			}
		}
	}
	return l
}

// wait reports whether there is something to be read now, and the reader need not park before it does so.
func (l *linger) wait(fd uintptr) bool {
	l.done = true
	l.poll = pollFd{fd: int32(fd), events: pollIn}
	l.left = syscall.NsecToTimespec(int64(lingerMax)) // the kernel writes into it
	n, _, _ := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&l.poll)), 1, uintptr(unsafe.Pointer(&l.left)), 0, 0, 0)
	return n == 1 && l.now()-l.parked < int64(lingerPark)
}

// Read is that of the connection.
func (l *linger) Read(b []byte) (int, error) {
	l.buf, l.done = b, false
	err := l.raw.Read(l.read)
	l.buf = nil
	switch {
	case err != nil: // the socket was closed, or its deadline is over
		return 0, err
	case l.err != nil:
		return 0, os.NewSyscallError("read", l.err)
	case l.n == 0:
		return 0, io.EOF
	}
	return l.n, nil
}
