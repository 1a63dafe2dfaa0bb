package memnet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/memnet"
)

func TestNetworkAddressBook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{})
		_, err := n.Dial(t.Context(), address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		var op *net.OpError
		require.ErrorAs(t, err, &op)
		require.Equal(t, address, op.Addr.String())
		require.Equal(t, "virtual", op.Addr.Network())

		l, err := n.Listen(address)
		require.NoError(t, err)
		_, err = n.Listen(address)
		require.ErrorIs(t, err, syscall.EADDRINUSE)
		_, err = n.Listen("no port")
		require.Error(t, err)
		free, err := n.Listen("10.0.0.9:0")
		require.NoError(t, err)
		other, err := n.Listen("10.0.0.9:0")
		require.NoError(t, err)
		require.NotEqual(t, free.Addr().String(), other.Addr().String())
		c, err := n.DialFrom(t.Context(), "10.7.7.7", free.Addr().String())
		require.NoError(t, err)
		s, err := free.Accept()
		require.NoError(t, err)
		require.Equal(t, c.LocalAddr(), s.RemoteAddr())
		require.Equal(t, c.RemoteAddr(), s.LocalAddr())
		host, _, err := net.SplitHostPort(c.LocalAddr().String())
		require.NoError(t, err)
		require.Equal(t, "10.7.7.7", host)
		link := n.Links()[0]
		require.Equal(t, c.LocalAddr().String(), link.LocalAddr())
		require.Equal(t, c.RemoteAddr().String(), link.RemoteAddr())
		require.EqualValues(t, 1, link.ID())

		accepted := make(chan error, 1)
		go func() {
			_, err := l.Accept()
			accepted <- err
		}()
		synctest.Wait()
		require.NoError(t, l.Close())
		require.NoError(t, l.Close())
		require.ErrorIs(t, <-accepted, net.ErrClosed)
		_, err = n.Dial(t.Context(), address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		again, err := n.Listen(address)
		require.NoError(t, err, "the address is free again")
		for _, c := range []io.Closer{c, s, free, other, again} {
			require.NoError(t, c.Close())
		}
	})
}

func TestNetworkListenerCloseResetsWhatWasNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{})
		l, err := n.Listen(address)
		require.NoError(t, err)
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		l.Close()
		_, err = c.Read(make([]byte, 1))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		c.Close()
		require.Empty(t, n.Links())

		// The listener goes away while a dial is between its connection and the backlog.
		l, err = n.Listen(address)
		require.NoError(t, err)
		n.OnLink(func(*memnet.Link) { l.Close() })
		c, err = n.Dial(t.Context(), address)
		require.NoError(t, err)
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		c.Close()
		require.Empty(t, n.Links())
	})
}

func TestNetworkDialWaitsWhileTheBacklogIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{})
		l, err := n.Listen(address)
		require.NoError(t, err)
		var open []net.Conn
		dial := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := n.Dial(ctx, address)
			if err == nil {
				open = append(open, c)
			}
			return err
		}
		for range 127 {
			require.NoError(t, dial())
		}
		nested := errors.New("not called")
		n.OnLink(func(*memnet.Link) {
			n.OnLink(nil)
			nested = dial()
		})
		require.NoError(t, dial())
		require.ErrorIs(t, nested, context.DeadlineExceeded, "the one that is being made counts")
		require.ErrorIs(t, dial(), context.DeadlineExceeded)
		require.Len(t, open, 128)
		dialled := make(chan net.Conn, 1)
		go func() {
			c, err := n.Dial(t.Context(), address)
			if err == nil {
				dialled <- c
			}
		}()
		synctest.Wait()
		require.Empty(t, dialled)
		s, err := l.Accept()
		require.NoError(t, err)
		open = append(open, s, <-dialled)
		l.Close()
		for _, c := range open {
			c.Close()
		}
		require.Empty(t, n.Links())
	})
}
