package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The short ways of a slot do nothing while somebody looks at its call, for another generation, or in another state:
// what they leave is for the long ways, which wait.
func TestTheShortWaysOfASlot(t *testing.T) {
	const gen, epoch = 7, 3
	word := func(e, g uint64, status uint64) uint64 { return e<<32 | g<<2 | status }
	for name, c := range map[string]struct {
		word         uint64
		sent, claims bool
	}{
		"not sent yet":       {word(0, gen, slotLive), true, false},
		"sent":               {word(epoch, gen, slotLive), false, true},
		"held, not sent yet": {word(0, gen, slotHeld), false, false},
		"held":               {word(epoch, gen, slotHeld), false, false},
		"free":               {word(0, gen, slotFree), false, false},
		"orphaned":           {word(0, gen, slotOrphan), false, false},
		"of another request": {word(0, gen+1, slotLive), false, false},
		"sent, of another":   {word(epoch, gen+1, slotLive), false, false},
	} {
		var s slot
		s.word.Store(c.word)
		require.Equal(t, c.sent, s.sentNow(gen, epoch), name)
		if c.sent {
			require.Equal(t, word(epoch, gen, slotLive), s.word.Load(), name)
			s.word.Store(c.word)
		}
		require.Equal(t, c.word, s.word.Load(), name)
		got, ok := s.claimNow(gen)
		require.Equal(t, c.claims, ok, name)
		if ok {
			require.EqualValues(t, epoch, got, name)
			require.Equal(t, word(0, gen, slotFree), s.word.Load(), name)
		} else {
			require.Equal(t, c.word, s.word.Load(), name)
		}
	}
}
