package conn

import (
	"io"
	"net"
	"os"
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

// It waits as long as it may each time, whatever the kernel has left of the time before, and need not park when there is
// something, unless it has not done so for long.
func TestHowLongAReaderLingers(t *testing.T) {
	near, far, l, now := lingering(t)
	wait := func() (more bool) {
		l.inside(t, func(fd uintptr) { more = l.wait(fd) })
		return more
	}
	for _, left := range []time.Duration{0, 1, time.Hour} {
		l.left = syscall.NsecToTimespec(int64(left))
		began := time.Now()
		require.False(t, wait())
		require.GreaterOrEqual(t, time.Since(began), lingerMax)
	}
	_, err := far.Write([]byte("abc"))
	require.NoError(t, err)
	for more := false; !more; { // the bytes may take a moment
		*now = 10 * int64(lingerPark)
		l.parked = *now - int64(lingerPark) + 1
		more = wait()
	}
	l.parked--
	require.False(t, wait())
	_, err = near.Read(make([]byte, 10))
	require.NoError(t, err)
}

// A read that finds nothing notes that it has parked, and costs no memory; neither does one that finds something.
func TestALingeringReadParks(t *testing.T) {
	_, far, l, now := lingering(t)
	b := make([]byte, 10)
	*now = 7
	time.AfterFunc(10*lingerMax, func() { _, _ = far.Write([]byte("abc")) })
	_, err := l.Read(b)
	require.NoError(t, err)
	require.EqualValues(t, 7, l.parked)
	require.True(t, l.done, "it has lingered")
	l.poll, l.buf = pollFd{}, b
	found := true
	l.inside(t, func(fd uintptr) { found = l.read(fd) })
	require.False(t, found)
	require.Zero(t, l.poll, "it does so once in each read")
	*now = 8
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
