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
// While both processors are kept so nobody looks after the program's other connections. So the reader lingers no longer than
// lingerMax, and has that done when it was not for lingerLook, see around. A node that is on the same machine answers in less, and
// then the kernel's timer is what costs most, which on a virtual machine the host has to set. One that is due after the clock's
// next tick need not be set, so a reader whose last answers all came in time says that it waits for lingerLong.
type linger struct {
	raw    syscall.RawConn
	tc     *net.TCPConn
	done   bool // it has lingered in this read, or is not to
	quiet  bool // see Conn.quietly
	turns  int  // left to whoever else is to run on this core, before that
	prompt int  // how many times in a row it has not waited for longer than lingerMax
	buf    []byte
	n      int
	err    error
	poll   pollFd
	left   syscall.Timespec // to linger
	read   func(fd uintptr) bool

	looked int64 // when others were looked after last
	event  event
}

// pollFd is the kernel's struct pollfd.
type pollFd struct {
	fd              int32
	events, revents int16
}

const (
	pollIn      = 1
	lingerMax   = 200 * time.Microsecond
	lingerLong  = 5 * time.Millisecond // most kernels' clocks tick every 1 or 4 ms
	lingerLook  = 300 * time.Microsecond
	lingerTurns = 4
	// promptTimes is after how many such waits a reader trusts in the next one.
	promptTimes = 16
)

// newLinger gives nil for what is no TCP socket.
func newLinger(nc net.Conn) *linger {
	tc, ok := nc.(*net.TCPConn)
	if !ok {
		return nil
	}
	raw, err := tc.SyscallConn()
	if err != nil {
		return nil
	}
	l := &linger{raw: raw, tc: tc}
	l.read = func(fd uintptr) bool {
		for {
			l.n, l.err = l.once(int(fd))
			switch {
			case l.err == syscall.EINTR: //nolint:errorlint // a bare errno
			case l.err != syscall.EAGAIN: //nolint:errorlint // a bare errno
				return true
			case l.done:
				return false
			case l.turns > 0: // a node on this machine may be about to answer on this core: it takes no timer, and no waking up
				l.turns--
				_, _, _ = syscall.Syscall(syscall.SYS_SCHED_YIELD, 0, 0, 0)
			case !l.more(fd):
				return false
			}
		}
	}
	return l
}

func (l *linger) once(fd int) (int, error) {
	if l.quiet {
		return readNow(fd, l.buf)
	}
	return syscall.Read(fd, l.buf)
}

// more waits, and reports whether there is something to be read now.
func (l *linger) more(fd uintptr) bool {
	l.done = true
	l.poll = pollFd{fd: int32(fd), events: pollIn}
	l.left = syscall.NsecToTimespec(int64(l.limit())) // the kernel writes into it
	since := time.Now()
	n, _, _ := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&l.poll)), 1, uintptr(unsafe.Pointer(&l.left)), 0, 0, 0)
	l.waited(time.Since(since))
	return n == 1
}

// limit is how long the reader may wait now.
func (l *linger) limit() time.Duration {
	if l.prompt < promptTimes {
		return lingerMax
	}
	return lingerLong
}

// waited notes how long it has waited.
func (l *linger) waited(d time.Duration) {
	if l.prompt++; d > lingerMax {
		l.prompt = 0
	}
}

// wake ends the reader's wait, for whoever is about to close the socket, which would take as long.
func (l *linger) wake() {
	if l != nil {
		_ = l.tc.CloseRead()
	}
}

// around has the runtime look after the program's other connections, if that is due, and says whether it was. If not ok this
// cannot be done, and the reader must not linger.
func (l *linger) around(now int64) (looked, ok bool) {
	switch {
	case !l.event.open():
		return false, false
	case now-l.looked < int64(lingerLook):
		return false, true
	}
	l.looked = now
	return true, l.event.look()
}

// stop lets go of the event.
func (l *linger) stop() {
	if l != nil {
		l.event.close()
	}
}

// Read is that of the connection.
func (l *linger) Read(b []byte) (int, error) {
	l.done, l.turns = false, lingerTurns
	return l.receive(b)
}

// ReadQuietly is Read without lingering, and without word to the runtime.
func (l *linger) ReadQuietly(b []byte) (int, error) {
	l.done, l.turns, l.quiet = true, 0, true
	return l.receive(b)
}

func (l *linger) receive(b []byte) (int, error) {
	l.buf = b
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
