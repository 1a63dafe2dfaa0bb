package conn

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What the runtime is not told of does what it would do otherwise.
func TestQuietSystemCallsAreTheKernels(t *testing.T) {
	for name, f := range map[string]struct {
		read, write func(fd int, b []byte) (int, error)
	}{"told": {syscall.Read, syscall.Write}, "quiet": {readNow, writeNow}} {
		t.Run(name, func(t *testing.T) {
			fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
			require.NoError(t, err)
			defer syscall.Close(fds[0])
			b := make([]byte, 8)

			n, err := f.read(fds[0], b)
			require.Equal(t, syscall.EAGAIN, err)
			require.Equal(t, -1, n)
			n, err = f.write(fds[1], []byte("abc"))
			require.NoError(t, err)
			require.Equal(t, 3, n)
			n, err = f.read(fds[0], b[:2])
			require.NoError(t, err)
			require.Equal(t, "ab", string(b[:n]))
			n, err = f.read(fds[0], nil)
			require.NoError(t, err)
			require.Zero(t, n)
			n, err = f.write(fds[1], nil)
			require.NoError(t, err)
			require.Zero(t, n)

			for err == nil {
				n, err = f.write(fds[1], make([]byte, quietWrite))
			}
			require.Equal(t, syscall.EAGAIN, err)
			require.Equal(t, -1, n)

			for n, err = 1, nil; n > 0 && err == nil; {
				n, err = f.read(fds[0], make([]byte, quietWrite))
			}
			require.Equal(t, syscall.EAGAIN, err)
			require.NoError(t, syscall.Close(fds[1]))
			n, err = f.read(fds[0], b)
			require.NoError(t, err)
			require.Zero(t, n, "the end")
			_, err = f.write(fds[0], []byte("abc"))
			require.Equal(t, syscall.EPIPE, err)
			_, err = f.read(-1, b)
			require.Equal(t, syscall.EBADF, err)
		})
	}
}

// The runtime is not told when enough calls are in flight, and of no write that is long. Then there is a timer.
func TestWhenTheRuntimeIsNotTold(t *testing.T) {
	near, far := Loopback(t)
	require.NoError(t, near.SetWriteBuffer(4*quietWrite))
	boot := func() *bootstrap { return &bootstrap{buf: make([]byte, minRead)} }
	c := newConn(near, &Options{Base: time.Now(), Quiet: &Quiet{}}, boot())
	b := make([]byte, 2*quietWrite)
	for _, calls := range []int32{0, 1, quietCalls - 1, quietCalls, 1000, 1} {
		quiet := calls >= quietCalls
		c.load.Store(calls)
		c.linger.quiet, c.linger.done = false, false
		c.quiet.used.Store(false)
		_, err := far.Write([]byte("abc"))
		require.NoError(t, err)
		n, err := c.receive(b)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b[:n]))
		require.Equal(t, quiet, c.linger.quiet, calls)
		require.Equal(t, quiet, c.linger.done, "it does not linger")
		require.Equal(t, quiet, c.quiet.used.Swap(false), calls)

		for _, size := range []int{3, quietWrite, quietWrite + 1} {
			n, err = c.try.TryWrite(b[:size])
			require.NoError(t, err)
			require.Equal(t, size, n)
			_, err = io.ReadFull(far, b[:size])
			require.NoError(t, err)
			require.Equal(t, quiet && size <= quietWrite, c.quiet.used.Swap(false), "%d calls, %d bytes", calls, size)
		}
	}

	near, _ = Loopback(t)
	foreign := newConn(struct{ net.Conn }{near}, &Options{Base: time.Now(), Quiet: &Quiet{}}, boot())
	foreign.load.Store(1000)
	require.NoError(t, near.Close())
	_, err := foreign.receive(b)
	require.ErrorIs(t, err, net.ErrClosed, "what is no socket of ours")
	require.False(t, foreign.quiet.used.Load(), "so it needs no timer")
	told := newConn(near, &Options{Base: time.Now()}, boot())
	told.load.Store(1000)
	require.False(t, told.quietly(), "whoever wants all told")
}

// It writes what the socket takes, and no more.
func TestAQuietWriteDoesNotBlock(t *testing.T) {
	near, far := Loopback(t)
	w := newTry(near, func() bool { return true })
	whole := bytes.Repeat([]byte("0123456789abcdef"), quietWrite/16)
	sent := 0
	for {
		n, err := w.TryWrite(whole[sent%16:])
		require.NoError(t, err)
		if n == 0 {
			break
		}
		sent += n
	}
	got := make([]byte, sent)
	_, err := io.ReadFull(far, got)
	require.NoError(t, err)
	for i, b := range got {
		if b != whole[i%16] {
			require.Equal(t, whole[i%16], b, i)
		}
	}
	require.NoError(t, far.SetLinger(0))
	require.NoError(t, far.Close())
	require.Eventually(t, func() bool { _, err := w.TryWrite(whole); return err != nil }, 10*time.Second, time.Millisecond)
}
