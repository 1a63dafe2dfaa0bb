package call

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// Hedge says how a read is sent to several copies, as package kv describes it: a kv.Hedge converts to it.
type Hedge struct {
	MaxAttempts int
	Delay       time.Duration
	NonFatal    func(error) bool
}

// HedgePlan is what a dispatcher knows about the hedges of one call.
type HedgePlan struct {
	Copies   []string       // the addresses of the document's copies, the active one first
	Timeout  time.Duration  // of a call that names none
	Once     retry.Strategy // never tries again
	Wait     retry.Strategy // tries again what no server has seen, and nothing else
	Throttle hedge.Throttle // nil: no throttle
	Done     func(hedge.Stats)
	// Observe begins the one operation that the reads made with the context that it gives are attempts of; end is told
	// the outcome. Nil does nothing.
	Observe func(ctx context.Context, scope, collection string) (of context.Context, end func(error))
}

// Hedger is a Runner that can spread a read over a document's copies. Without it, and where a plan has fewer than two
// copies, a hedged read is sent like any other.
type Hedger interface {
	HedgePlan(key []byte) HedgePlan
	// PolicyRule is what a policy has for calls of the opcode, nil for nothing.
	PolicyRule(op memd.Opcode) *retry.Rule[Hedge]
}

// HasPolicy says that the call's runner is a Hedger that may have hedges for it. The runner's NewCall calls it.
func (c *Call) HasPolicy() { c.has |= hasPolicy }

// MayHedge is a quick answer to whether the call is hedged: false is final, after true Hedging is to be asked.
func (c *Call) MayHedge() bool {
	return (c.Req.Hedge() != nil || c.has&hasPolicy != 0) && c.has&hasRefused == 0
}

// Hedgeable reports whether the request may be sent to several copies. One that takes a missing document for an answer
// may not: a replica that lags would say that there is nothing.
func (r *Request) Hedgeable() bool { return r.Opcode == memd.OpGet && !r.AbsentOK }

// Hedging is how the call is hedged, nil for not at all: as it says itself, or as the policy says unless it names a
// strategy of its own.
func (c *Call) Hedging(run Runner) *Hedge {
	if !c.Req.Hedgeable() || !c.MayHedge() {
		return nil
	}
	h := c.Req.Hedge()
	if c.has&hasPolicy != 0 {
		if p := run.(Hedger).PolicyRule(c.Req.Opcode); p != nil {
			h = p.HedgeOf(c.Req.Retry(), h)
		}
	}
	if h == nil || h.MaxAttempts < 2 {
		return nil
	}
	return h
}

// hedged is one read on its way to several copies.
type hedged struct {
	on   Runner
	h    *Hedge
	plan HedgePlan
	req  Request // what every attempt sends, but for the copy

	ended  chan struct{} // closed when the active copy's read has ended
	mu     sync.Mutex
	active error // how it has failed
}

// Hedge runs the call as several reads, if it is to be hedged and can be. c itself is not sent: the reads are calls of
// their own, made of its request. The read that has won is given to use, which takes its answer. done is false when c
// is to be sent as it is.
func (c *Call) Hedge(ctx context.Context, run Runner, use func(won *Call) error) (done bool, err error) {
	h := c.Hedging(run)
	if h == nil {
		return false, nil
	}
	p, ok := run.(Hedger)
	if !ok || c.Req.Validate(SpecOf(memd.OpGet)) != nil {
		return false, nil
	}
	plan := p.HedgePlan(c.Req.Key)
	if len(plan.Copies) < 2 {
		return false, nil
	}
	x := &hedged{on: insideOf(run), h: h, plan: plan, ended: make(chan struct{})}
	x.req.CopyFrom(&c.Req)
	// A read that has lost may still be encoding when the caller has its answer and its key back.
	x.req.Key = bytes.Clone(c.Req.Key)
	x.req.Into = nil
	x.req.Own().Retry, x.req.Own().Hedge = plan.Once, nil
	if x.req.Timeout == 0 {
		x.req.Timeout = plan.Timeout
	}
	if plan.Observe != nil {
		of, end := plan.Observe(ctx, x.req.Scope(), x.req.Collection())
		defer func() { end(err) }()
		ctx = of
	}
	won, err := x.run(ctx)
	if err == nil {
		err = use(won)
		x.on.Release(won)
	}
	return true, err
}

func (x *hedged) run(ctx context.Context) (*Call, error) {
	began := time.Now()
	inner, cancel := context.WithTimeout(ctx, x.req.Timeout)
	defer cancel()
	won, stats, err := hedge.Do(inner, hedge.Policy{
		MaxAttempts: min(x.h.MaxAttempts, len(x.plan.Copies)), Delay: x.h.Delay, Idempotent: true,
		NonFatal: hedge.NonFatal(x.h.NonFatal), Throttle: x.plan.Throttle,
	}, x.try)
	if x.plan.Done != nil {
		x.plan.Done(stats)
	}
	if err == nil {
		return won, nil
	}
	over := hedge.Over(inner)
	if over != nil {
		x.awaitActive()
	}
	x.mu.Lock()
	if x.active != nil {
		err = x.active // of all failures the one that says most about the document
	}
	x.mu.Unlock()
	if retry.Transparent(err) && over == nil { // no read has reached the active copy: wait for a way to it
		return x.read(inner, 0, x.plan.Wait)
	}
	var e *Error
	if !errors.As(err, &e) { // the context's own cause, or an attempt that panicked
		c := NewCall()
		c.Req.CopyFrom(&x.req)
		c.Bind(&Home{Base: began})
		if over != nil {
			err = ContextEnded(err, !errors.Is(inner.Err(), context.Canceled))
		}
		return nil, c.Translate(err, false)
	}
	return nil, err
}

// activePatience is how long the end of the active copy's read is waited for.
const activePatience = 5 * time.Millisecond

// awaitActive waits until the active copy's read has ended, which says what it has met. It ends with the context of all
// reads, unless a function of the program's holds it up.
func (x *hedged) awaitActive() {
	t := time.NewTimer(activePatience)
	defer t.Stop()
	select {
	case <-x.ended:
	case <-t.C:
	}
}

// read reads from one copy, 0 being the active one.
func (x *hedged) read(ctx context.Context, n int, s retry.Strategy) (*Call, error) {
	c := x.on.NewCall()
	c.Req.CopyFrom(&x.req)
	c.Req.Own().Retry = s
	if n > 0 {
		c.Req.Opcode, c.Req.Own().Replica = memd.OpGetReplica, n
	}
	if err := c.Run(ctx, x.on); err != nil {
		x.on.Release(c)
		return nil, err
	}
	return c, nil
}

// try is one attempt.
func (x *hedged) try(ctx context.Context, n int, avoid *hedge.Avoid) (*Call, error) {
	if n == 0 {
		defer close(x.ended)
	}
	avoid.Use(x.plan.Copies[n])
	c, err := x.read(ctx, n, x.plan.Once)
	switch {
	case err == nil:
	case n > 0:
		err = OfReplica(err)
	case (retry.Transparent(err) ||
		!errors.Is(err, cberr.RequestCanceled)): // which it is when another read has ended the call
		x.mu.Lock()
		x.active = err
		x.mu.Unlock()
	}
	return c, err
}

// OfReplica is what a replica's failure says of a hedged read: that one has no such document says little.
func OfReplica(err error) error {
	if errors.Is(err, cberr.DocumentNotFound) {
		return hedge.Lagging(err)
	}
	return err
}

// HedgeAsync runs a call that is to be hedged without waiting, and tells done the outcome. Its goroutine ends with the
// call: at its deadline at the latest.
func (c *Call) HedgeAsync(ctx context.Context, run Runner, use func(won *Call) error, done func(error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.Bind(&Home{Owner: &hedgedOwner{cancel}})
	go func() {
		defer cancel(nil)
		hedged, err := c.Hedge(ctx, run, use)
		if !hedged {
			on := insideOf(run)
			single := on.NewCall()
			single.Req.CopyFrom(&c.Req)
			err = single.runTo(ctx, on, use)
			on.Release(single)
		}
		c.State.Finish()
		done(err)
	}()
}

// hedgedOwner cancels a hedged read that was started and not waited for.
type hedgedOwner struct{ cancel context.CancelCauseFunc }

// Redispatch implements Owner. There is nothing to send: the reads are calls of their own.
func (o *hedgedOwner) Redispatch(*Call) {}

// Complete implements Owner.
func (o *hedgedOwner) Complete(f func()) { f() }

// Cancel implements Owner.
func (o *hedgedOwner) Cancel(c *Call, cause error) bool {
	if c.Ended() {
		return false
	}
	o.cancel(cause)
	return true
}
