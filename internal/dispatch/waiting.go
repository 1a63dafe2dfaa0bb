package dispatch

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

// room is where calls wait that cannot go on yet. There are three kinds: a router has one for the first cluster map and
// one for collections' ids, and each pipeline has one for its connection, and for room on that.
//
// A call enters through a door, which says whether it is to wait. It leaves when an event has the door looked at again
// (review, release), or when the router closes. Its deadline or its context ends it where it is (see hold): then its
// place is free for the next call that finds the room full.
type room struct {
	r     *Router
	mu    sync.Locker // guards the room, and what the door looks at
	door  door
	calls []*call.Call
	own   int   // of them, the client's own requests: they take no call's place, but as many of their own
	swept int64 // when calls that had ended were looked for last, since the router's base
	ended error // why no call enters any more; nil while calls do
}

// door is what the calls of a room wait for.
type door interface {
	// look says what becomes of a call now: it goes on, it does not wait because of the cause, or with neither it
	// waits. The room's lock is held.
	look() (open bool, cause error)
	// pass lets a call go on: it gives the pipeline that is to send it, nil as find does.
	pass(c *call.Call) *pipeline
	// turnAway gives a call that is not to wait to its strategy. For since see noWay.
	turnAway(c *call.Call, since uint64, cause error)
}

var errQueueFull = errors.New("too many calls wait for the node's connection")

// sweepApart is the least time between two looks for calls that have ended: a full room refuses many calls.
const sweepApart = 10 * time.Millisecond

// enter has the call wait, unless the door is open, or has a cause why not, or the room is full.
func (w *room) enter(c *call.Call, stage call.Stage, limit int, since uint64) {
	c.Share()
	w.mu.Lock()
	open, cause := w.door.look()
	ended := w.ended
	if !open && cause == nil && ended == nil && !w.seat(c, stage, limit) {
		cause = errQueueFull
	}
	w.mu.Unlock()
	switch {
	case ended != nil:
		w.r.o.Orchestrator.Cancel(c, ended)
	case open:
		if p := w.door.pass(c); p != nil {
			p.submit(c)
		}
	case cause != nil:
		w.door.turnAway(c, since, cause)
	default:
		w.r.hold(c)
	}
}

// taken is how many places calls have. The lock is held.
func (w *room) taken() int { return len(w.calls) - w.own }

// seat gives the call a place; false when all are taken. The caller then calls hold, without the lock, which is held.
func (w *room) seat(c *call.Call, stage call.Stage, limit int) bool {
	own := c.OfClient()
	full := func() bool { return own && w.own >= limit || !own && w.taken() >= limit }
	if now := w.r.now(); full() && now-w.swept >= int64(sweepApart) {
		w.swept = now
		w.takeIf((*call.Call).Ended)
	}
	if full() {
		return false
	}
	c.SetStage(stage)
	w.calls = append(w.calls, c)
	if own {
		w.own++
	}
	return true
}

// next takes the first call out; nil when none is left. The lock is held.
func (w *room) next() *call.Call {
	if len(w.calls) == 0 {
		return nil
	}
	c := w.calls[0]
	w.calls[0] = nil
	w.calls = w.calls[1:]
	if c.OfClient() {
		w.own--
	}
	return c
}

// back gives a call its place at the front again. The lock is held.
func (w *room) back(c *call.Call) {
	w.calls = slices.Insert(w.calls, 0, c)
	if c.OfClient() {
		w.own++
	}
}

// take takes all calls out. The lock is held.
func (w *room) take() (all []*call.Call) {
	all, w.calls, w.own = w.calls, nil, 0
	return all
}

// takeIf takes out the calls of which f says so. The lock is held.
func (w *room) takeIf(f func(c *call.Call) bool) (taken []*call.Call) {
	w.calls = slices.DeleteFunc(w.calls, func(c *call.Call) bool {
		is := f(c)
		if is {
			taken = append(taken, c)
			if c.OfClient() {
				w.own--
			}
		}
		return is
	})
	return taken
}

// release has calls that were taken out go on, or turns them away because of the cause.
func (w *room) release(calls []*call.Call, since uint64, cause error) {
	if cause == nil {
		w.r.goOn(calls, w.door.pass)
		return
	}
	for _, c := range calls {
		if !c.Ended() {
			w.door.turnAway(c, since, cause)
		}
	}
}

// review looks at the door again, after something has happened.
func (w *room) review() {
	since := w.r.o.Orchestrator.Wakes()
	w.mu.Lock()
	var calls []*call.Call
	var cause error
	if len(w.calls) > 0 {
		var open bool
		if open, cause = w.door.look(); open || cause != nil {
			calls = w.take()
		}
	}
	w.mu.Unlock()
	w.release(calls, since, cause)
}

// close ends the calls with cause, and those that come from now on.
func (w *room) close(cause error) {
	w.mu.Lock()
	w.ended = cause
	calls := w.take()
	w.mu.Unlock()
	for _, c := range calls {
		w.r.o.Orchestrator.Cancel(c, cause)
	}
}

// event wakes all that wait for it to happen next. Its zero value is ready.
type event struct {
	mu sync.Mutex
	c  chan struct{} // nil while no goroutine waits
}

// next is closed when the event happens next. A goroutine that waits for a state takes it before it looks at the state.
func (e *event) next() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.c == nil {
		e.c = make(chan struct{})
	}
	return e.c
}

func (e *event) happens() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.c != nil {
		close(e.c)
		e.c = nil
	}
}
