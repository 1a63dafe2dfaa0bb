package mock_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// tcpPair is a connection over the loopback interface, with faults at the first end.
func tcpPair(t *testing.T) (*mock.FaultConn, net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	require.NoError(t, err)
	b, err := l.Accept()
	require.NoError(t, err)
	f := mock.NewFaultConn(a)
	t.Cleanup(func() {
		f.Close()
		b.Close()
	})
	require.NoError(t, b.SetDeadline(time.Now().Add(patience)))
	return f, b
}

func readN(t *testing.T, nc net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	_, err := io.ReadFull(nc, b)
	require.NoError(t, err)
	return string(b)
}

func TestFaultConn(t *testing.T) {
	t.Run("slices", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{Slice: 1, Gap: 5 * time.Millisecond})
		begin := time.Now()
		n, err := f.Write([]byte("abcde"))
		require.NoError(t, err)
		require.Equal(t, 5, n)
		require.GreaterOrEqual(t, time.Since(begin), 20*time.Millisecond)
		require.Equal(t, "abcde", readN(t, peer, 5))
	})
	t.Run("short reads", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{ReadAtMost: 2})
		_, err := peer.Write([]byte("abcde"))
		require.NoError(t, err)
		b := make([]byte, 5)
		n, err := f.Read(b)
		require.NoError(t, err)
		require.LessOrEqual(t, n, 2)
		require.Equal(t, "abcde"[n:], readN(t, f, 5-n))
	})
	t.Run("only the beginning", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{KeepOnly: 3})
		n, err := f.Write([]byte("abcde"))
		require.NoError(t, err)
		require.Equal(t, 5, n)
		f.Set(mock.ConnFaults{})
		_, err = f.Write([]byte("!"))
		require.NoError(t, err)
		require.Equal(t, "abc!", readN(t, peer, 4))
	})
	t.Run("a pause", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{PauseAt: 2, Pause: 40 * time.Millisecond, Latency: 10 * time.Millisecond})
		begin := time.Now()
		go func() { _, _ = f.Write([]byte("abcde")) }()
		require.Equal(t, "ab", readN(t, peer, 2))
		require.GreaterOrEqual(t, time.Since(begin), 10*time.Millisecond)
		require.Equal(t, "cde", readN(t, peer, 3))
		require.GreaterOrEqual(t, time.Since(begin), 50*time.Millisecond)
	})
	t.Run("half-open", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{Drop: true, Deaf: true})
		_, err := f.Write([]byte("lost"))
		require.NoError(t, err)
		_, err = peer.Write([]byte("later"))
		require.NoError(t, err)
		done := make(chan string, 1)
		go func() {
			b := make([]byte, 5)
			n, _ := f.Read(b)
			done <- string(b[:n])
		}()
		require.NoError(t, peer.SetReadDeadline(time.Now().Add(30*time.Millisecond)))
		_, err = peer.Read(make([]byte, 1))
		var te net.Error
		require.True(t, errors.As(err, &te) && te.Timeout())
		require.Empty(t, done)
		f.Set(mock.ConnFaults{})
		require.Equal(t, "later", <-done)
	})
	t.Run("reset", func(t *testing.T) {
		f, peer := tcpPair(t)
		f.Set(mock.ConnFaults{ResetAfter: 3, Slice: 2})
		n, err := f.Write([]byte("abcde"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Equal(t, 3, n)
		for err = nil; err == nil; {
			_, err = peer.Read(make([]byte, 8))
		}
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
	t.Run("closed while it waits", func(t *testing.T) {
		f, _ := tcpPair(t)
		f.Set(mock.ConnFaults{Deaf: true, Latency: time.Hour})
		ended := make(chan error, 2)
		go func() {
			_, err := f.Read(make([]byte, 1))
			ended <- err
		}()
		go func() {
			_, err := f.Write([]byte("x"))
			ended <- err
		}()
		f.Close()
		require.ErrorIs(t, <-ended, net.ErrClosed)
		require.ErrorIs(t, <-ended, net.ErrClosed)
	})
}

func TestConnectionsOfNodesWithFaults(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.Bucket("default", 1))
	r, other := loginAt(t, c, 0, baseFeatures...), loginAt(t, c, 1, baseFeatures...)
	require.NoError(t, c.SetConnFaults(mock.ConnFaults{Slice: 1, ReadAtMost: 1}, 0))
	r.set("k", "value")
	require.Equal(t, "value", r.body("k"))
	require.NoError(t, c.SetConnFaults(mock.ConnFaults{ResetAfter: 30}))
	r.send(getPacket("k"))
	_, err := r.read()
	require.Error(t, err)
	require.NoError(t, c.SetConnFaults(mock.ConnFaults{}))
	other.silent()
	require.NoError(t, c.ResetConns(1))
	_, err = other.nc.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
	require.Error(t, c.SetConnFaults(mock.ConnFaults{}, 9))
	require.Error(t, c.ResetConns(9))
	r = login(t, c, baseFeatures...)
	require.Equal(t, memd.StatusSuccess, r.call(getPacket("k")).Status)
}
