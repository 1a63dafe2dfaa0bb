package core_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

// Where the readers of two connections linger a few callers are enough for them, and have both.
func TestFewCallersGetASecondConnection(t *testing.T) {
	if raceEnabled {
		t.Skip("calls wait for processors that the race detector has")
	}
	for processors, two := range map[int]bool{2: true, 3: false} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
			c, err := core.Open(t.Context(), core.Config{Hosts: []string{cannedNode(t)}})
			require.NoError(t, err)
			defer c.Close()
			b := c.Bucket("default")
			require.NoError(t, b.WaitReady(ctx(t)))
			used := 0
			for tries := 0; tries < 10 || two && used < 2 && tries < 600; tries++ {
				used = len(newCrowd(b, 12).during(t, 50*time.Millisecond))
			}
			require.Equal(t, two, used == 2, processors)
		}()
	}
}
