package tasks_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/tasks"
)

func TestADoorWaitsForWhatHasEntered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := tasks.NewDoor()
		a, b := d.Place(), d.Place()
		require.True(t, a.Enter())
		require.False(t, d.IsShut())
		d.Shut()
		require.False(t, b.Enter())
		require.EqualValues(t, 1, d.Wait(within(t, time.Second)))
		b.Hold() // a part, which stays longer
		time.AfterFunc(time.Second, a.Leave)
		time.AfterFunc(2*time.Second, b.Leave)
		began, waits := time.Now(), make(chan int64)
		for range 2 {
			go func() { waits <- d.Wait(within(t, time.Minute)) }()
		}
		require.Zero(t, <-waits)
		require.Zero(t, <-waits)
		require.Equal(t, 2*time.Second, time.Since(began))
		require.Zero(t, d.Wait(within(t, 0)))
	})
}

// What has entered before the door was shut has left when Wait ends, however many enter and leave at the same time.
func TestADoorUnderLoad(t *testing.T) {
	d := tasks.NewDoor()
	var inside, ended atomic.Int64
	for range 8 {
		go func() {
			defer ended.Add(1)
			for p := d.Place(); p.Enter(); {
				inside.Add(1)
				part := d.Place()
				part.Hold()
				p.Leave()
				inside.Add(-1)
				part.Leave()
			}
		}()
	}
	time.Sleep(5 * time.Millisecond)
	d.Shut()
	require.Zero(t, d.Wait(within(t, time.Minute)))
	require.Zero(t, inside.Load())
	require.Eventually(t, func() bool { return ended.Load() == 8 }, time.Minute, time.Millisecond)
}
