package memnet_test

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/memnet"
)

// Each fault of a connection counts what has met it, and a connection over which nothing goes meets none.
func TestNetworkEffects(t *testing.T) {
	talk := func(t *testing.T, p pair) {
		for range 2 {
			writes(t, p.server, "answer")
			writes(t, p.client, "request")
		}
	}
	own := errors.New("broken pipe")
	for name, c := range map[string]struct {
		set  func(p pair)
		met  func(t *testing.T, p pair) // nil: talk
		want memnet.Effects             // of the direction to the client
	}{
		"no fault": {func(pair) {}, nil, memnet.Effects{}},
		"Drop":     {func(p pair) { p.link.Down().Drop() }, nil, memnet.Effects{Lost: 2}},
		"Blackhole": {
			func(p pair) { p.n.Blackhole("10.0.0.1", "") }, nil, memnet.Effects{Lost: 2},
		},
		"Hold":      {func(p pair) { p.link.Down().Hold() }, nil, memnet.Effects{Held: 2}},
		"HoldAfter": {func(p pair) { p.link.Down().HoldAfter(6) }, readTwice, memnet.Effects{Held: 1}},
		"Partition": {func(p pair) { p.n.Partition("", "10.0.0.1") }, nil, memnet.Effects{Held: 2}},
		"FailAfter": {func(p pair) { p.link.Down().FailAfter(6, own) }, func(t *testing.T, p pair) {
			writes(t, p.server, "answer")
			_, err := p.server.Write([]byte("answer"))
			require.ErrorIs(t, err, own)
		}, memnet.Effects{Failed: 1}},
		"EndAfter": {func(p pair) { p.link.Down().EndAfter(4) }, func(t *testing.T, p pair) {
			writes(t, p.server, "an")
			writes(t, p.server, "swe")
			writes(t, p.server, "r")
			got, err := io.ReadAll(p.client)
			require.NoError(t, err)
			require.Equal(t, "answ", string(got))
		}, memnet.Effects{Lost: 2, Ended: 1}},
		"SetPieces": {
			func(p pair) { p.link.Down().SetPieces(func(n int) int { return min(n, 4) }, 0) }, nil,
			memnet.Effects{Split: 2},
		},
		"SetBandwidth": {func(p pair) { p.link.Down().SetBandwidth(80) }, nil, memnet.Effects{Slowed: 4}},
		"SetLatency":   {func(p pair) { p.link.Down().SetLatency(time.Second) }, nil, memnet.Effects{Delayed: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
				c.set(p)
				time.Sleep(time.Second)
				require.Zero(t, p.link.Down().Effects(), "nothing has gone over it")
				require.Zero(t, p.link.Up().Effects())
				if c.met == nil {
					c.met = talk
				}
				c.met(t, p)
				require.Equal(t, c.want, p.link.Down().Effects())
			})
		})
	}
}

func readTwice(t *testing.T, p pair) {
	writes(t, p.server, "answer")
	writes(t, p.server, "answer")
	require.Equal(t, "answer", reads(t, p.client))
	require.True(t, blocks(t, p.client))
}

// What was kept back counts once: while it is, when it is let go, and when the connection ends meanwhile; not what was
// on its way all the time.
func TestNetworkEffectsOfWhatIsHeld(t *testing.T) {
	for name, end := range map[string]func(p pair){
		"resumed": func(p pair) { p.link.Down().Resume() },
		"reset":   func(p pair) { p.link.Reset() },
		"closed":  func(p pair) { p.client.Close() },
		"ended":   func(p pair) { p.link.Down().EndAfter(0) },
	} {
		t.Run(name, func(t *testing.T) {
			inNetwork(t, memnet.Options{Latency: time.Second}, func(t *testing.T, p pair) {
				down := p.link.Down()
				down.Hold()
				writes(t, p.server, "answer")
				require.Zero(t, down.Effects().Held, "it is on its way")
				time.Sleep(time.Second)
				writes(t, p.server, "another one")
				require.Equal(t, 1, down.Effects().Held)
				end(p)
				require.Equal(t, 1, down.Effects().Held)
			})
			inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
				p.link.Down().Hold()
				p.server.Close()
				require.Equal(t, 1, p.link.Down().Effects().Held, "the end of the stream")
				end(p)
				require.Equal(t, 1, p.link.Down().Effects().Held)
			})
		})
	}
}

func TestNetworkEffectsOfReset(t *testing.T) {
	for _, closed := range []bool{false, true} {
		inNetwork(t, memnet.Options{}, func(t *testing.T, p pair) {
			want := 1
			if closed {
				p.client.Close()
				want = 0
			}
			p.link.Reset()
			require.Zero(t, p.link.Down().Effects().Broken, "it has not been noticed")
			_, err := p.client.Read(make([]byte, 1))
			require.Equal(t, closed, errors.Is(err, net.ErrClosed))
			require.Equal(t, !closed, errors.Is(err, syscall.ECONNRESET))
			require.Equal(t, want, p.link.Down().Effects().Broken)
		})
	}
}
