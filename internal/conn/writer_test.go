package conn

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The role of the writer goes to one goroutine, and only when requests are pending.
func TestTheWriterIsOne(t *testing.T) {
	w := writer{}
	require.False(t, w.become(unowned), "nothing is pending")
	require.NotNil(t, w.last())
	require.True(t, w.become(unowned))
	require.False(t, w.become(unowned), "another goroutine writes")
	require.False(t, w.become(reading))
	first, _ := w.pop()
	require.NotNil(t, first)
	require.Equal(t, writing, w.role)
	none, _ := w.pop()
	require.Nil(t, none)
	require.Equal(t, unowned, w.role)
	w.role = reading
	require.False(t, w.become(unowned), "the reader will write")
	require.False(t, w.become(reading))
	require.Equal(t, unowned, w.role, "nothing was appended meanwhile")
}

// Requests gather in one part until that is full; a part behind a full one has its memory at once. Spare parts are used
// again, and a large value gets one with room for it.
func TestPartsGatherRequests(t *testing.T) {
	w := writer{}
	p := w.last()
	require.Same(t, p, w.last())
	p.buf = append(p.buf, make([]byte, maxPart)...)
	full := w.last()
	require.NotSame(t, p, full)
	require.Equal(t, fullPart, cap(full.buf))
	for range 2 {
		w.pop()
	}
	small, large := &part{buf: make([]byte, 0, 10)}, &part{buf: make([]byte, 0, fullPart)}
	for _, p := range []*part{small, large, {buf: make([]byte, 0, maxSpareSize)}} {
		w.spare(p)
	}
	require.Len(t, w.spares, 2, "of parts larger than most at most two are kept")
	require.Same(t, large, w.carrier(20<<10))
	require.Same(t, small, w.carrier(20<<10), "it grows")
	require.Equal(t, maxSpareSize+1, cap(w.carrier(maxSpareSize+1).buf))
	w.spare(small)
	require.Same(t, small, w.last())
	require.Empty(t, w.spares)
}
