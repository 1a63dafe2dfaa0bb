package chaos

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"
)

const (
	watchEvery = 2 * time.Millisecond
	watchKeeps = 1 << 14 // stalls
	callMemory = 4 << 10 // bytes, as much as the error and the reports of a call take
)

// watch knows when this process was not run in time: its goroutine sleeps, and looks how late its turn comes. It has no
// lock: one that ten thousand callers want would hold it up itself.
type watch struct {
	due    atomic.Int64 // ns: when the goroutine is to wake next
	count  atomic.Int64 // of stalls
	stalls [watchKeeps]stall
	worst  atomic.Int64 // ns
}

// stall is a time in which the goroutine was due and did not run, in ns.
type stall struct{ from, to atomic.Int64 }

func newWatch() *watch {
	w := new(watch)
	w.due.Store(time.Now().Add(watchEvery).UnixNano())
	return w
}

// run watches until ctx ends.
func (w *watch) run(ctx context.Context) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			turn()
			w.woke(time.Now())
		}
	}
}

// turn does what the end of a call needs of the runtime: new goroutines, which wait for their turns, and memory. A
// timer's goroutine is run before others, and one that has worked for the collector already need not do so now: a new
// one has neither advantage. The newest goroutine is run next, unless there is a newer one: then it waits behind all
// that wait for the processor, as those do whose timers have fired together. One that yields waits in another queue.
func turn() {
	done := make(chan *[callMemory]byte, 2)
	go func() { done <- new([callMemory]byte) }()
	go func() {
		runtime.Gosched()
		done <- new([callMemory]byte)
	}()
	<-done
	<-done
}

// woke notes that the goroutine runs. It is for that goroutine.
func (w *watch) woke(at time.Time) {
	now, due := at.UnixNano(), w.due.Load()
	if late := now - due; late > int64(watchEvery) {
		n := w.count.Load()
		s := &w.stalls[n%watchKeeps]
		s.from.Store(due)
		s.to.Store(now)
		w.count.Store(n + 1)
		w.worst.Store(max(w.worst.Load(), late))
	}
	w.due.Store(now + int64(watchEvery))
}

// stalled is how much of the time between two instants the process was not run, a stall that goes on included.
func (w *watch) stalled(after, before time.Time) time.Duration {
	from, to := after.UnixNano(), before.UnixNano()
	sum := max(0, to-max(w.due.Load(), from))
	for n := w.count.Load() - 1; n >= 0 && n > w.count.Load()-watchKeeps; n-- {
		s := &w.stalls[n%watchKeeps]
		end := s.to.Load()
		if end < from {
			break
		}
		sum += max(0, min(end, to)-max(s.from.Load(), from))
	}
	return time.Duration(min(sum, to-from))
}
