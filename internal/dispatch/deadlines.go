package dispatch

import (
	"container/heap"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

// deadlines keeps the deadlines of calls that are in no connection's slot. One timer serves all of them. An entry
// goes when its call ends: calls that are refused at once would otherwise fill the memory until their deadlines.
//
// One goroutine of the timer's ends the calls whose deadlines have passed, and then those whose deadlines have passed
// meanwhile. A goroutine for each would be thousands that stand in line for the same locks when many calls wait and the
// processor is short. Another one joins it when it takes long.
type deadlines struct {
	base   time.Time
	expire func([]*call.Call)

	mu     sync.Mutex
	heap   dueHeap
	timer  *time.Timer
	ending int           // goroutines that end calls
	took   time.Duration // when one of them took calls last, since base
	ended  bool
}

// endPatience is how long the goroutines that end calls may take before others do not wait for them: an observer, or a
// budget, of the program's is at it.
const endPatience = 10 * time.Millisecond

type dueHeap []*call.Call

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].Deadline < h[j].Deadline }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].Slow().DuePlace, h[j].Slow().DuePlace = int32(i), int32(j)
}

func (h *dueHeap) Push(x any) {
	c := x.(*call.Call) //nolint:forcetypeassert // only calls are pushed
	c.Slow().DuePlace = int32(len(*h))
	*h = append(*h, c)
}

func (h *dueHeap) Pop() any {
	old := *h
	n := len(old)
	c := old[n-1]
	old[n-1] = nil
	*h = old[:n-1]
	c.Slow().DuePlace = -1
	return c
}

func (d *deadlines) init(base time.Time, expire func([]*call.Call)) {
	d.base, d.expire = base, expire
	d.timer = time.AfterFunc(time.Hour, d.fire)
	d.timer.Stop()
}

func (d *deadlines) add(c *call.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended {
		return
	}
	heap.Push(&d.heap, c)
	if d.heap[0] == c {
		d.arm()
	}
}

// remove lets go of a call. False means that it is being looked at, or is not here any more.
func (d *deadlines) remove(c *call.Call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := int(c.Slow().DuePlace)
	if i < 0 || i >= len(d.heap) || d.heap[i] != c {
		return false
	}
	heap.Remove(&d.heap, i)
	return true
}

// arm sets the timer for the earliest deadline, and not before the goroutine that ends calls has had its time. The lock
// is held; Reset does not block.
func (d *deadlines) arm() {
	at := time.Duration(d.heap[0].Deadline)
	if d.ending > 0 {
		at = max(at, d.patience())
	}
	d.timer.Reset(max(at-time.Since(d.base), 0))
}

// patience is when another goroutine may join those that end calls. The lock is held.
func (d *deadlines) patience() time.Duration { return d.took + endPatience }

func (d *deadlines) fire() {
	for due := d.due(true); len(due) > 0; due = d.due(false) {
		d.expire(due)
	}
}

// due takes the calls whose deadlines have passed, for a goroutine that has just been started, or has ended those that
// it took before. Without any that goroutine is to return.
func (d *deadlines) due(started bool) (due []*call.Call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Since(d.base)
	if started {
		if d.ending > 0 && now < d.patience() { // the timer was set before that one was
			return nil
		}
		d.ending++
	}
	for len(d.heap) > 0 && (time.Duration(d.heap[0].Deadline) <= now || d.heap[0].Ended()) {
		c := heap.Pop(&d.heap).(*call.Call) //nolint:forcetypeassert // only calls are pushed
		if !c.Ended() {
			due = append(due, c)
		}
	}
	if len(due) == 0 {
		d.ending--
	} else {
		d.took = now
	}
	if len(d.heap) > 0 && !d.ended {
		d.arm()
	}
	return due
}

func (d *deadlines) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.heap = nil
	d.timer.Stop()
}
