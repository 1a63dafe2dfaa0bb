package conn

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Whoever gives way with a relay comes after all who were woken before.
func TestARelayComesAfterThoseWhoWereWoken(t *testing.T) {
	if RaceEnabled {
		t.Skip("with the race detector goroutines come in a random order")
	}
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	var wg, own sync.WaitGroup
	r := newRelay(&own)
	for range 100 {
		const n = 50
		had := 0 // there is one processor
		wake := make(chan struct{})
		for range n {
			wg.Go(func() {
				<-wake
				had++
			})
		}
		time.Sleep(time.Millisecond) // all wait
		for range n {
			wake <- struct{}{}
		}
		r.giveWay()
		require.Equal(t, n, had)
		wg.Wait()
	}
	r.stop()
	own.Wait()
	(*relay)(nil).stop()
}

// Who gives way so: one of two connections, while enough calls are in flight.
func TestWhenAReaderStays(t *testing.T) {
	c := &Conn{}
	c.noteLoad(fewStay)
	require.False(t, c.stays(), "there is no other connection, ever")
	c.pair = &Pair{}
	c.noteLoad(fewStay)
	require.False(t, c.stays(), "there is none now")
	c.pair.Begin(2)
	require.False(t, c.stays(), "the other one has nothing to do")
	other := &Conn{pair: c.pair}
	other.noteLoad(10 * fewStay)
	for processors, all := range map[int]bool{1: true, 2: true, 3: false, 64: false} {
		c.pair.Begin(processors)
		require.True(t, c.stays())
		require.Equal(t, all, c.pair.all.Load(), processors)
	}
	for range 2 {
		for other.Load() >= fewStay {
			require.True(t, c.stays())
			other.noteLoad(0)
		}
		require.False(t, c.stays(), "few")
		other.noteLoad(fewStay)
		require.True(t, c.stays())
	}
	c.pair.End()
	require.False(t, c.stays())
	c.relay.stop()
	c.wg.Wait()
}

// Much that others do, twice in a row, and no less than that, has lingering rest.
func TestWhenOthersAreBusy(t *testing.T) {
	const step, much, little = int64(othersTime / 10), int64(othersTime/10)/othersShare + 1, int64(othersTime/10) / othersShare
	var o others
	now := int64(time.Hour)
	looks := func(n int, took int64) (rests int) {
		for range n {
			now += step
			if o.busy(now, took) {
				rests++
			}
		}
		return rests
	}
	require.Zero(t, looks(1, int64(time.Hour)))
	require.Zero(t, looks(10, much), "it had not looked for long before")
	require.Zero(t, looks(100, little))
	for range 3 {
		require.Zero(t, looks(10, much))
		require.Zero(t, looks(10, little))
	}
	require.Zero(t, looks(19, much))
	require.Equal(t, 1, looks(1, much))
	require.Zero(t, looks(19, much))
	require.Equal(t, 1, looks(1, much))
	require.Zero(t, looks(10, much))
	now += int64(othersRest)
	require.Zero(t, looks(1, much), "that is no part of so much time")
	require.Zero(t, looks(19, much))
	require.Equal(t, 1, looks(1, much))
}

// A reader that stays writes when it has woken enough callers, when there is nothing left to read, or when there is more than
// one write's worth.
func TestWhenAReaderThatStaysWrites(t *testing.T) {
	c := &Conn{left: true, pend: []*part{{}, {}}, head: 1}
	for range 3 {
		for range maxTurns - 1 {
			require.True(t, c.unwritten(true))
		}
		require.False(t, c.unwritten(true))
	}
	require.True(t, c.unwritten(true))
	c.left = false
	require.False(t, c.unwritten(true))
	require.Zero(t, c.turns)
	c.left, c.head = true, 0
	require.False(t, c.unwritten(true))
	c.head = 2
	require.False(t, c.unwritten(false))
	require.True(t, c.unwritten(true), "nothing waits")
}
