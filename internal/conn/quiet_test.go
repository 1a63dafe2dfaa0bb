package conn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The runtime's monitor sleeps no longer than quietTime while there are system calls that the runtime is not told of, and
// there is no timer when there are none.
func TestTheMonitorDoesNotSleepLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q Quiet
		set := func() bool {
			synctest.Wait()
			q.mu.Lock()
			defer q.mu.Unlock()
			return q.armed
		}
		for range 3 { // it may begin again
			require.False(t, set())
			for range 50 {
				q.use()
				require.True(t, set())
				time.Sleep(quietTime / 5)
			}
			since := time.Now()
			for set() {
				time.Sleep(quietTime / 10)
			}
			require.LessOrEqual(t, time.Since(since), 2*quietTime)
			require.GreaterOrEqual(t, time.Since(since), quietTime-quietTime/5)
			time.Sleep(time.Hour)
		}
	})
}
