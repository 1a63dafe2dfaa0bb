package mock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// A rebalance that takes its time shows the goal from its beginning on, moves some vbuckets after each pause, and is
// ended by Close.
func TestRebalanceSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := mock.Start(t, mock.Nodes(1), mock.Replicas(0), mock.Bucket("default", 64), mock.Virtual())
		require.Equal(t, 1, c.AddNode())
		moved := func(g config) (n int) {
			for _, row := range g.Map.Map {
				n += row[0]
			}
			return n
		}
		done := make(chan error, 1)
		began := time.Now()
		go func() { done <- c.RebalanceSlowly(time.Second) }()
		last, between := 0, 0
		for step := range 9 {
			synctest.Wait()
			g := configOf(t, c)
			require.Len(t, g.Map.Forward, 64, "step %d", step)
			require.GreaterOrEqual(t, moved(g), last)
			if last = moved(g); last > 0 && last < 32 {
				between++
			}
			time.Sleep(time.Second)
		}
		require.NoError(t, <-done)
		require.Positive(t, between)
		require.Equal(t, 9*time.Second, time.Since(began))
		require.Nil(t, configOf(t, c).Map.Forward)
		require.Equal(t, 32, moved(configOf(t, c)))

		go func() { done <- c.RebalanceSlowly(time.Hour) }()
		synctest.Wait()
		began = time.Now()
		require.NoError(t, c.Close())
		require.ErrorContains(t, <-done, "closed")
		require.Equal(t, began, time.Now())
	})
}
