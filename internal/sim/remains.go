package sim

import (
	"runtime"
	"time"
	"weak"

	"github.com/couchcore/couchcore/core"
)

// What may be left of a client that is closed is nothing (P11): no call that waits for its retry or for a connection,
// nothing that a meter provider still asks, and no timer. A timer that would fire later keeps the client in memory, so
// the collector shows it: once the world has let go of the client, only what the client has left behind refers to it.

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

// letGo ends all references of the world to the client.
func (w *world) letGo() client {
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
