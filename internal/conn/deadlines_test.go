package conn

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The timer fires for the earliest of what it was armed for, once, and not after stop.
func TestDeadlinesFireForTheEarliest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Duration, 8)
		d := deadlines{base: time.Now(), at: never}
		d.timer = time.AfterFunc(time.Hour, func() { fired <- time.Since(d.base) })
		wait := func() (all []time.Duration) {
			time.Sleep(2 * time.Second)
			for len(fired) > 0 {
				all = append(all, <-fired)
			}
			return all
		}
		d.arm(int64(time.Second), false)
		d.arm(int64(3*time.Second), false)
		d.arm(int64(time.Second/2), false)
		require.Equal(t, []time.Duration{time.Second / 2}, wait())
		require.True(t, d.fired())
		at := d.now()
		d.arm(never, true)
		d.arm(never, true)
		require.Equal(t, []time.Duration{time.Duration(at) + watchTick}, wait())
		require.True(t, d.fired())
		d.arm(d.now()+int64(time.Second), false)
		d.stop()
		d.arm(d.now()+int64(time.Second), true)
		require.Empty(t, wait())
		require.False(t, d.fired())
	})
}
