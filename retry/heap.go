package retry

import (
	"container/heap"
	"time"
)

// sleepers orders histories by the end of their parking; equal ends keep the order of their numbers.
type sleepers []*history

func (q sleepers) Len() int { return len(q) }
func (q sleepers) Less(i, j int) bool {
	if c := q[i].at.Compare(q[j].at); c != 0 {
		return c < 0
	}
	return q[i].number < q[j].number
}

func (q sleepers) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push implements heap.Interface.
func (q *sleepers) Push(x any) {
	h := x.(*history) //nolint:forcetypeassert // only histories are pushed
	h.index = len(*q)
	*q = append(*q, h)
}

// Pop implements heap.Interface.
func (q *sleepers) Pop() any {
	last := len(*q) - 1
	h := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	h.index = -1
	return h
}

// link puts h's parking into the heap; under the mutex. The caller arms the timer.
func (o *Orchestrator) link(h *history, p parking) {
	o.numbers++
	p.number = o.numbers
	h.parking = p
	if !p.judging {
		o.parked++
		o.bytes += p.size
	}
	heap.Push(&o.heap, h)
}

// unlink takes h out of the heap and gives the parking that it ended; ok is false when h was in none. Under the mutex.
// The caller arms the timer.
func (o *Orchestrator) unlink(h *history, now time.Time) (p parking, ok bool) {
	if h.index < 0 { // guard: unlinked
		return parking{}, false
	}
	heap.Remove(&o.heap, h.index)
	p = h.parking
	h.budget = nil
	if !p.judging {
		o.parked--
		o.bytes -= p.size
		waited := min(p.delay, max(now.Sub(p.since), 0))
		h.Waited += waited
		o.counters(h).Delay += waited
	}
	return p, true
}

// arm sets the one timer to the earliest end, or stops it; under the mutex.
func (o *Orchestrator) arm() {
	if len(o.heap) == 0 {
		if o.timer != nil {
			o.timer.Stop()
		}
		o.armed = time.Time{}
		return
	}
	first := o.heap[0].at
	if first.Equal(o.armed) {
		return
	}
	o.armed = first
	if o.timer == nil {
		o.timer = time.AfterFunc(time.Until(first), o.fire)
		return
	}
	o.timer.Reset(time.Until(first))
}

// due is a parking that was taken out of the heap: its taker alone may wake the operation.
type due struct {
	h *history
	parking
}

// fire runs when the timer does, on a goroutine of the timer's.
func (o *Orchestrator) fire() {
	now := time.Now()
	o.mu.Lock()
	o.armed = time.Time{}
	b, ok := o.batches.Get().(*batch)
	if !ok {
		b = &batch{}
	}
	for len(o.heap) > 0 && !o.heap[0].at.After(now) {
		h := o.heap[0]
		p, _ := o.unlink(h, now)
		b.due = append(b.due, due{h, p})
	}
	o.arm()
	o.mu.Unlock()
	for _, d := range b.due {
		if d.budget != nil { // somebody's code, which nothing that may go already waits for
			o.dispatch(b)
		}
		if o.resume(d) {
			b.ops = append(b.ops, d.h.op)
		}
	}
	o.dispatch(b)
	clear(b.due)
	b.due = b.due[:0]
	o.batches.Put(b)
}

// dispatch sends what has been resumed on its way.
func (o *Orchestrator) dispatch(b *batch) {
	if len(b.ops) > 1 && o.opts.DispatchAll != nil {
		o.opts.DispatchAll(b.ops)
	} else {
		for _, op := range b.ops {
			op.Dispatch()
		}
	}
	clear(b.ops)
	b.ops = b.ops[:0]
}

// batch is memory for what is due at one moment.
type batch struct {
	due []due
	ops []Op
}

// resume makes a due operation ready to be dispatched, and says so, or ends it.
func (o *Orchestrator) resume(d due) bool {
	h, s := d.h, d.h.s
	if d.judging || d.capped { // guard: capped
		o.endAs(h, d.word, ErrTimeout, nil)
		return false
	}
	var paid int32
	// Unseen requests cost nothing.
	charged := d.budget != nil && !d.reason.Unseen() && s.ph.Load() == d.word
	if charged {
		cost, ok, err := take(d.budget, d.kind)
		if !ok {
			o.endAs(h, d.word, ErrThrottled, err)
			return false
		}
		paid = cost
	}
	o.mu.Lock()
	if o.closed { // guard: closed before the wake-up
		why := o.closeCause
		o.mu.Unlock()
		if charged {
			payBack(d.budget, paid, false)
		}
		o.endAs(h, d.word, ErrClosed, why)
		return false
	}
	if !s.ph.CompareAndSwap(d.word, withPhase(d.word, inLocal)) { // guard: timer's swap
		o.mu.Unlock()
		if charged {
			payBack(d.budget, paid, false)
		}
		return false
	}
	if charged {
		h.pay(d.budget, paid)
	}
	o.counted(h, d.parking)
	o.mu.Unlock()
	return true
}

// counted counts the retry that is about to be dispatched; under the mutex.
func (o *Orchestrator) counted(h *history, p parking) {
	c := o.counters(h)
	if p.reason.Unseen() {
		h.Transparent++
		c.Transparent++
	} else {
		h.Attempts++
		c.Retries++
	}
	switch {
	case p.pushed:
		h.step = 0
	case !p.free:
		h.step++
	}
	h.retrying = true
	c.count(h.Retries())
}
