package retry

import (
	"math"
	"slices"
	"time"
)

// never is a time at which no parking ends.
const never = time.Duration(-1)

// later is t+d, or the largest Duration where that is larger. A negative d counts as 0.
func later(t, d time.Duration) time.Duration { return t + min(max(d, 0), math.MaxInt64-t) }

// sleeper is a history in the heap. What orders the heap is here: a heap of pointers alone would look at the memory of
// every history that is compared.
type sleeper struct {
	at   time.Duration // the end of the parking, since the orchestrator's base
	turn uint64        // the parking's number, or the one of the parking in which its strategy was asked
	*history
}

func (x *sleeper) before(y *sleeper) bool {
	return x.at < y.at || x.at == y.at && x.turn < y.turn
}

// compare is before for sorting. Each sleeper has a turn of its own, so two of them are never equal.
func (x sleeper) compare(y sleeper) int {
	if x.before(&y) {
		return -1
	}
	return 1
}

// woken is a sleeper whose parking, that of the number, a wake is to end.
type woken struct {
	sleeper
	number uint64
}

func (x woken) compare(y woken) int { return x.sleeper.compare(y.sleeper) }

// sleepers is a heap of histories by the end of their parking. Equal ends keep the order in which operations failed:
// strategies that are asked on goroutines of their own may answer in any other.
type sleepers []sleeper

func (q *sleepers) push(x sleeper) {
	*q = append(*q, x)
	q.up(len(*q)-1, x)
}

// remove takes out what is at index i.
func (q *sleepers) remove(i int) {
	last := len(*q) - 1
	(*q)[i].index = -1
	x := (*q)[last]
	(*q)[last] = sleeper{}
	*q = (*q)[:last]
	if i < last {
		q.down(q.up(i, x), x)
	}
}

// up puts x at index i, which is free, or above it, and says where.
func (q sleepers) up(i int, x sleeper) int {
	for i > 0 {
		over := (i - 1) / 2
		if !x.before(&q[over]) {
			break
		}
		q.put(i, q[over])
		i = over
	}
	q.put(i, x)
	return i
}

// down moves x from index i to below it if need be.
func (q sleepers) down(i int, x sleeper) {
	for {
		next := 2*i + 1
		if next+1 < len(q) && q[next+1].before(&q[next]) {
			next++
		}
		if next >= len(q) || !q[next].before(&x) {
			break
		}
		q.put(i, q[next])
		i = next
	}
	q.put(i, x)
}

func (q sleepers) put(i int, x sleeper) {
	q[i] = x
	x.index = i
}

// link puts h's parking into the heap; under the orchestrator's mutex. The caller arms the timer.
func (o *Orchestrator) link(h *history, p parking) {
	o.numbers++
	p.number = o.numbers
	h.parking = p
	turn := p.number
	if p.judging {
		h.asked = turn
	} else {
		if h.asked != 0 {
			turn, h.asked = h.asked, 0
		}
		o.parked++
		o.bytes += p.size
	}
	o.heap.push(sleeper{p.at, turn, h})
}

// unlink takes h out of the heap and gives the parking that it ended; ok is false when h was in none. Under the
// orchestrator's mutex. The caller arms the timer.
func (o *Orchestrator) unlink(h *history, now time.Duration) (p parking, ok bool) {
	if h.index < 0 { // guard: unlinked
		return parking{}, false
	}
	o.heap.remove(h.index)
	if !h.judging {
		o.parked--
		o.bytes -= h.size
		h.lasted = max(min(h.at, now)-h.since, 0)
	}
	p = h.parking
	h.budget = nil
	return p, true
}

// arm sets the one timer to the earliest end, or stops it; under the orchestrator's mutex.
func (o *Orchestrator) arm() {
	if len(o.heap) == 0 {
		if o.timer != nil {
			o.timer.Stop()
		}
		o.armed = never
		return
	}
	first := o.heap[0].at
	if first == o.armed {
		return
	}
	o.armed = first
	left := first - time.Since(o.base)
	if o.timer == nil {
		o.timer = time.AfterFunc(left, o.fire)
		return
	}
	o.timer.Reset(left)
}

// due is a parking that was taken out of the heap. The goroutine that has taken it is the only one that may wake the
// operation.
type due struct {
	h *history
	parking
}

// fire runs when the timer does, on a goroutine of the timer's.
func (o *Orchestrator) fire() {
	now := time.Since(o.base)
	o.mu.Lock()
	o.armed = never
	b := o.batch()
	for len(o.heap) > 0 && o.heap[0].at <= now {
		h := o.heap[0].history
		p, _ := o.unlink(h, now)
		b.due = append(b.due, due{h, p})
	}
	o.arm()
	o.mu.Unlock()
	b.due = slices.DeleteFunc(b.due, func(d due) bool { // no code of the program's holds up what needs none
		free := !d.over() && d.budget == nil
		if free && o.resume(d) {
			b.ops = append(b.ops, d.h.op)
		}
		return free
	})
	o.dispatch(b)
	o.timeOut(b)
	b.due = slices.DeleteFunc(b.due, due.over)
	o.resumeAll(b)
	o.dispatch(b)
	o.batches.Put(b)
}

// resumeAll resumes what is due, in order, and empties b.due. What it does not dispatch is in b.ops.
func (o *Orchestrator) resumeAll(b *batch) {
	for _, d := range b.due {
		if d.budget != nil { // user code, which the operations before do not wait for
			o.dispatch(b)
		}
		if o.resume(d) {
			b.ops = append(b.ops, d.h.op)
		}
	}
	clear(b.due)
	b.due = b.due[:0]
}

// timeOut ends the operations of which the deadline has passed.
func (o *Orchestrator) timeOut(b *batch) {
	for part := range slices.Chunk(b.due, turnful) {
		for _, d := range part {
			if d.over() && d.h.ends(d.word) {
				b.over = append(b.over, conclusion{h: d.h, ending: ending{from: d.word, kind: ErrTimeout}})
			}
		}
		o.complete(b.over...)
		clear(b.over)
		b.over = b.over[:0]
	}
}

// batch gives an empty batch, for o.batches to have again.
func (o *Orchestrator) batch() *batch {
	if b, ok := o.batches.Get().(*batch); ok {
		return b
	}
	return &batch{}
}

// dispatch dispatches the operations that were resumed, and empties b.ops.
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
	due  []due
	over []conclusion
	ops  []Op
}

// over reports whether the deadline has passed with the parking.
func (d due) over() bool {
	return d.judging || d.capped // guard: capped
}

// resume makes a due operation ready to be dispatched, and says so, or ends it.
func (o *Orchestrator) resume(d due) bool {
	h, s := d.h, d.h.s
	if d.over() {
		o.endAs(h, d.word, ErrTimeout, nil)
		return false
	}
	var paid int32
	charged := charges(d.budget, d.transparent) && s.ph.Load() == d.word
	if charged {
		cost, ok, err := take(d.budget, d.kind)
		if !ok {
			o.endAs(h, d.word, ErrThrottled, err)
			return false
		}
		paid = cost
	}
	closed := o.closed.Load() // guard: closed before the wake-up
	resumed := !closed && h.resume(d.parking, charged, paid)
	if charged && !resumed {
		payBack(d.budget, paid, false)
	}
	if closed {
		o.endAs(h, d.word, ErrClosed, o.closeCause)
	}
	return resumed
}

// resume moves an operation from the parking p to the local phase, in which it may be dispatched, and counts the retry.
// It is false when the operation has ended.
func (h *history) resume(p parking, charged bool, paid int32) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.s.ph.CompareAndSwap(p.word, withPhase(p.word, inLocal)) { // guard: timer's swap
		return false
	}
	h.waitOver(p)
	h.again(p.transparent, p.free, p.pushed)
	h.retrying, h.counting = true, !p.transparent
	h.counters().retried(h.Retries(), p.reason, p.transparent)
	if charged {
		h.pay(p.budget, paid)
	}
	return true
}

// waitOver enters a parking that is over into the history; under the history's mutex, for the goroutine that has moved
// the operation out of the phase parked.
func (h *history) waitOver(p parking) {
	h.planned = false
	h.decided(p.free, p.delay)
	h.waited(p.lasted, p.transparent)
	h.counters().delay.Add(int64(p.lasted))
}
