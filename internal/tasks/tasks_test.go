package tasks_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/tasks"
)

func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

func TestWaitNamesWhatHasNotEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g tasks.Group
		require.NoError(t, g.Wait(within(t, 0)), "an empty group is not waited for")
		end := make(chan struct{})
		for _, name := range []string{"b:1", "a:1", "b:1"} {
			g.Go(name, func() { <-end })
		}
		g.Go("c:1", func() { time.Sleep(time.Second) })
		var left *tasks.UnfinishedError
		require.ErrorAs(t, g.Wait(within(t, 2*time.Second)), &left)
		require.Equal(t, 3, left.Tasks)
		require.Equal(t, []string{"a:1", "b:1"}, left.Names)
		require.ErrorIs(t, left, context.DeadlineExceeded)
		require.EqualError(t, left, "not ended: a:1, b:1: context deadline exceeded")
		began := time.Now()
		time.AfterFunc(time.Second, func() { close(end) })
		waits := make(chan error)
		for range 2 {
			go func() { waits <- g.Wait(within(t, time.Minute)) }()
		}
		require.NoError(t, <-waits)
		require.NoError(t, <-waits)
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, g.Wait(within(t, 0)))
	})
}

func TestTheTextIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g tasks.Group
		for i := range 1000 {
			g.Begin(fmt.Sprint("node ", 1000+i))
		}
		err := g.Wait(within(t, time.Second))
		require.ErrorContains(t, err, "node 1007 and 992 more")
		require.Less(t, len(err.Error()), 200)
	})
}
