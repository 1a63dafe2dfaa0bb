package chaos

import (
	"sync/atomic"
	"time"
)

// runTimer is a timer that counts the seconds in which this process was run. A machine that is paused and goes on later
// has its clock go on too, so that all its timers fire at once: a limit would be over before what it limits has had a
// chance. Of such a pause this timer counts one second.
type runTimer struct {
	f     func()
	t     *time.Timer
	left  atomic.Int64 // seconds
	state atomic.Int32
}

const (
	timerWaits = iota
	timerFired
	timerStopped
)

// afterRun calls f on a goroutine of its own when the process was run for d, which is a number of seconds.
func afterRun(d time.Duration, f func()) *runTimer {
	r := &runTimer{f: f}
	r.left.Store(int64(d / time.Second))
	r.t = time.AfterFunc(d, r.tick)
	r.t.Reset(time.Second) // after r.t is there
	return r
}

func (r *runTimer) tick() {
	switch {
	case r.state.Load() != timerWaits:
	case r.left.Add(-1) > 0:
		r.t.Reset(time.Second)
	case r.state.CompareAndSwap(timerWaits, timerFired):
		r.f()
	}
}

// stop reports whether f is not called and will not be.
func (r *runTimer) stop() bool {
	stopped := r.state.CompareAndSwap(timerWaits, timerStopped)
	r.t.Stop()
	return stopped
}
