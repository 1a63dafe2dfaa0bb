package conn

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Who is about to write gives way once, and again only where several connections are served, as long as that brings requests,
// and neither too often nor for too long.
func TestHowOftenAWriterGivesWay(t *testing.T) {
	for name, c := range map[string]struct {
		serving int32
		brings  []int // requests, each time
		takes   time.Duration
		yields  int
	}{
		"the only connection":                {1, []int{1, 1, 1, 1, 1}, 0, 1},
		"several, and nothing comes":         {2, []int{0, 1, 1, 1, 1}, 0, 1},
		"several, and something comes once":  {2, []int{3, 0, 1, 1, 1}, 0, 2},
		"several, and something comes twice": {20, []int{3, 2, 0, 1, 1}, 0, 3},
		"several, and there is no end":       {20, []int{1, 1, 1, 1, 1}, 0, maxYields},
		"several, and it takes long":         {20, []int{1, 1, 1, 1, 1}, maxGather/2 + 1, 2},
		"several, and it takes too long":     {20, []int{1, 1, 1, 1, 1}, maxGather + 1, 1},
		"several, and others keep it":        {20, []int{1, 1, 1, 1, 1}, yieldLong + 1, 1},
	} {
		synctest.Test(t, func(t *testing.T) {
			var serving atomic.Int32
			serving.Store(c.serving)
			cn := &Conn{base: time.Now(), serving: &serving, yields: &Yields{}}
			cn.pend = []*part{{frames: make([]frame, 5)}, {}} // the first is being written: behind the head
			cn.head = 1
			yields := 0
			cn.gather(cn.now(), func() {
				time.Sleep(c.takes)
				p := cn.pend[1]
				p.frames = append(p.frames, make([]frame, c.brings[yields])...)
				yields++
			})
			require.Equal(t, c.yields, yields, name)
			require.Equal(t, c.takes > yieldLong, cn.yields.late.Load() != 0, name)
		})
	}
	yields := 0
	(&Conn{}).gather(0, func() { yields++ })
	require.Equal(t, 1, yields, "a connection that nobody counts")
}
