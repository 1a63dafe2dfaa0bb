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

// The timer waits nine times as long as a look took, 5 ms at most, and as little as it can after that.
func TestLooksArePaced_D258(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Duration, 8)
		d := deadlines{base: time.Now(), at: never}
		d.timer = time.AfterFunc(time.Hour, func() { fired <- time.Since(d.base) })
		for _, c := range []struct{ took, wait time.Duration }{
			{0, 0},
			{100 * time.Microsecond, 900 * time.Microsecond},
			{time.Second, lookPause},
		} {
			began := d.now()
			time.Sleep(c.took)
			d.looked(began)
			ended := time.Since(d.base)
			d.arm(d.now(), false) // its deadline is now
			require.Equal(t, ended+c.wait, <-fired)
			require.True(t, d.fired())
			d.arm(d.now()+int64(time.Second), true)
			d.arm(d.now()+int64(time.Millisecond), true)
			require.Equal(t, ended+c.wait+time.Millisecond, <-fired, "a deadline after the pause is kept")
			require.True(t, d.fired())
		}
	})
}

// What is added during a look waits for its pause, and a stopped timer stays so.
func TestALookDelaysWhatWasArmedMeanwhile_D258(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fired := make(chan time.Duration, 8)
		d := deadlines{base: time.Now(), at: never}
		d.timer = time.AfterFunc(time.Hour, func() { fired <- time.Since(d.base) })
		d.arm(int64(2*time.Millisecond), true)
		time.Sleep(time.Millisecond)
		d.looked(0)
		require.Equal(t, time.Millisecond+lookPause, <-fired)
		require.True(t, d.fired())
		d.stop()
		d.looked(0)
		time.Sleep(time.Hour)
		require.Empty(t, fired)
	})
}
