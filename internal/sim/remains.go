package sim

import (
	"runtime"
	"sync"
	"time"
	"weak"

	"github.com/couchcore/couchcore/core"
)

// What may be left of a client that is closed is nothing (P11): no call that waits for its retry or for a connection,
// nothing that a meter provider still asks, and no timer. A timer that would fire later keeps the client in memory, so
// the collector shows it: once the world has let go of the client, only what the client has left behind refers to it.
//
// The runtime keeps a timer that was stopped until no other one is due before it. So the world stops its own, too: with
// one that is still due, a timer that the client has stopped would count as left behind.

// later is the functions of the judges that are yet to be called.
type later struct {
	mu     sync.Mutex
	timers map[*time.Timer]bool
	over   bool
}

// call has f called after d, which is positive, unless end comes before.
func (l *later) call(d time.Duration, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		l.mu.Lock()
		delete(l.timers, t)
		l.mu.Unlock()
		f()
	})
	if l.timers == nil {
		l.timers = map[*time.Timer]bool{}
	}
	l.timers[t] = true
}

// end stops all timers.
func (l *later) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	for t := range l.timers {
		t.Stop()
	}
}

// client is a client that was closed.
type client struct {
	cluster weak.Pointer[core.Cluster]
	bucket  weak.Pointer[core.Bucket]
}

// closed judges what the client says of itself at the end of Close.
func (w *world) closed() {
	stats, queued := w.c.RetryStats(), 0
	for _, s := range w.b.Status() {
		queued += s.Queued + s.InFlight
	}
	if stats.Parked != 0 || stats.Bytes != 0 || queued != 0 {
		w.report.violate("P11", "%d calls with %d bytes wait for their retry after Close, and %d for a connection",
			stats.Parked, stats.Bytes, queued)
	}
	w.meters.mu.Lock()
	asked := len(w.meters.collect)
	w.meters.mu.Unlock()
	if asked != 0 {
		w.report.violate("P11", "%d functions are registered with the meter provider after Close", asked)
	}
}

// letGo ends all references of the world to the client, and what the judges would still do.
func (w *world) letGo() client {
	w.later.end()
	c := client{weak.Make(w.c), weak.Make(w.b)}
	if w.Break != LeakedTimer {
		w.c, w.b = nil, nil
		return c
	}
	kept := w.c
	time.AfterFunc(time.Hour, func() { _ = kept.Close() })
	w.c, w.b = nil, nil
	return c
}

// collections is how often the collector runs until what nothing refers to is gone: what a first run has found to be in
// use may have been let go of while it looked.
const collections = 3

// checkMemory judges whether the client has left memory.
func (w *world) checkMemory(c client) {
	for range collections {
		if runtime.GC(); c.cluster.Value() == nil && c.bucket.Value() == nil {
			return
		}
	}
	w.report.violate("P11", "something still refers to the client after Close: a timer, or a function of the world's")
}
