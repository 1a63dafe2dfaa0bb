package retry

import (
	"context"
	"errors"
	"slices"
	"time"
)

// ConnLost reports that the connection died on which the attempt named epoch was out. An idempotent operation is
// judged as SocketClosedWhileInFlight, any other fails in doubt. A report of an earlier attempt changes nothing.
//
// The first loss of an operation is transparent: whether the server's logic had seen the request is not known, and
// nothing has come back. Its retry counts against no limit and no budget.
func (o *Orchestrator) ConnLost(op Op, epoch uint32, cause error) { o.lost(op, epoch, cause, Hint{}) }

// AnswerLost is ConnLost for a connection that died within the answer: the server has seen the request, and the loss
// counts.
func (o *Orchestrator) AnswerLost(op Op, epoch uint32, cause error) {
	o.lost(op, epoch, cause, Hint{seen: true})
}

func (o *Orchestrator) lost(op Op, epoch uint32, cause error, hint Hint) {
	s := op.Retry()
	if s.Lost(epoch) {
		o.MaybeRetry(op, SocketClosedWhileInFlight, cause, hint)
		return
	}
	// Either the event is late, or the operation is not idempotent: then this attempt is its last.
	w := wire(epoch)
	if !s.finishAs(w) { // guard: late loss
		return
	}
	j := &judgement{
		op: op, s: s, word: withPhase(w, isDone), stage: StageNetwork, why: SocketClosedWhileInFlight, cause: cause,
	}
	if o.record(j) {
		o.complete(conclusion{h: j.h, ending: ending{from: w, judged: true}})
	}
}

// Expire ends an operation whose deadline has passed, in whatever phase it is, with ErrTimeout around what its last
// attempt met. It says whether this call ended it.
func (o *Orchestrator) Expire(op Op) bool { return o.end(op, ErrTimeout, nil) }

// ExpireAll is Expire for many operations, in order. It is for those that end at the same time: they share turns in the
// lock.
func (o *Orchestrator) ExpireAll(ops []Op) {
	var some []conclusion
	for part := range slices.Chunk(ops, turnful) {
		some = some[:0]
		for _, op := range part {
			if c, won := o.finish(op, ErrTimeout, nil); won {
				some = append(some, c)
			}
		}
		o.complete(some...)
	}
}

// Cancel ends an operation now, in whatever phase it is, with ErrCanceled around cause. It says whether this call ended
// it.
func (o *Orchestrator) Cancel(op Op, cause error) bool { return o.end(op, ErrCanceled, usable(cause)) }

// CancelAll is Cancel for every operation that waits for a delay and that match picks.
func (o *Orchestrator) CancelAll(match func(Op) bool, cause error) {
	o.mu.Lock()
	list := slices.Clone(o.heap)
	o.mu.Unlock()
	for _, z := range list {
		if match(z.op) {
			o.Cancel(z.op, cause)
		}
	}
}

func (o *Orchestrator) end(op Op, kind, why error) bool {
	c, won := o.finish(op, kind, why)
	if won {
		o.complete(c)
	}
	return won
}

// finish claims an operation's end, in whatever phase it is.
func (o *Orchestrator) finish(op Op, kind, why error) (c conclusion, won bool) {
	s := op.Retry()
	w, won := s.finish()
	if !won {
		return conclusion{}, false
	}
	c.ending = ending{from: w, kind: kind, why: why}
	c.h = s.h.Load()
	switch {
	case phaseOf(w) != inLocal && (c.h == nil || unjudged(w)):
		desc := o.describe(op, true)
		if c.h == nil {
			c.h = o.newHistory(op, &desc, time.Now())
		}
		if unjudged(w) {
			c.req = &desc.described
		}
	case c.h == nil: // its owner may be routing it, and only the owner may write what it would describe
		c.h = o.newHistory(op, &description{described: described{Context: context.Background()}}, time.Now())
	}
	return c, true
}

// failNow ends an operation whose attempt is claimed, with kind around what the attempt met, and asks no strategy.
func (o *Orchestrator) failNow(op Op, cause, kind, why error) {
	s := op.Retry()
	w := s.ph.Load()
	j := &judgement{op: op, s: s, word: w, stage: stageOf(w), why: EvaluationIndicated, cause: cause}
	if deciding(w) && o.record(j) {
		o.fail(j, kind, why)
	}
}

// withdraw ends an operation that was woken for a retry which is not made after all: it is not counted.
func (o *Orchestrator) withdraw(op Op, kind, why error) {
	s := op.Retry()
	w := s.ph.Load()
	if phaseOf(w) != inLocal || !s.finishAs(w) {
		return
	}
	h := s.h.Load()
	h.mu.Lock()
	if h.retrying {
		h.counters().uncount(h.Retries(), h.Reason)
		h.Counted, h.retrying = h.Counted-1, false
	}
	h.mu.Unlock()
	o.complete(conclusion{h: h, ending: ending{from: w, kind: kind, why: why, judged: true}})
}

// endAs ends the operation for the claim that w stands for, if it is still valid.
func (o *Orchestrator) endAs(h *history, w uint32, kind, why error) {
	if h.ends(w) {
		o.complete(conclusion{h: h, ending: ending{from: w, kind: kind, why: why}})
	}
}

func (h *history) ends(w uint32) bool {
	return h.s.finishAs(w) // guard: end swap
}

// fail ends a judged operation.
func (o *Orchestrator) fail(j *judgement, kind, why error) {
	if !j.s.finishAs(j.word) { // guard: fail swap
		return
	}
	o.complete(conclusion{h: j.h, free: !j.begun, ending: ending{from: j.word, kind: kind, why: why, cause: j.cause}})
}

// ending is how an operation came to its end.
type ending struct {
	from   uint32 // the word that was replaced
	kind   error  // a sentinel, or nil
	why    error  // the canceler's, the closer's or the panicking strategy's error, or nil
	cause  error  // what the last attempt met; nil: what the history says
	judged bool   // the attempt that was out is in the history already
}

// conclusion is an operation that has been moved to the phase done, for the goroutine that has moved it.
type conclusion struct {
	ending
	h    *history
	req  *described // what the history says of the latest attempt is not true any more; nil: it is
	free bool       // the operation is not in the heap, whatever phase it was in
	// what is left to be done when the mutex is released
	cancel  context.CancelFunc // of the context of its strategy; nil: none runs
	charges []charge
	out     bool // an attempt was out that is not in the history
	inDoubt bool
	at      time.Time
}

// turnful is how many operations end in one turn in the mutex, at most. They are claimed together, so while the
// program's code is told of one of them, nothing else can end those behind it: that is no more than these.
const turnful = 64

// complete ends operations, turnful at most.
func (o *Orchestrator) complete(some ...conclusion) {
	now := time.Now()
	o.release(some, now.Sub(o.base))
	for i := range some {
		some[i].at = now
		some[i].conclude()
	}
	for i := range some {
		o.deliver(&some[i])
	}
}

// release takes operations that have ended out of the heap. That is one turn in the orchestrator's mutex, and short,
// and none for an operation that does not wait: where thousands end at once, and the processor is taken away from the
// one that has the mutex, the line for it is what they wait for longest.
func (o *Orchestrator) release(some []conclusion, now time.Duration) {
	if !slices.ContainsFunc(some, conclusion.mayBeQueued) {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range some {
		h := some[i].h
		o.unlink(h, now) // guard: unlink at the end
		some[i].cancel, h.cancel = h.cancel, nil
	}
	o.arm()
}

// mayBeQueued reports whether the operation may be in the heap.
func (c conclusion) mayBeQueued() bool { return !c.free && queued(c.from) }

// conclude enters the end of an operation into its history. After it nothing writes to that but the goroutine that has
// ended the operation.
func (c *conclusion) conclude() {
	h, w := c.h, c.from
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.req != nil {
		h.req = *c.req
	}
	c.charges = h.charges
	c.out = !c.judged && (phaseOf(w) == onWire || phaseOf(w) == inLocal || deciding(w) && !h.entered())
	h.left(w)
	c.inDoubt = h.s.ambiguous(w)
	h.Elapsed = c.at.Sub(h.started)
	if c.out {
		h.Stage = stageOf(w)
	}
	if c.out && h.Stage == StageDispatch {
		h.Unsent++
	}
	h.Parked = phaseOf(w) == inParked
	if c.cause != nil {
		h.cause = c.cause
	}
	h.countEnd(c.inDoubt)
	h.charges, h.retrying = nil, false
}

// deliver makes the error of an operation that has ended. It ends the context of its strategy, settles its budgets,
// reports to the observer, and calls Done.
func (o *Orchestrator) deliver(c *conclusion) {
	h := c.h
	e := &Error{kind: c.kind, ended: c.why, InDoubt: c.inDoubt, Info: h.Info, Cause: h.cause, Code: h.req.Code}
	e.Log = append([]Attempt(nil), h.Log...)
	e.Service, e.Operation, e.Endpoint, e.ID = h.req.Service, h.req.Operation, h.req.Endpoint, h.req.ID
	if x, ok := h.op.(Explainer); ok && e.Stage == StageDispatch && errors.Is(c.kind, ErrTimeout) {
		e.Cause = x.Explain(e.Cause)
	}
	if c.cancel != nil { // guard: strategy's context
		c.cancel()
	}
	for _, paid := range c.charges {
		payBack(paid.budget, paid.cost, false)
	}
	if errors.Is(e, ErrThrottled) {
		h.counters().throttled.Add(1)
	}
	if ob := o.opts.Observer; ob != nil && len(h.Log) > 0 {
		reason := h.Reason
		r := h.request(new(Request), &turn{seen: h.Reasons})
		if c.out {
			ob.Attempt(h.attempt(Unknown, stageOf(c.from), e, c.at))
		}
		ob.GaveUp(r, reason, e)
	}
	h.op.Done(e, c.inDoubt)
}

// entered reports whether the log has the attempt that is being judged; under the mutex.
func (h *history) entered() bool { return len(h.Log) > 0 && !h.retrying }

// left enters what the operation has waited when it ended in the phase of w; under the mutex. A delay that was decided
// and not begun is no delay.
func (h *history) left(w uint32) {
	switch {
	case phaseOf(w) == inParked:
		h.waitOver(h.parking)
	case h.planned:
		h.Log[len(h.Log)-1].Delay, h.planned = 0, false
	}
}

// countEnd counts an operation that has failed; under the mutex.
func (h *history) countEnd(inDoubt bool) {
	hadFailed := len(h.Log) > 0
	if !hadFailed && !inDoubt {
		return
	}
	c := h.counters()
	if hadFailed {
		c.gaveUp.Add(1)
	}
	if inDoubt {
		c.inDoubt.Add(1)
	}
	if h.retrying && h.counting {
		c.failed.Add(1)
	}
}

// forget lets go of an operation that another goroutine has ended, in the phase of w.
func (o *Orchestrator) forget(h *history, w uint32) {
	now := time.Now()
	var cancel context.CancelFunc
	if queued(w) {
		o.mu.Lock()
		o.unlink(h, now.Sub(o.base)) // guard: unlink what others ended
		o.arm()
		cancel, h.cancel = h.cancel, nil
		o.mu.Unlock()
	}
	h.mu.Lock()
	h.left(w)
	h.Elapsed = now.Sub(h.started)
	h.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// settle settles the budgets of an operation that its owner has ended, or ends now, and reports its last attempt.
func (o *Orchestrator) settle(h *history, err error, now bool) {
	ob := o.opts.Observer
	var desc description
	if ob != nil {
		desc = o.describe(h.op, true)
	}
	var report AttemptInfo
	at := time.Now()
	h.mu.Lock()
	if now {
		h.Elapsed = at.Sub(h.started)
	}
	if h.retrying && h.counting && err != nil {
		h.counters().failed.Add(1)
	}
	retried := h.retrying
	charges := h.charges
	h.charges, h.retrying = nil, false
	if ob != nil {
		h.req = desc.described
		report = h.attempt(Unknown, StageResponse, err, at)
	}
	h.mu.Unlock()
	for _, c := range charges {
		payBack(c.budget, c.cost, true) // an answer that is no retryable failure is a success of the server's
	}
	if ob != nil && retried {
		ob.Attempt(report)
	}
}

// Wakes is a number that every Wake changes, and never 0. It is for Hint.Wakes: a goroutine that looks for a way to a
// server while another one finds it and calls Wake would otherwise park an operation that is never woken.
func (o *Orchestrator) Wakes() uint64 { return o.wakes.Load() + 1 }

// Wake dispatches parked operations that match now, instead of after their delay: those whose last failure came before
// any server saw them. It never shortens a controlled delay, a delay after an answer, or one that a server named. match
// must look at nothing of the operation that dispatching it changes, since it may be on its way already; nil matches
// every operation. Operations that are about to be parked are woken if they say since when they should be; see
// Hint.Wakes.
func (o *Orchestrator) Wake(match func(Op) bool) {
	var list []woken
	o.mu.Lock()
	o.wakes.Add(1)
	for _, z := range o.heap {
		if z.eager { // guard: wake
			list = append(list, woken{z, z.number})
		}
	}
	o.mu.Unlock()
	if match != nil {
		list = slices.DeleteFunc(list, func(z woken) bool { return !match(z.op) })
	}
	slices.SortFunc(list, woken.compare) // the heap's own order is chance, and the first may take the last free place
	b := o.batch()
	for len(list) > 0 {
		list = o.rouse(list, b)
		o.resumeAll(b)
	}
	o.dispatch(b)
	o.batches.Put(b)
}

// rouse ends the parkings of a list, in one turn in the mutex, and adds the operations to b.due. It gives those that it
// has left for another turn: what is behind one with a budget, which is the program's code, waits in the heap for that.
func (o *Orchestrator) rouse(list []woken, b *batch) (left []woken) {
	now := time.Since(o.base)
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.arm()
	for i, z := range list {
		if z.history.number != z.number { // guard: parking
			continue
		}
		p, ok := o.unlink(z.history, now)
		if !ok || o.postpone(z.history, p, now) { // guard: still parked
			continue
		}
		p.capped = p.capped && now >= p.at // past the deadline nothing is sent
		b.due = append(b.due, due{z.history, p})
		if p.budget != nil || len(b.due) == turnful {
			return list[i+1:]
		}
	}
	return nil
}

// postpone parks an operation again that was woken before its floor: until the floor, or until its own time if that is
// earlier. It is false when the floor is over. Under the orchestrator's mutex.
func (o *Orchestrator) postpone(h *history, p parking, now time.Duration) bool {
	if now < p.earliest { // guard: floor of a wake
		if p.at > p.earliest {
			p.at, p.capped = p.earliest, false
		}
		p.eager = false
		o.link(h, p)
		return true
	}
	return false
}

// Close ends every operation that waits for a delay or whose strategy runs, with ErrClosed around cause, and lets later
// ones fail so. It does not wait for a strategy that ignores its context. A second Close does nothing.
func (o *Orchestrator) Close(cause error) {
	o.mu.Lock()
	if o.closed.Load() {
		o.mu.Unlock()
		return
	}
	o.closeCause = cause
	o.closed.Store(true)
	now := time.Since(o.base)
	var batch []due
	for len(o.heap) > 0 {
		h := o.heap[0].history
		p, _ := o.unlink(h, now)
		batch = append(batch, due{h, p})
	}
	o.arm()
	o.mu.Unlock()
	for _, d := range batch {
		o.endAs(d.h, d.word, ErrClosed, cause)
	}
}
