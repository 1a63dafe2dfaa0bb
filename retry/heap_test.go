package retry

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSleepersKeepTheirOrder compares the heap with a list that is sorted each time.
func TestSleepersKeepTheirOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var q sleepers
	var all []sleeper
	for n := range 20000 {
		if len(all) == 0 || r.IntN(100) < 52 {
			x := sleeper{time.Duration(r.IntN(8)), uint64(n), &history{index: -1}}
			q.push(x)
			all = append(all, x)
		} else {
			i := 0
			if r.IntN(2) == 0 {
				i = r.IntN(len(all))
			}
			h := all[i].history
			q.remove(h.index)
			require.Equal(t, -1, h.index)
			all = slices.Delete(all, i, i+1)
		}
		slices.SortFunc(all, func(a, b sleeper) int {
			return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.turn, b.turn))
		})
		require.Len(t, q, len(all))
		if len(all) > 0 {
			require.Same(t, all[0].history, q[0].history)
		}
		for _, x := range all {
			require.Same(t, x.history, q[x.index].history)
		}
	}
}
