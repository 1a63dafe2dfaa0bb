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
		d.looked(at, never, true)
		d.arm(never, true)
		require.Equal(t, []time.Duration{time.Duration(at) + watchTick}, wait())
		require.True(t, d.fired())
		d.looked(d.now(), d.now()+int64(time.Second), false)
		d.stop()
		d.arm(d.now()+int64(time.Second), true)
		require.Empty(t, wait())
		require.False(t, d.fired())
	})
}

// The timer waits nine times as long as a look took, 5 ms at most. What is added during a look waits for that, too. A
// stopped timer stays so.
func TestLooksArePaced_D258(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Duration, 8)
		d := deadlines{base: time.Now(), at: never}
		d.timer = time.AfterFunc(time.Hour, func() { fired <- time.Since(d.base) })
		const far = int64(time.Hour)
		for _, c := range []struct{ took, wait time.Duration }{
			{0, 0},
			{100 * time.Microsecond, 900 * time.Microsecond},
			{time.Second, lookPause},
		} {
			look := func(next int64, tick bool, meanwhile func()) (ended time.Duration) {
				require.True(t, d.fired())
				began := d.now()
				time.Sleep(c.took / 2)
				meanwhile()
				time.Sleep(c.took - c.took/2)
				d.looked(began, next, tick)
				return time.Since(d.base)
			}
			ended := look(0, false, func() {}) // a deadline that is over
			require.Equal(t, ended+c.wait, <-fired)
			ended = look(far, false, func() { d.arm(d.now(), true) })
			require.Equal(t, ended+c.wait, <-fired, "added meanwhile")
			ended = look(far, true, func() {})
			require.Equal(t, ended+max(c.wait, watchTick), <-fired, "the tick")
			ended = look(d.now()+int64(2*time.Second), false, func() {})
			require.Greater(t, <-fired, ended+c.wait, "a deadline after the pause is kept")
		}
		time.Sleep(time.Minute)
		require.Empty(t, fired, "no look is begun twice")
		require.True(t, d.fired())
		d.stop()
		d.looked(d.now(), 0, true)
		time.Sleep(2 * time.Hour)
		require.Empty(t, fired)
	})
}
