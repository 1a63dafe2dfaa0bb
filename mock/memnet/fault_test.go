package memnet_test

import (
	"context"
	"crypto/tls"
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

func TestNetworkDialFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{})
		l, err := n.Listen(address)
		require.NoError(t, err)
		works := func() {
			c, err := n.Dial(t.Context(), address)
			require.NoError(t, err)
			s, err := l.Accept()
			require.NoError(t, err)
			c.Close()
			s.Close()
		}
		works()
		n.Refuse(address)
		_, err = n.Dial(t.Context(), address)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		own := errors.New("too many open files")
		n.FailDial(address, own)
		_, err = n.Dial(t.Context(), address)
		require.ErrorIs(t, err, own)
		n.Restore(address)
		works()
		n.FailDial(address, own)
		n.FailDial(address, nil)
		works()

		n.Silence(address)
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		writes(t, c, "hello?")
		require.True(t, blocks(t, c))
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorIs(t, tls.Client(c, &tls.Config{ServerName: "x"}).HandshakeContext(ctx), context.DeadlineExceeded)
		c.Close()
		require.Empty(t, n.Links(), "the other end is held by no one")
		n.Restore(address)
		works()
		l.Close()
	})
}

func TestNetworkFailAfterEveryNumberOfBytes(t *testing.T) {
	const batch = "a batch of bytes"
	own := errors.New("broken pipe")
	for _, try := range []bool{false, true} {
		for k := range len(batch) {
			inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
				write := p.client.Write
				if try {
					write = p.client.TryWrite
				}
				writes(t, p.client, "before")
				p.link.Up().FailAfter(k, own)
				n, err := write([]byte(batch))
				require.ErrorIs(t, err, own)
				require.Equal(t, k, n)
				n, err = write([]byte("more"))
				require.ErrorIs(t, err, own)
				require.Zero(t, n)
				p.client.Close()
				got, err := io.ReadAll(p.server)
				require.NoError(t, err)
				require.Equal(t, "before"+batch[:k], string(got), "what was accepted is delivered")
			})
		}
	}
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		p.link.Up().FailAfter(len(batch), nil)
		writes(t, p.client, batch)
		_, err := p.client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
		writes(t, p.server, "the other direction is not touched")
	})
}

// TestNetworkFailAfterCountsOverTheBuffer has a write that waits for room and fails then.
func TestNetworkFailAfterCountsOverTheBuffer(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 3}, func(t *testing.T, p pair) {
		p.link.Up().FailAfter(8, nil)
		type result struct {
			n   int
			err error
		}
		done := make(chan result, 1)
		go func() {
			n, err := p.client.Write(make([]byte, 20))
			done <- result{n, err}
		}()
		_, err := io.ReadFull(p.server, make([]byte, 8))
		require.NoError(t, err)
		r := <-done
		require.ErrorIs(t, r.err, syscall.ECONNRESET)
		require.Equal(t, 8, r.n)
	})
}

func TestNetworkEndAfterEveryNumberOfBytes(t *testing.T) {
	const answer = "header and body"
	for k := range len(answer) + 1 {
		inNetwork(t, memnet.Options{Buffer: 20}, func(t *testing.T, p pair) {
			if k%2 == 0 {
				p.link.Down().EndAfter(k) // before it is written, or after it has arrived
			}
			writes(t, p.server, answer)
			if k%2 == 1 {
				p.link.Down().EndAfter(k)
			}
			got, err := io.ReadAll(p.client)
			require.NoError(t, err)
			require.Equal(t, answer[:k], string(got))
			n, err := p.server.Write(make([]byte, 100))
			require.NoError(t, err, "it is not told, and does not wait for room")
			require.Equal(t, 100, n)
		})
	}
}

func TestNetworkHold(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 8}, func(t *testing.T, p pair) {
		down := p.link.Down()
		down.HoldAfter(3)
		writes(t, p.server, "abcde")
		require.Equal(t, "abc", reads(t, p.client))
		require.True(t, blocks(t, p.client))
		n, err := p.server.TryWrite([]byte("fghijklmn"))
		require.NoError(t, err)
		require.Equal(t, 6, n, "what is held takes room")
		writes(t, p.client, "free")
		require.NotEmpty(t, reads(t, p.server))
		down.Resume()
		require.Equal(t, "defghijk", reads(t, p.client), "and then the rest")

		down.Hold()
		p.server.Close()
		require.True(t, blocks(t, p.client), "the end of the stream is held too")
		writes(t, p.client, "it does not know")
		down.Resume()
		_, err = p.client.Read(make([]byte, 1))
		require.Equal(t, io.EOF, err)
		_, err = p.client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.ECONNRESET)
	})
}

func TestNetworkDropInOneDirection(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 16, Latency: time.Millisecond}, func(t *testing.T, p pair) {
		writes(t, p.client, "on its way")
		_ = reads(t, p.server)
		writes(t, p.client, "sent")
		p.link.Up().Drop()
		writes(t, p.client, "a request that is lost, longer than the buffer")
		require.Equal(t, "sent", reads(t, p.server), "what was sent before still arrives")
		require.True(t, blocks(t, p.server))
		writes(t, p.server, "reply")
		require.Equal(t, "reply", reads(t, p.client))
		p.client.Close()
		require.True(t, blocks(t, p.server), "the end is lost as well: half-open")
		writes(t, p.server, "x")
	})
}

func TestNetworkDropWithAFullBuffer(t *testing.T) {
	inNetwork(t, memnet.Options{Buffer: 4}, func(t *testing.T, p pair) {
		p.link.Up().Hold()
		writes(t, p.client, "full")
		done := make(chan error, 1)
		go func() {
			_, err := p.client.Write([]byte("waits"))
			done <- err
		}()
		synctest.Wait()
		require.Empty(t, done)
		p.link.Up().Drop()
		require.NoError(t, <-done)
		p.link.Up().Resume()
		require.Equal(t, "full", reads(t, p.server))
		require.True(t, blocks(t, p.server))
	})
}

func TestNetworkReset(t *testing.T) {
	inNetwork(t, memnet.Options{Latency: time.Second}, func(t *testing.T, p pair) {
		writes(t, p.server, "unread")
		begin := time.Now()
		p.n.ResetAll()
		for _, c := range []net.Conn{p.client, p.server} {
			_, err := c.Read(make([]byte, 1))
			require.ErrorIs(t, err, syscall.ECONNRESET)
			_, err = c.Write([]byte("x"))
			require.ErrorIs(t, err, syscall.ECONNRESET)
		}
		require.Zero(t, time.Since(begin))
	})
}

func TestNetworkPieces(t *testing.T) {
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		up := p.link.Up()
		up.SetPieces(func(int) int { return 1 }, time.Nanosecond)
		begin := time.Now()
		writes(t, p.client, "abc")
		for i, want := range []string{"a", "b", "c"} {
			require.Equal(t, want, reads(t, p.server))
			require.Equal(t, time.Duration(i), time.Since(begin))
		}
		var left []int
		up.SetPieces(func(n int) int {
			left = append(left, n)
			return []int{-1, 100, 2}[len(left)%3]
		}, 0)
		writes(t, p.client, "0123456789")
		require.Equal(t, []int{10}, left, "more than there is counts as all")
		writes(t, p.client, "01234")
		require.Equal(t, []int{10, 5, 3, 2}, left)
		for _, want := range []string{"0123456789", "01", "2", "34"} {
			require.Equal(t, want, reads(t, p.server), "a read never joins pieces")
		}
		up.SetPieces(nil, 0)
		writes(t, p.client, "ab")
		writes(t, p.client, "cd")
		require.Equal(t, "abcd", reads(t, p.server))
	})
}

// A full buffer cuts no piece, however much of it has been read when the writer looks.
func TestNetworkPiecesWaitUntilTheyFit_D272(t *testing.T) {
	for name, set := range map[string]func(f *memnet.Flow){
		"pieces":  func(f *memnet.Flow) { f.SetPieces(func(n int) int { return n }, 0) },
		"packets": func(f *memnet.Flow) { f.SetPackets(func(b []byte) int { return int(b[0] - '0') }) },
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, memnet.Options{Buffer: 10}, func(t *testing.T, p pair) {
				set(p.link.Up())
				writes(t, p.client, "6abcde")
				n, err := p.client.TryWrite([]byte("8ABCDEFG"))
				require.NoError(t, err)
				require.Zero(t, n, "half of it would fit")
				done := make(chan error, 1)
				go func() {
					_, err := p.client.Write([]byte("8ABCDEFG"))
					done <- err
				}()
				b := make([]byte, 2)
				for _, want := range []string{"6a", "bc"} {
					synctest.Wait()
					require.EqualValues(t, 6, p.link.Up().Written(), "before %q is read", want)
					_, err = io.ReadFull(p.server, b)
					require.NoError(t, err)
					require.Equal(t, want, string(b))
				}
				require.NoError(t, <-done, "there is room for all of it")
				_, err = io.ReadFull(p.server, b)
				require.NoError(t, err)
				require.Equal(t, "de", string(b))
				require.Equal(t, "8ABCDEFG", reads(t, p.server))

				go func() {
					_, err := p.client.Write([]byte(";ABCDEFGHIJ")) // 11 bytes: more than the buffer ever holds
					done <- err
				}()
				require.Equal(t, ";ABCDEFGHI", reads(t, p.server))
				require.Equal(t, "J", reads(t, p.server))
				require.NoError(t, <-done)
			})
		})
	}
}

func TestNetworkBandwidth(t *testing.T) {
	inNetwork(t, memnet.Options{Latency: time.Millisecond}, func(t *testing.T, p pair) {
		p.link.Up().SetBandwidth(1000)
		begin := time.Now()
		writes(t, p.client, string(make([]byte, 500)))
		writes(t, p.client, string(make([]byte, 500)))
		require.Len(t, reads(t, p.server), 50, "a twentieth of a second's worth")
		require.Equal(t, 51*time.Millisecond, time.Since(begin))
		_, err := io.ReadFull(p.server, make([]byte, 950))
		require.NoError(t, err)
		require.Equal(t, 1001*time.Millisecond, time.Since(begin))
		p.link.Up().SetBandwidth(0)
		writes(t, p.client, string(make([]byte, 500)))
		require.Len(t, reads(t, p.server), 500)
		require.Equal(t, 1002*time.Millisecond, time.Since(begin))
	})
}

func TestNetworkPartitionAndHeal(t *testing.T) {
	inNetwork(t, memnet.Options{Latency: time.Millisecond}, func(t *testing.T, p pair) {
		other, err := p.n.Listen("10.0.0.2:11210")
		require.NoError(t, err)
		defer other.Close()
		writes(t, p.client, "in flight")
		p.n.Partition("10.1.0.1", "10.0.0.1")
		require.True(t, blocks(t, p.server))
		writes(t, p.client, ", sent")
		writes(t, p.server, "answer")
		require.True(t, blocks(t, p.server))
		require.True(t, blocks(t, p.client))

		reach := func(from, to string) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			c, err := p.n.DialFrom(ctx, from, to)
			if err == nil {
				p.n.Links()[len(p.n.Links())-1].Reset()
				c.Close()
			}
			return err
		}
		require.ErrorIs(t, reach("10.1.0.1", address), context.DeadlineExceeded, "there is no answer")
		require.NoError(t, reach("10.1.0.1", "10.0.0.2:11210"), "other nodes are not touched")
		require.NoError(t, reach("10.1.0.2", address), "nor other clients")

		type dialled struct {
			c   net.Conn
			err error
		}
		waiting := make(chan dialled, 1)
		go func() {
			c, err := p.n.Dial(t.Context(), address)
			waiting <- dialled{c, err}
		}()
		time.Sleep(time.Second) // beyond the round trip
		require.Empty(t, waiting)
		p.n.Heal("10.0.0.1", "10.1.0.1") // in any order
		begin := time.Now()
		require.Equal(t, "in flight, sent", reads(t, p.server))
		require.Equal(t, "answer", reads(t, p.client))
		require.Zero(t, time.Since(begin))
		d := <-waiting
		require.NoError(t, d.err)
		d.c.Close()

		p.n.Partition("10.0.0.1", "") // from everyone
		writes(t, p.client, "x")
		require.True(t, blocks(t, p.server))
		require.ErrorIs(t, reach("10.1.0.2", address), context.DeadlineExceeded)
		require.NoError(t, reach("10.1.0.2", "10.0.0.2:11210"))
		p.n.Heal("10.1.0.1", "10.0.0.1") // names another cut
		require.True(t, blocks(t, p.server))
		p.n.HealAll()
		require.Equal(t, "x", reads(t, p.server))
		other.Close()
		for _, l := range p.n.Links()[1:] {
			require.Equal(t, address, l.RemoteAddr()) // waits in the backlog
		}
		drain(p.n)
	})
}

// drain resets the connections that were not accepted.
func drain(n *memnet.Network) {
	for _, l := range n.Links()[1:] {
		l.Reset()
	}
}

func TestNetworkBlackhole(t *testing.T) {
	inNetwork(t, memnet.Options{Latency: time.Millisecond}, func(t *testing.T, p pair) {
		p.n.Blackhole("10.0.0.1", "10.1.0.1")
		writes(t, p.client, "request")
		require.Equal(t, "request", reads(t, p.server))
		writes(t, p.server, "reply")
		require.True(t, blocks(t, p.client))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := p.n.Dial(ctx, address)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.n.Heal("10.0.0.1", "10.1.0.1")
		writes(t, p.server, "after")
		require.True(t, blocks(t, p.client), "a stream that has lost bytes stays dead")
		writes(t, p.client, "up")
		require.Equal(t, "up", reads(t, p.server))
	})
	for _, order := range [][2]func(n *memnet.Network){
		{func(n *memnet.Network) { n.Blackhole("10.1.0.1", "") }, func(n *memnet.Network) {
			n.Partition("10.1.0.1",
				"10.0.0.1")
		}},
		{
			func(n *memnet.Network) { n.Partition("10.1.0.1", "10.0.0.1") },
			func(n *memnet.Network) { n.Blackhole("10.1.0.1", "") },
		},
	} {
		inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
			order[0](p.n)
			order[1](p.n)
			writes(t, p.client, "lost, not held")
			p.n.HealAll()
			require.True(t, blocks(t, p.server))
		})
	}
	inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
		p.n.Blackhole("", "10.1.0.1")
		p.n.HealAll()
		writes(t, p.server, "nothing was lost")
		require.NotEmpty(t, reads(t, p.client))
	})
}
