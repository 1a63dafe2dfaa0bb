package conn

import (
	"math"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Nobody gives way for a while when that was too long twice in a row, and for longer when it is so again soon.
func TestWhenNobodyGivesWay(t *testing.T) {
	const ms = int64(time.Millisecond)
	long := int64(yieldLong) + 1
	var y Yields
	// at has somebody give way at that time, for as long as it took, and then says until when nobody does.
	at := func(began, took int64) int64 {
		require.Equal(t, took >= long, y.took(began, began+took, 0))
		return y.until.Load()
	}
	require.Zero(t, at(10*ms, long))
	require.Zero(t, at(11*ms, 6*ms), "began before the first was over: others had one turn")
	require.Zero(t, at(14*ms, 0), "began before the first was over")
	require.Zero(t, at(20*ms, long-1), "in time")
	require.Zero(t, at(30*ms, long), "the first again")
	until := at(40*ms, long)
	require.Equal(t, 40*ms+long+int64(yieldRest), until)
	require.False(t, y.Rest(until))
	require.True(t, y.Rest(until-1))
	for rest := 2 * yieldRest; rest < yieldMost; rest *= 2 {
		require.Equal(t, until, at(until, long))
		began := until + 10*ms
		until = at(began, long)
		require.Equal(t, began+long+int64(rest), until)
	}
	for range 2 {
		began := until + int64(yieldMost) - long - 1
		at(until, long)
		until = at(began, long)
		require.Equal(t, began+long+int64(yieldMost), until, "the most")
	}
	at(until, long)
	began := until + int64(yieldMost)
	require.Equal(t, began+long+int64(yieldRest), at(began, long), "that was not soon")

	var z Yields // who was in time, but began before the one who was late was back, says nothing of what came after
	require.True(t, z.took(10*ms, 10*ms+long, 0))
	require.False(t, z.took(11*ms, 11*ms, 0))
	require.True(t, z.took(20*ms, 20*ms+long, 0))
	require.True(t, z.Rest(20*ms+long))

	var none *Yields
	require.False(t, none.took(0, math.MaxInt64, 0))
	require.False(t, none.Rest(0))
}

// Thousands of callers take long, too, but they are who is given way to.
func TestHowLongCallersMayTake(t *testing.T) {
	var y Yields
	var serving atomic.Int32
	c := &Conn{}
	c.load.Store(1000)
	require.EqualValues(t, 1000, c.callers())
	c.serving = &serving
	require.EqualValues(t, 1000, c.callers(), "it is not counted yet")
	serving.Store(3)
	require.EqualValues(t, 3000, c.callers())
	most := int64(yieldLong + 3000*callTurn)
	require.False(t, y.took(0, most, c.callers()))
	require.True(t, y.took(0, most+1, c.callers()))
}

// What is not alone is written at once where nobody gives way, also with many nodes.
func TestWhoeverDoesNotGiveWayWritesAtOnce(t *testing.T) {
	y := &Yields{}
	p := NewPacer(time.Now(), y, 1)
	c, wrote := paced(t, p)
	ask(t, c)
	require.EqualValues(t, 1, wrote.Load(), "it is alone")
	p.running = true // it never gets to it
	y.until.Store(math.MaxInt64)
	ask(t, c)
	require.EqualValues(t, 2, wrote.Load())
	require.Empty(t, p.due)
	y.until.Store(0)
	c.load.Store(7)
	ask(t, c)
	require.EqualValues(t, 2, wrote.Load())
	require.Equal(t, 7*int64(math.MaxInt32), p.callers)
	require.Equal(t, []*Conn{c}, p.due)
	require.True(t, p.drop(c))
	c.flushing = false
	c.pacer, c.serving = nil, &atomic.Int32{}
	ask(t, c)
	require.EqualValues(t, 3, wrote.Load())
	require.Zero(t, y.late.Load())
}
