package conn

import (
	"io"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// lingering is a socket, its linger with a clock of the test's, and the other end.
func lingering(t *testing.T) (near, far *net.TCPConn, l *linger, now *int64) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	a, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	b, err := ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = a.Close(), b.Close() })
	now = new(int64)
	l = newLinger(a, func() int64 { return *now })
	require.NotNil(t, l)
	return a.(*net.TCPConn), b.(*net.TCPConn), l, now
}

func TestALingeringReadIsTheSocketsRead(t *testing.T) {
	near, far, l, _ := lingering(t)
	b := make([]byte, 10)
	for _, wait := range []time.Duration{0, lingerMax / 2, 20 * lingerMax} {
		go func() {
			time.Sleep(wait)
			_, _ = far.Write([]byte("abc"))
		}()
		n, err := l.Read(b)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b[:n]))
	}
	require.NoError(t, near.SetReadDeadline(time.Unix(1, 0)))
	_, err := l.Read(b)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, near.SetReadDeadline(time.Time{}))
	require.NoError(t, far.CloseWrite())
	_, err = l.Read(b)
	require.Equal(t, io.EOF, err)

	near, _, l, _ = lingering(t)
	time.AfterFunc(5*time.Millisecond, func() { _ = near.Close() })
	_, err = l.Read(b)
	require.ErrorIs(t, err, net.ErrClosed)

	_, far, l, _ = lingering(t)
	require.NoError(t, far.SetLinger(0))
	require.NoError(t, far.Close()) // resets it
	_, err = l.Read(b)
	var call *os.SyscallError
	require.ErrorAs(t, err, &call)
	require.ErrorIs(t, err, syscall.ECONNRESET)

	pipe, _ := net.Pipe()
	require.Nil(t, newLinger(pipe, nil), "what is no socket")
}

// inside calls f with the socket, as a read would. What f finds is looked at afterwards: a test that ended in there would keep
// the socket from being closed.
func (l *linger) inside(t *testing.T, f func(fd uintptr)) {
	require.NoError(t, l.raw.Control(f))
}

// It waits as long as it may each time, whatever the kernel has left of the time before.
func TestHowLongAReaderLingers(t *testing.T) {
	_, far, l, _ := lingering(t)
	more := false
	wait := func(fd uintptr) { more = l.more(fd) }
	for _, left := range []time.Duration{0, 1, time.Hour} {
		l.left = syscall.NsecToTimespec(int64(left))
		began := time.Now()
		l.inside(t, wait)
		require.False(t, more)
		require.GreaterOrEqual(t, time.Since(began), lingerMax)
	}
	_, err := far.Write([]byte("abc"))
	require.NoError(t, err)
	for !more { // the bytes may take a moment
		l.inside(t, wait)
	}
}

// A read that finds nothing lingers once, and costs no memory; neither does one that finds something.
func TestALingeringReadParks(t *testing.T) {
	_, far, l, _ := lingering(t)
	b := make([]byte, 10)
	time.AfterFunc(10*lingerMax, func() { _, _ = far.Write([]byte("abc")) })
	_, err := l.Read(b)
	require.NoError(t, err)
	require.True(t, l.done, "it has lingered")
	l.poll, l.buf = pollFd{}, b
	found := true
	l.inside(t, func(fd uintptr) { found = l.read(fd) })
	require.False(t, found)
	require.Zero(t, l.poll, "it does so once in each read")
	allocs := testing.AllocsPerRun(100, func() {
		_, _ = far.Write([]byte("abc"))
		_, err = l.Read(b)
	})
	require.NoError(t, err)
	if !RaceEnabled { // the race detector allocates on its own
		require.Zero(t, allocs)
	}
	_, _ = far.Write([]byte("abc"))
	time.Sleep(time.Millisecond)
	_, err = l.Read(b)
	require.NoError(t, err)
	require.False(t, l.done, "and may do so in the next one")
}

// A reader that is about to linger has the runtime look after the others, as often as it is due.
func TestALingeringReaderLooksAround(t *testing.T) {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	_, _, l, now := lingering(t)
	other, from, _, _ := lingering(t)
	*now = int64(lingerLook)
	require.True(t, l.around())
	for range 100 {
		var had atomic.Bool
		over := make(chan struct{})
		go func() {
			defer close(over)
			_, _ = other.Read(make([]byte, 10))
			had.Store(true)
		}()
		runtime.Gosched() // it waits for what comes now
		_, err := from.Write([]byte("abc"))
		require.NoError(t, err)
		looked := *now
		*now += int64(lingerLook) - 1
		require.True(t, l.around())
		require.Equal(t, looked, l.looked)
		*now++
		require.True(t, l.around())
		require.Equal(t, *now, l.looked)
		runtime.Gosched() // the two come one after the other
		runtime.Gosched() // and sometimes whoever has given way comes first
		require.True(t, had.Load())
		<-over
	}
	if !RaceEnabled {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			*now += int64(lingerLook)
			l.around()
		}))
	}
	l.stop()
	l.stop()
	require.False(t, l.around(), "there is no event any more")
}

// A reader that cannot have others looked after does not linger.
func TestAReaderThatCannotLookAround(t *testing.T) {
	_, _, l, _ := lingering(t)
	var had syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &had))
	none := had
	none.Cur = 3
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	can := l.around()
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &had))
	require.False(t, can)
	require.False(t, l.around(), "it does not try again")

	_, _, l, now := lingering(t)
	*now = 10 * int64(lingerLook)
	require.True(t, l.around())
	require.NoError(t, l.event.Close())
	*now += int64(lingerLook)
	require.False(t, l.around())
	require.False(t, l.around())
	(*linger)(nil).stop()
}
