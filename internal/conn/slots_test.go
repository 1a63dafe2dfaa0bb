package conn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
)

// What an answer and a write find in a slot: they change only the attempt that they belong to.
func TestASlotKnowsItsRequest(t *testing.T) {
	const gen, epoch = 7, 3
	word := func(e, g uint64, status uint64) uint64 { return e<<32 | g<<2 | status }
	for name, c := range map[string]struct {
		word         uint64
		sent, claims bool
	}{
		"not sent yet":       {word(0, gen, slotLive), true, false},
		"sent":               {word(epoch, gen, slotLive), false, true},
		"free":               {word(0, gen, slotFree), false, false},
		"orphaned":           {word(0, gen, slotOrphan), false, false},
		"of another request": {word(0, gen+1, slotLive), false, false},
		"sent, of another":   {word(epoch, gen+1, slotLive), false, false},
	} {
		var s slot
		s.word.Store(c.word)
		s.sent(5<<16|gen, epoch)
		require.Equal(t, c.sent, s.word.Load() != c.word, name)
		if c.sent {
			require.Equal(t, word(epoch, gen, slotLive), s.word.Load(), name)
			s.word.Store(c.word)
		}
		got, ok := s.claim(5<<16|gen, slotFree, true)
		require.Equal(t, c.claims, ok, name)
		if ok {
			require.EqualValues(t, epoch, got, name)
			require.Equal(t, word(0, gen, slotFree), s.word.Load(), name)
		} else {
			require.Equal(t, c.word, s.word.Load(), name)
		}
	}
}

// A slot is in flight from take to give, unless its call has gone; the opaque of its next use is another one.
func TestSlotsCountWhatIsInFlight(t *testing.T) {
	table := slots{max: 2}
	require.Nil(t, table.at(0))
	first, one := table.take(false)
	require.Same(t, first, table.at(one))
	second, two := table.take(false)
	first.live(&call.Call{}, one)
	second.live(&call.Call{}, two)
	require.True(t, table.full())
	table.wanted = true
	require.False(t, table.room())
	table.orphans = table.each(table.end(), func(c *call.Call, _ bool) bool { return c == second.call })
	require.Equal(t, 1, table.inFlight())
	require.True(t, table.room())
	require.False(t, table.room(), "it is told once")
	require.False(t, second.orphanEnds(two))
	require.True(t, first.orphanEnds(one))
	table.orphans.add(one, -1)
	table.give(one)
	require.Equal(t, 1, table.inFlight())
	again, opaque := table.take(false)
	require.Same(t, first, again)
	require.NotEqual(t, one, opaque)
	table.max = maxSlots
	for table.end() < maxSlots {
		table.take(false)
	}
	last, _ := table.take(false)
	require.Nil(t, last, "the table is full")
	require.True(t, table.full())
	table.orphans.all = 100
	require.True(t, table.full(), "orphans have the slots")
}

// The client's own requests have slots that do not count, and one that counts when all of them are in use.
func TestSlotsOfTheClientsOwnRequests(t *testing.T) {
	table := slots{max: 1}
	_, place := table.take(false)
	require.True(t, table.full())
	var own []uint32
	for range ownSlots {
		s, opaque := table.take(true)
		require.NotNil(t, s)
		s.live(&call.Call{}, opaque)
		own = append(own, opaque)
	}
	require.Equal(t, 1, table.inFlight())
	s, _ := table.take(true)
	require.Nil(t, s)
	require.Equal(t, ownSlots+1, table.withOwn())
	table.orphans = table.each(table.end(), func(*call.Call, bool) bool { return false })
	require.Equal(t, orphans{own: ownSlots}, table.orphans)
	require.Equal(t, 1, table.withOwn())
	table.give(place)
	s, place = table.take(true)
	require.NotNil(t, s)
	require.Equal(t, 1, table.inFlight())
	table.give(place)
	for _, opaque := range own {
		require.True(t, table.at(opaque).orphanEnds(opaque))
		table.orphans.add(opaque, -1)
		table.give(opaque)
	}
	require.Zero(t, table.inFlight())
	require.Zero(t, table.own)
	require.Equal(t, 1, table.used)
}
