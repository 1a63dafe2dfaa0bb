package memnet_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/memnet"
)

// What is written at one instant arrives in the order that was asked for, and nothing else changes its place.
func TestNetworkOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{Latency: time.Millisecond})
		n.OnLink(func(l *memnet.Link) {
			l.Up().SetPieces(func(n int) int { return n }, 1)
			l.Up().SetOrder(func(b, a []byte) bool { return a[0] != '!' && b[0] != '!' && bytes.Compare(b, a) < 0 })
		})
		l, err := n.Listen(address)
		require.NoError(t, err)
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		for _, piece := range []string{"c", "a", "b", "!", "z", "y"} {
			writes(t, c, piece)
		}
		time.Sleep(time.Nanosecond)
		writes(t, c, "x")
		time.Sleep(time.Second)
		got, b := "", make([]byte, 1)
		for len(got) < 7 {
			_, err := s.Read(b)
			require.NoError(t, err)
			got += string(b)
		}
		require.Equal(t, "abc!yzx", got)
		c.Close()
		s.Close()
		l.Close()
	})
}

// A bandwidth makes no difference to that: when each of them arrives does not depend on which was written first.
func TestNetworkOrderWithABandwidth_D260(t *testing.T) {
	run := func(pieces ...string) (got []string) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New(memnet.Options{Latency: time.Millisecond})
			n.OnLink(func(l *memnet.Link) {
				l.Up().SetBandwidth(100) // pieces of 5 bytes at most
				l.Up().SetOrder(func(b, a []byte) bool { return b[0] < a[0] })
			})
			l, err := n.Listen(address)
			require.NoError(t, err)
			c, err := n.Dial(t.Context(), address)
			require.NoError(t, err)
			s, err := l.Accept()
			require.NoError(t, err)
			began := time.Now()
			writes(t, c, "zz")
			time.Sleep(time.Nanosecond)
			for _, piece := range pieces {
				writes(t, c, piece)
			}
			b := make([]byte, 100)
			for total := 0; total < 17; {
				n, err := s.Read(b)
				require.NoError(t, err)
				total += n
				got = append(got, fmt.Sprintf("%v %s", time.Since(began), b[:n]))
			}
			c.Close()
			s.Close()
			l.Close()
		})
		return got
	}
	want := []string{"21ms zz", "41ms a1", "91ms b2345", "101ms 6", "151ms c2345", "171ms 67"}
	require.Equal(t, want, run("a1", "b23456", "c234567"))
	require.Equal(t, want, run("c234567", "b23456", "a1"))
	require.Equal(t, want, run("b23456", "c234567", "a1"))
}

// What a bandwidth holds up arrives at once when it ends, and sooner when it is wider.
func TestAnotherBandwidthIsThatOfWhatIsOnItsWay_D261(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.New(memnet.Options{Latency: time.Millisecond})
		n.OnLink(func(l *memnet.Link) { l.Up().SetBandwidth(20) })
		l, err := n.Listen(address)
		require.NoError(t, err)
		c, err := n.Dial(t.Context(), address)
		require.NoError(t, err)
		s, err := l.Accept()
		require.NoError(t, err)
		began := time.Now()
		writes(t, c, "0123456789")
		got := func() string {
			b := reads(t, s)
			return fmt.Sprintf("%v %s", time.Since(began), b)
		}
		require.Equal(t, "51ms 0", got())
		time.Sleep(49 * time.Millisecond)
		n.Links()[0].Up().SetBandwidth(100)
		require.Equal(t, "101ms 1", got())
		require.Equal(t, "111ms 2", got())
		n.Links()[0].Up().SetBandwidth(0)
		require.Equal(t, "111ms 3456789", got())
		writes(t, c, "a")
		require.Equal(t, "112ms a", got())
		c.Close()
		s.Close()
		l.Close()
	})
}

// Dials that have waited for the same are made in the order in which they began.
func TestNetworkDialsInOrder(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New(memnet.Options{})
			l, err := n.Listen(address)
			require.NoError(t, err)
			n.Partition("", "")
			conns := make([]net.Conn, 10)
			for i := range conns {
				go func() {
					c, err := n.Dial(t.Context(), address)
					if err != nil {
						t.Error(err)
					}
					conns[i] = c
				}()
				time.Sleep(time.Nanosecond)
			}
			n.HealAll()
			for i := range conns {
				s, err := l.Accept()
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, conns[i].LocalAddr().String(), s.RemoteAddr().String())
				defer conns[i].Close()
				defer s.Close()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			n.Partition("", "")
			_, err = n.Dial(ctx, address)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			n.HealAll()
			c, err := n.Dial(t.Context(), address)
			require.NoError(t, err, "a dial that was given up delays no other")
			c.Close()
			l.Close()
		})
	}
}

// With packets it makes no difference how many of them a write has, or how a packet is spread over writes.
func TestNetworkPackets(t *testing.T) {
	run := func(pieces ...string) (got []string) {
		synctest.Test(t, func(t *testing.T) {
			n := memnet.New(memnet.Options{Latency: time.Millisecond})
			n.OnLink(func(l *memnet.Link) {
				l.Up().SetPackets(func(b []byte) int { return int(b[0] - '0') })
				l.Up().SetPieces(func(n int) int { return n }, 1)
			})
			l, err := n.Listen(address)
			require.NoError(t, err)
			c, err := n.Dial(t.Context(), address)
			require.NoError(t, err)
			s, err := l.Accept()
			require.NoError(t, err)
			began := time.Now()
			for _, piece := range pieces {
				writes(t, c, piece)
			}
			b := make([]byte, 100)
			for total := 0; total < 10; {
				n, err := s.Read(b)
				require.NoError(t, err)
				total += n
				got = append(got, fmt.Sprintf("%v %s", time.Since(began), b[:n]))
			}
			c.Close()
			s.Close()
			l.Close()
		})
		return got
	}
	want := []string{"1ms 3aa", "1.000001ms 1", "1.000002ms 4bbb", "1.000003ms 2c"}
	require.Equal(t, want, run("3aa14bbb2c"))
	require.Equal(t, want, run("3aa", "1", "4bbb", "2c"))
	require.Equal(t, want, run("3aa1", "4bbb2c"))
	require.Equal(t, []string{
		"1ms 3a", "1.000001ms a", "1.000002ms 1", "1.000003ms 4bbb", "1.000004ms 2",
		"1.000005ms c",
	}, run("3a", "a14bbb2", "c"))
}
