package dispatch

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
)

// BreakerOptions are a circuit breaker's limits; each must be set.
type BreakerOptions struct {
	Volume        int           // outcomes that a window must have before the breaker may open
	Percentage    int           // of failures among them from which it opens
	RollingWindow time.Duration // after this the counts start anew
	SleepWindow   time.Duration // an open breaker waits this long before it lets a canary try
	CanaryTimeout time.Duration
	Healthy       func(error) bool // what counts as a success; nil: every answer
}

// States of a breaker. While it is half open a canary is under way; no call of a user's is one.
const (
	breakerClosed uint32 = iota
	breakerOpen
	breakerHalfOpen
)

var errBreakerOpen = fmt.Errorf("%w: too many calls to the node have had no answer", cberr.CircuitBreakerOpen)

// breaker keeps calls from a node that leaves them without an answer. It has no goroutine and no timer: time is looked
// at when a call fails or is refused, never when one succeeds. Its methods are atomic; of those that see the end of a
// window one starts the next. A nil breaker lets everything pass.
type breaker struct {
	o               BreakerOptions
	base            time.Time
	state           atomic.Uint32
	total, failures atomic.Int64
	window, opened  atomic.Int64 // when they began, since base
}

func newBreaker(o *BreakerOptions, base time.Time) *breaker {
	if o == nil {
		return nil
	}
	return &breaker{o: *o, base: base}
}

func (b *breaker) now() int64 { return int64(time.Since(b.base)) }

// Success counts an answer.
func (b *breaker) Success() {
	if b != nil {
		b.total.Add(1)
	}
}

// failure counts a call without an answer and says whether that has opened the breaker.
func (b *breaker) failure() bool {
	if b == nil {
		return false
	}
	now := b.now()
	if w := b.window.Load(); now-w > int64(b.o.RollingWindow) && b.window.CompareAndSwap(w, now) {
		b.reset()
	}
	total, failures := b.total.Add(1), b.failures.Add(1)
	if total < int64(b.o.Volume) || failures*100 < total*int64(b.o.Percentage) {
		return false
	}
	if b.state.Load() != breakerClosed { // a call that it had let pass: that is no reason to keep the canary waiting
		return false
	}
	b.opened.Store(now)
	return b.state.CompareAndSwap(breakerClosed, breakerOpen)
}

func (b *breaker) reset() {
	b.total.Store(0)
	b.failures.Store(0)
}

// shut reports whether every call passes.
func (b *breaker) shut() bool { return b == nil || b.state.Load() == breakerClosed }

// allows says whether a call may be sent, and whether its caller is the one to send the canary.
func (b *breaker) allows() (pass, canary bool) {
	if b.shut() {
		return true, false
	}
	if b.now()-b.opened.Load() < int64(b.o.SleepWindow) {
		return false, false
	}
	return false, b.state.CompareAndSwap(breakerOpen, breakerHalfOpen)
}

// name is the state as reports have it, "" for none.
func (b *breaker) name() string {
	if b == nil {
		return ""
	}
	return [...]string{breakerClosed: "closed", breakerOpen: "open", breakerHalfOpen: "half-open"}[b.state.Load()]
}

// judge ends the canary's flight.
func (b *breaker) judge(alive bool) {
	if alive {
		b.window.Store(b.now())
		b.reset()
		b.state.Store(breakerClosed)
		return
	}
	b.opened.Store(b.now())
	b.state.Store(breakerOpen)
}

// counts counts an answer that is no success, or with lost a call without an answer.
func (p *pipeline) counts(lost bool, err error) {
	b := p.node.breaker
	switch {
	case b == nil:
	case b.o.Healthy != nil:
		if e, ok := err.(*call.Error); ok { //nolint:errorlint // the call's own, which goes on changing
			said := *e
			err = &said
		}
		p.r.work.run(func() { // it is user code: never on a reader
			if b.o.Healthy(err) {
				b.Success()
				return
			}
			p.tripped()
		})
	case lost:
		p.tripped()
	default:
		b.Success()
	}
}

// tripped counts a failure.
func (p *pipeline) tripped() {
	if p.node.breaker.failure() {
		p.r.o.Log.Warn(p.r.ctx, observe.MsgBreakerOpened, slog.String(observe.KeyEndpoint, p.node.addr))
	}
}

// broken reports whether the breaker keeps the call from the node; if it is time for that it sends a canary.
func (p *pipeline) broken(c *call.Call) bool {
	// the client's own requests, the canary among them: none of them may take a canary's place
	if c.Req.Retry() == call.Strict {
		return false
	}
	pass, canary := p.node.breaker.allows()
	if pass {
		return false
	}
	if canary {
		p.starts(p.canary) // ends at its timeout, or with the router
	}
	return true
}

// canary asks the node for a sign of life.
func (p *pipeline) canary() {
	limit := p.node.breaker.o.CanaryTimeout
	ctx, cancel := context.WithTimeout(p.r.ctx, limit)
	defer cancel()
	err := p.r.run(ctx, p.node.noop("", limit))
	p.node.breaker.judge(err == nil)
	if err != nil {
		return
	}
	p.r.o.Log.Info(p.r.ctx, observe.MsgBreakerClosed, slog.String(observe.KeyEndpoint, p.node.addr))
	p.r.wake()
}
