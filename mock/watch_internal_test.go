package mock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// When the last watcher is gone there is nothing to tell, so that nodes make nothing to be told.
func TestWithoutWatchersNothingIsTold(t *testing.T) {
	var w watchers[int]
	require.False(t, w.any())
	w.tell(1)
	var got []int
	first := w.add(func(n int) { got = append(got, n) })
	second := w.add(func(n int) { got = append(got, -n) })
	w.tell(2)
	first()
	first()
	require.True(t, w.any())
	w.tell(3)
	second()
	require.False(t, w.any())
	w.tell(4)
	require.Equal(t, []int{2, -2, -3}, got)
}
