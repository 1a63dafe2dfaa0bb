package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
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
		o.complete(j.h, ending{from: w, judged: true})
	}
}

// Expire ends an operation whose deadline has passed, in whatever phase it is, with ErrTimeout around what its last
// attempt met. It says whether this call ended it.
func (o *Orchestrator) Expire(op Op) bool { return o.end(op, ErrTimeout, nil) }

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
	s := op.Retry()
	w, won := s.finish()
	if !won {
		return false
	}
	o.mu.Lock()
	h := s.h.Load() // under the mutex: a claimant that was just publishing it has done so
	o.mu.Unlock()
	fresh := h == nil
	if fresh {
		h = o.newHistory(op, &description{described: described{Context: context.Background()}}, time.Now())
	}
	// While the operation is local its owner may be routing it, and only the owner may write what it would describe.
	if phaseOf(w) == onWire || fresh && phaseOf(w) != inLocal {
		desc := o.describe(op, true)
		o.mu.Lock()
		h.req = desc.described
		if fresh && !desc.started.IsZero() {
			h.started = desc.started
		}
		o.mu.Unlock()
	}
	o.complete(h, ending{from: w, kind: kind, why: why})
	return true
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
	o.mu.Lock()
	if h.retrying {
		o.counters(h).uncount(h.Retries(), h.Reason)
		h.Counted, h.retrying = h.Counted-1, false
	}
	o.mu.Unlock()
	o.complete(h, ending{from: w, kind: kind, why: why, judged: true})
}

// endAs ends the operation for the claim that w stands for, if it is still valid.
func (o *Orchestrator) endAs(h *history, w uint32, kind, why error) {
	if h.s.finishAs(w) { // guard: end swap
		o.complete(h, ending{from: w, kind: kind, why: why})
	}
}

// fail ends a judged operation.
func (o *Orchestrator) fail(j *judgement, kind, why error) {
	if !j.s.finishAs(j.word) { // guard: fail swap
		return
	}
	o.mu.Lock()
	j.h.cause = j.cause
	o.mu.Unlock()
	o.complete(j.h, ending{from: j.word, kind: kind, why: why})
}

// ending is how an operation came to its end.
type ending struct {
	from   uint32 // the word that was replaced
	kind   error  // a sentinel, or nil
	why    error  // the canceler's, the closer's or the panicking strategy's error, or nil
	judged bool   // the attempt that was out is in the history already
}

// complete ends an operation for the goroutine that has moved it to the phase done. It takes the operation out of the
// heap, ends its strategy's context, settles its budgets, reports to the observer, and calls Done.
func (o *Orchestrator) complete(h *history, end ending) {
	w := end.from
	now := time.Now()
	e := &Error{kind: end.kind, ended: end.why}
	out := !end.judged && (phaseOf(w) == onWire || phaseOf(w) == inLocal)
	o.mu.Lock()
	o.unlink(h, now.Sub(o.base)) // guard: unlink at the end
	o.arm()
	inDoubt := h.s.ambiguous(w) || h.inDoubt
	e.InDoubt = inDoubt
	cancel := h.cancel
	h.cancel = nil
	h.Elapsed = now.Sub(h.started)
	if out {
		h.Stage = stageOf(w)
	}
	if out && h.Stage == StageDispatch {
		h.Unsent++
	}
	h.Parked = phaseOf(w) == inParked
	e.Info, e.Cause = h.info(), h.cause
	e.Code = h.req.Code
	e.Service, e.Operation, e.Endpoint, e.ID = h.req.Service, h.req.Operation, h.req.Endpoint, h.req.ID
	hadFailed := len(h.Log) > 0
	if hadFailed || inDoubt {
		o.countEnd(h, hadFailed, inDoubt)
	}
	charges := h.charges
	h.charges, h.retrying = nil, false
	ended := judgement{turn: turn{seen: h.Reasons}}
	reason := h.Reason
	o.mu.Unlock()
	if x, ok := h.op.(Explainer); ok && e.Stage == StageDispatch && errors.Is(end.kind, ErrTimeout) {
		e.Cause = x.Explain(e.Cause)
	}

	if cancel != nil { // guard: strategy's context
		cancel()
	}
	for _, c := range charges {
		payBack(c.budget, c.cost, false)
	}
	if errors.Is(e, ErrThrottled) {
		o.mu.Lock()
		o.counters(h).Throttled++
		o.mu.Unlock()
	}
	if ob := o.opts.Observer; ob != nil && hadFailed {
		o.mu.Lock()
		r, report := h.request(&ended), h.attempt(Unknown, stageOf(w), e, now)
		o.mu.Unlock()
		if out {
			ob.Attempt(report)
		}
		ob.GaveUp(r, reason, e)
	}
	h.op.Done(e, inDoubt)
}

// countEnd counts an operation that has failed; under the mutex.
func (o *Orchestrator) countEnd(h *history, hadFailed, inDoubt bool) {
	c := o.counters(h)
	if hadFailed {
		c.GaveUp++
	}
	if inDoubt {
		c.InDoubt++
	}
	if h.retrying && h.counting {
		c.Failed++
	}
}

// forget lets go of an operation that another goroutine has ended.
func (o *Orchestrator) forget(h *history) {
	now := time.Now()
	o.mu.Lock()
	o.unlink(h, now.Sub(o.base)) // guard: unlink what others ended
	o.arm()
	cancel := h.cancel
	h.cancel = nil
	h.Elapsed = now.Sub(h.started)
	o.mu.Unlock()
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
	o.mu.Lock()
	if now {
		h.Elapsed = at.Sub(h.started)
	}
	if h.retrying && h.counting && err != nil {
		o.counters(h).Failed++
	}
	retried := h.retrying
	charges := h.charges
	h.charges, h.retrying = nil, false
	if ob != nil {
		h.req = desc.described
		report = h.attempt(Unknown, StageResponse, err, at)
	}
	o.mu.Unlock()
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
	slices.SortFunc(list, woken.compare) // the heap's own order is chance, and the first may take the last free place
	b := o.batch()
	for _, z := range list {
		if match != nil && !match(z.op) {
			continue
		}
		now := time.Since(o.base)
		o.mu.Lock()
		if z.history.number != z.number { // guard: parking
			o.mu.Unlock()
			continue
		}
		p, ok := o.unlink(z.history, now)
		waits := ok && o.postpone(z.history, p, now)
		o.arm()
		o.mu.Unlock()
		if !ok || waits { // guard: still parked
			continue
		}
		p.capped = p.capped && now >= p.at // past the deadline nothing is sent
		if p.budget != nil {               // user code, which the others do not wait for
			o.dispatch(b)
		}
		if o.resume(due{z.history, p}) {
			b.ops = append(b.ops, z.op)
		}
	}
	o.dispatch(b)
	o.batches.Put(b)
}

// postpone parks an operation again that was woken before its floor: until the floor, or until its own time if that is
// earlier. It is false when the floor is over. Under the mutex.
func (o *Orchestrator) postpone(h *history, p parking, now time.Duration) bool {
	at := h.floor(p.since)
	if now < at { // guard: floor of a wake
		if p.at > at {
			p.at, p.capped = at, false
		}
		p.since, p.delay, p.eager = now, max(p.at-now, 0), false
		o.link(h, p)
		return true
	}
	return false
}

// Close ends every operation that waits for a delay or whose strategy runs, with ErrClosed around cause, and lets later
// ones fail so. It does not wait for a strategy that ignores its context. A second Close does nothing.
func (o *Orchestrator) Close(cause error) {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return
	}
	o.closed, o.closeCause = true, cause
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

// inline is inlineOver. A strategy whose methods Inline or Wraps panic counts as one that may block.
func inline(s, inherited Strategy) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // consultOn fails the operation, if the strategy panics there too
		}
	}()
	return inlineOver(s, inherited)
}

// ask calls the strategy and makes an error of its panic.
func ask(ctx context.Context, s Strategy, r *Request, why Reason) (a Action, err error) {
	defer contain(&err)
	return s.RetryAfter(ctx, r, why), nil
}

// askInline asks a strategy that never blocks, and waits for it. Code of the user's runs on a goroutine of its own: it
// may end its goroutine, and the caller's may be the reader of a connection.
func askInline(ctx context.Context, s Strategy, r *Request, why Reason) (a Action, err error) {
	if ownCode(s) {
		return ask(ctx, s, r, why)
	}
	err = errStrategyGone // stays when the strategy ends its goroutine
	apart(func() { a, err = ask(ctx, s, r, why) })
	return a, err
}

// ownCode reports whether a strategy is one of this package's and calls no function of the user's.
func ownCode(s Strategy) bool {
	if f, ok := s.(FastFailOnTerminalError); ok {
		s = f.Base
	}
	if s == nil {
		return true
	}
	b, ok := s.(BestEffort)
	return ok && b.Backoff == nil
}

// apart runs code of the user's on a goroutine of its own, and waits until it is over.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// take asks a budget; one that panics refuses.
func take(b Budget, k Kind) (cost int32, ok bool, err error) {
	defer contain(&err)
	cost, ok = b.Take(k)
	return cost, ok, nil
}

// payBack settles with a budget; a panic of the budget fails the budget alone.
func payBack(b Budget, cost int32, succeeded bool) {
	var err error
	defer contain(&err)
	b.Settle(cost, succeeded)
}

// translated applies a strategy's own translation.
func translated(f func(error) error, cause error) (err error) {
	if f == nil {
		return cause
	}
	apart(func() {
		defer func() {
			if recover() != nil {
				err = nil
			}
		}()
		err = usable(f(cause))
	})
	if err == nil {
		return cause
	}
	return err
}

// usable gives err, or a *PanicError in its place when the methods of err panic. It is for errors of the user's:
// whatever looks at them later calls their methods.
func usable(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = &PanicError{"an error", fmt.Sprint(v), debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, ErrClosed)
	return err
}

func contain(err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{"a retry strategy", v, debug.Stack()}
	}
}

// same compares budgets, whose types need not be comparable.
func same(a, b Budget) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
