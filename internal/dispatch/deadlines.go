package dispatch

import (
	"container/heap"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

// deadlines keeps the deadlines of calls that are in no connection's slot. One timer serves all of them. An entry
// goes when its call ends: calls that are refused at once would otherwise fill the memory until their deadlines.
type deadlines struct {
	base   time.Time
	expire func(*call.Call)

	mu    sync.Mutex
	heap  dueHeap
	timer *time.Timer
	ended bool
}

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

func (d *deadlines) init(base time.Time, expire func(*call.Call)) {
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

// arm sets the timer for the earliest deadline. The lock is held; Reset does not block.
func (d *deadlines) arm() {
	d.timer.Reset(max(time.Duration(d.heap[0].Deadline)-time.Since(d.base), 0))
}

func (d *deadlines) fire() {
	var due []*call.Call
	d.mu.Lock()
	now := int64(time.Since(d.base))
	for len(d.heap) > 0 && (d.heap[0].Deadline <= now || d.heap[0].Ended()) {
		due = append(due, heap.Pop(&d.heap).(*call.Call))
	}
	if len(d.heap) > 0 && !d.ended {
		d.arm()
	}
	d.mu.Unlock()
	for _, c := range due {
		if !c.Ended() {
			d.expire(c)
		}
	}
}

func (d *deadlines) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = true
	d.heap = nil
	d.timer.Stop()
}
