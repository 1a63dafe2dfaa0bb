package promises_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// A wait whose strategy goes on behind a terminal condition asks it again and again, and keeps nothing of that.
func TestAWaitThatGoesOnKeepsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		b := client(t, m, wrongPassword, strategy(every(ms))).Bucket("default")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		heap := func() uint64 {
			runtime.GC()
			var s runtime.MemStats
			runtime.ReadMemStats(&s)
			return s.HeapAlloc
		}
		ended := make(chan error, 1)
		go func() { ended <- b.WaitReady(ctx) }()
		time.Sleep(5 * time.Second)
		before := heap()
		time.Sleep(90 * time.Second)
		require.Less(t, int64(heap())-int64(before), int64(1<<20))
		require.ErrorIs(t, <-ended, context.DeadlineExceeded)
	})
}
