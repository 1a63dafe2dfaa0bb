package trigger

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestSkipAndTimes(t *testing.T) {
	var l List[string]
	a := l.Add("a", Often{Skip: 1, Times: 2})
	b := l.Add("b", Often{})
	require.Len(t, l.All(), 2)
	item := l.All()[0]
	require.Equal(t, "a", item.What)
	var got []int
	for range 5 {
		if before, ok := item.Take(); ok {
			got = append(got, before)
		}
	}
	require.Equal(t, []int{0, 1}, got)
	require.Equal(t, 2, a.Fired())
	a.Remove()
	a.Remove()
	require.Len(t, l.All(), 1)
	last := l.All()[0]
	_, ok := last.Take()
	require.True(t, ok)
	b.Remove()
	_, ok = last.Take()
	require.False(t, ok, "an item that a request has found before it was removed does not act")
	require.Empty(t, l.All())
}

func TestReleaseAndWaitFired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l List[int]
		tr := l.Add(0, Often{})
		item := l.All()[0]
		require.Nil(t, (&Item[int]{}).Released())
		var wg sync.WaitGroup
		wg.Go(func() { require.NoError(t, tr.WaitFired(t.Context(), 2)) })
		item.Take()
		synctest.Wait()
		item.Take()
		wg.Wait()
		select {
		case <-item.Released():
			require.Fail(t, "released")
		default:
		}
		tr.Release()
		tr.Release()
		<-item.Released()
		ctx, cancel := context.WithCancelCause(t.Context())
		why := errors.New("why")
		cancel(why)
		require.ErrorIs(t, tr.WaitFired(ctx, 3), why)
	})
}

// The same seed makes the same choices, and about as many as the probability says.
func TestProbability(t *testing.T) {
	choices := func(p float64, seed uint64) (list []bool, fired int) {
		var l List[int]
		tr := l.Add(0, Often{Probability: p, Seed: seed})
		item := l.All()[0]
		for range 1000 {
			_, ok := item.Take()
			list = append(list, ok)
		}
		return list, tr.Fired()
	}
	one, n := choices(0.25, 7)
	require.InDelta(t, 250, n, 60)
	again, _ := choices(0.25, 7)
	require.Equal(t, one, again)
	another, _ := choices(0.25, 8)
	require.NotEqual(t, one, another)
	for _, p := range []float64{0, 1, 2} {
		_, n := choices(p, 1)
		require.Equal(t, 1000, n)
	}
}
