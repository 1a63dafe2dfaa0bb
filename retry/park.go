package retry

import (
	"time"
)

// Nothing but the caller drives a loop of the client's as fast as servers answer. The first retry of an operation may
// come at once; from the second on there is a floor, which floor knows. It has two heights, because one would break a
// promise: 10 ms would lengthen the delays of 2, 4 and 8 ms that the RFC's backoff has, and with 1 ms a server that
// says "now" would get 1,000 requests a second.
const (
	// Floor is under a delay that a server has named. One that names a shorter delay again and again is waited for ever
	// longer, as for reasons that are always retried.
	Floor = 10 * time.Millisecond
	// retryFloor is under a strategy's delay, and under an event that wakes an operation. The schedule of reasons that
	// are always retried has longer waits of its own.
	retryFloor = time.Millisecond
)

// floor is the least delay before the next retry of an operation that has had so many, where the delay would be d
// otherwise.
func floor(made int, pushed bool, d time.Duration) (least time.Duration) {
	switch {
	case made == 0:
	case pushed && d < Floor: // guard: floor
		least = Controlled(made, 0)
	default:
		least = retryFloor // guard: floor of a strategy
	}
	return least
}

// park lets the operation wait, unless its deadline has passed or a bound is reached.
func (o *Orchestrator) park(j *judgement, a Action, now time.Time) {
	p, ok := o.wait(j, a, now)
	if !ok {
		o.fail(j, ErrTimeout, nil)
		return
	}
	var r *Request
	if o.opts.Observer != nil && a.kind != waits {
		r = new(Request)
	}
	if !j.plan(p.delay, r) {
		return
	}
	if r != nil {
		o.opts.Observer.Retry(r, j.why, p.delay) // before anything can wake the operation
	}
	if refusal, why := o.place(j, p); refusal != nil {
		o.fail(j, refusal, why)
	}
}

// plan enters the delay that has been decided into the history, where it stays if the operation waits, and fills r for
// the observer, unless r is nil. It is false when the operation has ended.
func (j *judgement) plan(delay time.Duration, r *Request) bool {
	h := j.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if j.s.ph.Load() != j.word { // guard: ended before its delay
		return false
	}
	if r != nil {
		h.request(r, &j.turn)
	}
	h.planned = true
	h.Log[len(h.Log)-1].Delay = delay
	return true
}

// wait is how long the operation waits. It is false when its deadline has passed.
func (o *Orchestrator) wait(j *judgement, a Action, now time.Time) (p parking, ok bool) {
	delay := j.delay(a)
	left := j.deadline.Sub(now)
	if left <= 0 {
		return parking{}, false
	}
	capped := delay >= left // guard: cap
	if capped {
		delay = left
	}
	final := a.kind == waits
	since := now.Sub(o.base)
	p = parking{
		at: later(since, delay), since: since, delay: delay, size: j.size, reason: j.why, budget: a.budget,
		capped: capped || final, free: j.free, transparent: j.transparent, word: withPhase(j.word, inParked),
		kind: j.kind, earliest: later(since, floor(j.made, false, 0)),
	}
	p.pushed = j.pushed()
	p.eager = j.why.Unseen() && !j.why.AlwaysRetry() && !p.pushed && !final
	return p, true
}

// place puts a recorded operation into the heap, or says what it fails with and why. It does neither when the operation
// has ended.
func (o *Orchestrator) place(j *judgement, p parking) (refusal, why error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.eager && j.hint.Wakes != 0 && j.hint.Wakes != o.Wakes() { // guard: missed wake
		if p.earliest < p.at { // the earliest moment, not before
			p.at, p.capped = p.earliest, false
		}
	}
	if o.closed.Load() { // guard: closed
		return ErrClosed, o.closeCause
	}
	if o.parked >= o.opts.MaxParked || o.opts.MaxBytes > 0 && o.bytes+j.size > o.opts.MaxBytes { // guard: bounds
		return ErrTooManyInRetry, nil
	}
	// Under the mutex: a goroutine that ends the operation right after the swap must find it in the heap.
	if !j.s.ph.CompareAndSwap(j.word, p.word) { // guard: park swap
		return nil, nil
	}
	o.link(j.h, p)
	o.arm()
	return nil, nil
}
