package memnet_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/memnet"
)

const address = "10.0.0.1:11210"

// tryWriter is what a connection of the network offers beside net.Conn.
type tryWriter interface {
	net.Conn
	TryWrite(b []byte) (int, error)
}

// pair is a network with one connection on it.
type pair struct {
	n              *memnet.Network
	client, server tryWriter
	link           *memnet.Link
}

// inNetwork runs f in a bubble, with a connection that is closed at its end.
func inNetwork(t *testing.T, opts memnet.Options, f func(t *testing.T, p pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(opts)
		l, err := n.Listen(address)
		require.NoError(t, err)
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		p := pair{n, c.(tryWriter), s.(tryWriter), n.Links()[0]}
		f(t, p)
		c.Close()
		s.Close()
		l.Close()
		require.Empty(t, n.Links())
	})
}

// reads returns what one Read gives.
func reads(t *testing.T, c net.Conn) string {
	t.Helper()
	b := make([]byte, 1<<10)
	n, err := c.Read(b)
	require.NoError(t, err)
	return string(b[:n])
}

// blocks reports whether a Read finds nothing for a second, and leaves the connection without a deadline.
func blocks(t *testing.T, c net.Conn) bool {
	t.Helper()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(time.Second)))
	n, err := c.Read(make([]byte, 1))
	require.NoError(t, c.SetReadDeadline(time.Time{}))
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}

func writes(t *testing.T, c net.Conn, s string) {
	t.Helper()
	n, err := c.Write([]byte(s))
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func TestNetworkLatencyIsExact(t *testing.T) {
	const latency = 1234567 * time.Nanosecond
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{Latency: latency})
		l, err := n.Listen(address)
		require.NoError(t, err)
		begin := time.Now()
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		require.Equal(t, 2*latency, time.Since(begin), "a round trip")
		s, err := l.Accept()
		require.NoError(t, err)

		begin = time.Now()
		writes(t, c, "ping")
		require.Zero(t, time.Since(begin), "a write does not wait for its delivery")
		require.Equal(t, "ping", reads(t, s))
		require.Equal(t, latency, time.Since(begin))

		n.Links()[0].Down().SetLatency(time.Nanosecond)
		begin = time.Now()
		writes(t, s, "pong")
		require.Equal(t, "pong", reads(t, c))
		require.Equal(t, time.Nanosecond, time.Since(begin), "each direction has its own")

		begin = time.Now()
		c.Close()
		_, err = s.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		require.Equal(t, latency, time.Since(begin), "the end of the stream travels too")
		s.Close()
		l.Close()
	})
}

func TestNetworkLatencyFuncNeverReorders(t *testing.T) {
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		// the last is for the end
		next := []time.Duration{5 * time.Millisecond, time.Millisecond, 7 * time.Millisecond, 0}
		p.link.Up().SetLatencyFunc(func() time.Duration {
			d := next[0]
			next = next[1:]
			return d
		})
		begin := time.Now()
		for _, s := range []string{"a", "b", "c"} {
			writes(t, p.client, s)
		}
		require.Equal(t, "ab", reads(t, p.server), "what has arrived comes in one read")
		require.Equal(t, 5*time.Millisecond, time.Since(begin))
		require.Equal(t, "c", reads(t, p.server))
		require.Equal(t, 7*time.Millisecond, time.Since(begin))
	})
}

func TestNetworkBufferHoldsWritersBack(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 10}, func(t *testing.T, p pair) {
		n, err := p.client.TryWrite([]byte("0123456789abcdef"))
		require.NoError(t, err)
		require.Equal(t, 10, n, "a short attempt")
		n, err = p.client.TryWrite([]byte("abcdef"))
		require.NoError(t, err)
		require.Zero(t, n, "full is not an error")

		done := make(chan error, 1)
		go func() {
			_, err := p.client.Write([]byte("abcdef"))
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		n, err = p.client.TryWrite([]byte("x"))
		require.NoError(t, err)
		require.Zero(t, n, "an attempt never mixes with a write under way")

		b := make([]byte, 4)
		_, err = io.ReadFull(p.server, b)
		require.NoError(t, err)
		synctest.Wait()
		require.Empty(t, done, "four bytes are too little room")
		tail := make([]byte, 12)
		_, err = io.ReadFull(p.server, tail)
		require.NoError(t, err)
		require.Equal(t, "0123456789abcdef", string(b)+string(tail))
		require.NoError(t, <-done)
		require.EqualValues(t, 16, p.link.Up().Written())
		require.EqualValues(t, 16, p.link.Up().Delivered())
	})
}

func TestNetworkConcurrentWritesDoNotMix(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 7}, func(t *testing.T, p pair) {
		const each = 100
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() { _, _ = p.client.Write(bytes.Repeat([]byte{byte('a' + i)}, each)) }) // judged by what arrives
		}
		synctest.Wait() // all of them have begun
		got := make([]byte, 5*each)
		_, err := io.ReadFull(p.server, got)
		require.NoError(t, err)
		wg.Wait()
		for at := 0; at < len(got); at += each {
			require.Equal(t, each, bytes.Count(got[at:at+each], got[at:at+1]), "%s", got)
		}
	})
}

func TestNetworkTryWriteNeverGetsInBetween(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 1}, func(t *testing.T, p pair) {
		const length = 1000
		done := make(chan error, 1)
		go func() {
			_, err := p.client.Write(bytes.Repeat([]byte("w"), length))
			done <- err
		}()
		synctest.Wait()
		for range length - 2 {
			require.Equal(t, "w", reads(t, p.server))
			n, err := p.client.TryWrite([]byte("t")) // there may be room for a moment
			require.NoError(t, err)
			require.Zero(t, n)
		}
		require.Equal(t, "w", reads(t, p.server))
		require.Equal(t, "w", reads(t, p.server))
		require.NoError(t, <-done)
	})
}

func TestNetworkDeadlines(t *testing.T) {
	t.Run("a read's", func(t *testing.T) {
		inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
			begin := time.Now()
			require.NoError(t, p.client.SetReadDeadline(begin.Add(3*time.Second+1)))
			_, err := p.client.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			var ne net.Error
			require.ErrorAs(t, err, &ne)
			require.True(t, ne.Timeout())
			require.Equal(t, 3*time.Second+1, time.Since(begin))

			writes(t, p.server, "x")
			_, err = p.client.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it stays in force, whatever there is to read")
			require.NoError(t, p.client.SetDeadline(time.Time{}))
			require.Equal(t, "x", reads(t, p.client), "nothing was lost")
		})
	})
	t.Run("before something arrives, and after", func(t *testing.T) {
		inNetwork(t, memnet.Options{Latency: 10 * time.Second}, func(t *testing.T, p pair) {
			writes(t, p.server, "x")
			begin := time.Now()
			require.NoError(t, p.client.SetReadDeadline(begin.Add(time.Second)))
			_, err := p.client.Read(make([]byte, 1))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, time.Second, time.Since(begin))
			require.NoError(t, p.client.SetReadDeadline(begin.Add(time.Hour)))
			require.Equal(t, "x", reads(t, p.client))
			require.Equal(t, 10*time.Second, time.Since(begin))
		})
	})
	t.Run("a write's, inside a buffer", func(t *testing.T) {
		inNetwork(t, memnet.Options{Buffer: 10}, func(t *testing.T, p pair) {
			begin := time.Now()
			require.NoError(t, p.client.SetWriteDeadline(begin.Add(time.Second)))
			n, err := p.client.Write(make([]byte, 25))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Equal(t, 10, n, "what the buffer took was accepted")
			require.Equal(t, time.Second, time.Since(begin))
			got := make([]byte, 10)
			_, err = io.ReadFull(p.server, got)
			require.NoError(t, err)
			n, err = p.client.Write([]byte("x"))
			require.ErrorIs(t, err, os.ErrDeadlineExceeded)
			require.Zero(t, n)
			n, err = p.client.TryWrite([]byte("y"))
			require.NoError(t, err, "an attempt has no deadline")
			require.Equal(t, 1, n)
		})
	})
	t.Run("set while someone waits", func(t *testing.T) {
		inNetwork(t, memnet.Options{Buffer: 1}, func(t *testing.T, p pair) {
			errs := make(chan error, 2)
			go func() {
				_, err := p.client.Read(make([]byte, 1))
				errs <- err
			}()
			go func() {
				_, err := p.client.Write(make([]byte, 2))
				errs <- err
			}()
			synctest.Wait()
			begin := time.Now()
			require.NoError(t, p.client.SetDeadline(begin.Add(-time.Second)))
			require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
			require.ErrorIs(t, <-errs, os.ErrDeadlineExceeded)
			require.Zero(t, time.Since(begin))
		})
	})
	t.Run("after the end", func(t *testing.T) {
		inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
			p.client.Close()
			require.ErrorIs(t, p.client.SetDeadline(time.Now()), net.ErrClosed)
			require.ErrorIs(t, p.client.SetReadDeadline(time.Now()), net.ErrClosed)
			require.ErrorIs(t, p.client.SetWriteDeadline(time.Now()), net.ErrClosed)
		})
	})
}

func TestNetworkEmptyReadsAndWrites(t *testing.T) {
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		n, err := p.client.Read(nil)
		require.NoError(t, err)
		require.Zero(t, n)
		writes(t, p.client, "")
		require.True(t, blocks(t, p.server))
	})
}

func TestNetworkClose(t *testing.T) {
	const latency = 5 * time.Millisecond
	inNetwork(t, memnet.Options{Latency: latency, Buffer: 12}, func(t *testing.T, p pair) {
		waiting := make(chan error, 1)
		go func() {
			_, err := p.client.Read(make([]byte, 1))
			waiting <- err
		}()
		synctest.Wait()
		writes(t, p.client, "last words")
		require.NoError(t, p.client.Close())
		require.NoError(t, p.client.Close(), "twice does no harm")
		require.ErrorIs(t, <-waiting, net.ErrClosed)
		_, err := p.client.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = p.client.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = p.client.TryWrite([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)

		writes(t, p.server, "it does not know yet")
		require.Equal(t, "last words", reads(t, p.server))
		_, err = p.server.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = p.server.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		require.Len(t, p.n.Links(), 1, "one end is still open")
	})
}

func TestNetworkCloseFreesAWriterThatWaits(t *testing.T) {
	for name, end := range map[string]func(p pair){
		"own":     func(p pair) { p.client.Close() },
		"other's": func(p pair) { p.server.Close() },
		"reset":   func(p pair) { p.link.Reset() },
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, memnet.Options{Buffer: 4}, func(t *testing.T, p pair) {
				done := make(chan error, 1)
				go func() {
					n, err := p.client.Write(make([]byte, 100))
					if n >= 100 {
						err = fmt.Errorf("%d bytes were accepted, and %w", n, err)
					}
					done <- err
				}()
				synctest.Wait()
				end(p)
				require.Error(t, <-done)
			})
		})
	}
}

func TestNetworkRecords(t *testing.T) {
	inNetwork(t, memnet.Options{Record: true, Latency: time.Second}, func(t *testing.T, p pair) {
		begin := time.Now()
		writes(t, p.client, "a")
		time.Sleep(time.Millisecond)
		writes(t, p.server, "b")
		p.link.Up().Drop()
		writes(t, p.client, "lost")
		id := p.link.ID()
		require.Equal(t, []memnet.Record{
			{At: begin, Link: id, Up: true, Bytes: []byte("a")},
			{At: begin.Add(time.Millisecond), Link: id, Bytes: []byte("b")},
			{At: begin.Add(time.Millisecond), Link: id, Up: true, Bytes: []byte("lost")},
		}, p.n.Records())
	})
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		writes(t, p.client, "a")
		require.Empty(t, p.n.Records())
	})
}

// TestNetworkCarriesAStream sends random bytes in random writes both ways at once, over every kind of delay and cut.
func TestNetworkCarriesAStream(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 1000}, func(t *testing.T, p pair) {
		p.link.Up().SetPieces(func(n int) int { return n/2 + 1 }, 3)
		p.link.Up().SetLatency(time.Millisecond)
		p.link.Down().SetBandwidth(100_000)
		want := make([]byte, 50_000)
		rand.Read(want)
		var wg sync.WaitGroup
		got := make([][]byte, 2)
		for i, end := range []struct{ w, r net.Conn }{{p.client, p.server}, {p.server, p.client}} {
			wg.Go(func() {
				for at := 0; at < len(want); {
					n, err := end.w.Write(want[at:min(len(want), at+1+at%777)])
					if err != nil {
						return
					}
					at += n
				}
			})
			wg.Go(func() {
				got[i] = make([]byte, len(want))
				_, _ = io.ReadFull(end.r, got[i]) // judged by what it read
			})
		}
		wg.Wait()
		require.True(t, bytes.Equal(want, got[0]))
		require.True(t, bytes.Equal(want, got[1]))
	})
}
