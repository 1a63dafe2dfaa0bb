package conn

import (
	"bytes"
	"net"
	"sync/atomic"
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

// The runtime is not told when enough calls are in flight, and of no write that is long.
func TestWhenTheRuntimeIsNotTold(t *testing.T) {
	near, far := Loopback(t)
	c := newConn(near, &Options{Base: time.Now()}, &bootstrap{buf: make([]byte, minRead)})
	b := make([]byte, 8)
	for _, calls := range []int32{0, 1, quietCalls - 1, quietCalls, 1000, 1} {
		c.load.Store(calls)
		c.linger.quiet, c.linger.done = false, false
		_, err := far.Write([]byte("abc"))
		require.NoError(t, err)
		n, err := c.receive(b)
		require.NoError(t, err)
		require.Equal(t, "abc", string(b[:n]))
		require.Equal(t, calls >= quietCalls, c.linger.quiet, calls)
		require.Equal(t, calls >= quietCalls, c.linger.done, "it does not linger")

		w := c.try.(*tryTCP)
		w.buf = make([]byte, quietWrite)
		require.Equal(t, calls >= quietCalls, w.quiet(), calls)
		w.buf = make([]byte, quietWrite+1)
		require.False(t, w.quiet(), calls)
		w.buf = nil

		n, err = w.TryWrite([]byte("def"))
		require.NoError(t, err)
		require.Equal(t, 3, n)
		n, err = far.Read(b)
		require.NoError(t, err)
		require.Equal(t, "def", string(b[:n]))
	}

	foreign := newConn(struct{ net.Conn }{near}, &Options{Base: time.Now()}, &bootstrap{buf: make([]byte, minRead)})
	foreign.load.Store(1000)
	require.False(t, foreign.quiet(), "what is no socket")
}

// It writes what the socket takes, and no more.
func TestAQuietWriteDoesNotBlock(t *testing.T) {
	near, far := Loopback(t)
	var load atomic.Int32
	load.Store(quietCalls)
	w := newTry(near, &load)
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
	for n := 0; n < sent; {
		m, err := far.Read(got[n:])
		require.NoError(t, err)
		n += m
	}
	for i, b := range got {
		if b != whole[i%16] {
			require.Equal(t, whole[i%16], b, i)
		}
	}
	require.NoError(t, far.SetLinger(0))
	require.NoError(t, far.Close())
	require.Eventually(t, func() bool { _, err := w.TryWrite(whole); return err != nil }, 10*time.Second, time.Millisecond)
}
