package kv

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// Hedge asks for a read from several copies: first the active one, then, each time Delay has passed without an answer,
// one more replica. The first success wins and the other reads are cancelled. What a replica says may be older than
// what the active copy would have said; the result tells by FromReplica. Each read is sent once: what would be retried
// is what the other copies are for.
type Hedge struct {
	MaxAttempts int           // reads at most, that of the active copy included; below 2 there is only that one
	Delay       time.Duration // from one read to the next; 0 sends all at once
	// NonFatal says after which failures the other copies are still of use. Nil means every failure that has a retry
	// reason. Three are never the end, whatever it says: that a replica has no such document, since it may lag; that a
	// copy's node cannot be reached; and that its connection is lost before anything comes back.
	NonFatal func(error) bool
}

// hedged is one read on its way to several copies.
type hedged[R any, O Op[R]] struct {
	on   call.Runner
	op   O
	h    *call.Hedge
	plan call.HedgePlan
	req  call.Request // what every attempt sends, but for the copy

	mu     sync.Mutex
	active error // how the active copy's read has failed
}

// tryHedged runs the call as several reads if it is to be hedged and can be; false means that it is to be sent as it
// is. The call itself is not used then: it only says what to send.
func tryHedged[R any, O Op[R]](ctx context.Context, run call.Runner, c *call.Call, op O) (r R, err error, done bool) {
	h := c.Hedging()
	if h == nil {
		return r, nil, false
	}
	p, ok := run.(call.Hedger)
	if !ok || c.Req.Validate(call.SpecOf(memd.OpGet)) != nil {
		return r, nil, false
	}
	plan := p.HedgePlan(c.Req.Key)
	if len(plan.Copies) < 2 {
		return r, nil, false
	}
	x := &hedged[R, O]{on: run, op: op, h: h, plan: plan}
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
	r, err = x.run(ctx)
	return r, err, true
}

func (x *hedged[R, O]) run(ctx context.Context) (R, error) {
	began := time.Now()
	inner, cancel := context.WithTimeout(ctx, x.req.Timeout)
	defer cancel()
	r, stats, err := hedge.Do(inner, hedge.Policy{
		MaxAttempts: min(x.h.MaxAttempts, len(x.plan.Copies)), Delay: x.h.Delay, NonFatal: x.nonFatal, Idempotent: true,
		Throttle: x.plan.Throttle,
	}, x.try)
	if x.plan.Done != nil {
		x.plan.Done(stats)
	}
	if err == nil {
		return r, nil
	}
	x.mu.Lock()
	if x.active != nil {
		err = x.active // of all failures the one that says most about the document
	}
	x.mu.Unlock()
	if retry.Transparent(err) && inner.Err() == nil {
		return x.wait(inner)
	}
	var e *Error
	if !errors.As(err, &e) { // the context's own cause, or an attempt that panicked
		c := call.NewCall()
		c.Req.CopyFrom(&x.req)
		c.Bind(&call.Home{Base: began})
		if inner.Err() != nil {
			err = call.ContextEnded(err, errors.Is(inner.Err(), context.DeadlineExceeded))
		}
		return r, c.Translate(err, false)
	}
	return r, err
}

// wait sends the read to the active copy, which no read has reached yet, as soon as there is a way to it.
func (x *hedged[R, O]) wait(ctx context.Context) (r R, err error) {
	c := x.on.NewCall()
	c.Block()
	c.Req.CopyFrom(&x.req)
	c.Req.Own().Retry = x.plan.Wait
	return r, finish(ctx, x.on, c, &x.op, &r)
}

// try reads from one copy.
func (x *hedged[R, O]) try(ctx context.Context, n int, avoid *hedge.Avoid) (R, error) {
	avoid.Use(x.plan.Copies[n])
	c := x.on.NewCall()
	c.Block()
	c.Req.CopyFrom(&x.req)
	if n > 0 {
		c.Req.Opcode, c.Req.Own().Replica = memd.OpGetReplica, n
	}
	var r R
	err := finish(ctx, x.on, c, &x.op, &r)
	switch {
	case err == nil:
	case n > 0 && errors.Is(err, cberr.DocumentNotFound):
		err = &lagging{err}
	case n == 0 && (retry.Transparent(err) ||
		!errors.Is(err, cberr.RequestCanceled)): // which it is when another read has ended the call
		x.mu.Lock()
		x.active = err
		x.mu.Unlock()
	}
	return r, err
}

// lagging is a replica that has no such document, which says little.
type lagging struct{ error }

func (e *lagging) Unwrap() error { return e.error }

func (x *hedged[R, O]) nonFatal(err error) bool {
	var l *lagging
	return errors.As(err, &l) || hedge.NonFatal(x.h.NonFatal)(err)
}

// hedgedAsync runs a call that is to be hedged without waiting. Its goroutine ends with the call: at its deadline at
// the latest.
func hedgedAsync[R any, O Op[R]](ctx context.Context, run call.Runner, c *call.Call, op O, done func(R, error)) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.Bind(&call.Home{Owner: &hedgedOwner{cancel}})
	go func() {
		defer cancel(nil)
		r, err, hedged := tryHedged[R](ctx, run, c, op)
		if !hedged {
			single := run.NewCall()
			single.Block()
			single.Req.CopyFrom(&c.Req)
			err = finish(ctx, run, single, &op, &r)
		}
		c.State.Finish()
		done(r, err)
	}()
}

// hedgedOwner cancels a hedged read that was started and not waited for.
type hedgedOwner struct{ cancel context.CancelCauseFunc }

// Redispatch implements Owner. There is nothing to send: the reads are calls of their own.
func (o *hedgedOwner) Redispatch(*call.Call) {}

// Complete implements Owner.
func (o *hedgedOwner) Complete(f func()) { f() }

// Cancel implements Owner.
func (o *hedgedOwner) Cancel(c *call.Call, cause error) bool {
	if c.Ended() {
		return false
	}
	o.cancel(cause)
	return true
}
