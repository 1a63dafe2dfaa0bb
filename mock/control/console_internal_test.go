package control

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// A ring keeps the newest, in their order, and counts the others.
func TestARingKeepsTheNewest(t *testing.T) {
	var r ring[int]
	for _, n := range []int{0, 1, consoleKept, consoleKept + 1, 3*consoleKept + 7} {
		var want []int
		for i := range n {
			r.add(i)
			want = append(want, i)
		}
		items, lost := r.take()
		require.Len(t, items, min(n, consoleKept))
		require.Equal(t, max(0, n-consoleKept), lost)
		require.True(t, slices.Equal(want[lost:], items))
	}
}

// The quantiles of a load are within a quarter of the true ones, and never above the longest.
func TestTheQuantilesOfALoad(t *testing.T) {
	for us := int64(0); us < 1<<20; us += 1 + us/9 {
		i := loadBucket(us)
		require.LessOrEqual(t, us, bucketEnd(i))
		require.LessOrEqual(t, bucketEnd(i), us+us/4)
		if i > 0 {
			require.Greater(t, us, bucketEnd(i-1))
		}
	}
	var l load
	for us := range 1000 {
		l.add(&mock.Answered{Took: time.Duration(us+1) * time.Microsecond, Status: memd.Status(us % 2)})
	}
	got := l.describe(3)
	require.Equal(t, []int{3, 1000, 500, 1000}, []int{got.Node, got.Requests, got.Failures, int(got.Longest)})
	require.InDelta(t, 500, got.P50, 125)
	require.InDelta(t, 990, got.P99, 10)
	l.add(&mock.Answered{Took: time.Hour})
	require.Equal(t, l.longest, l.quantile(100))
}
