package policy

import (
	"context"
	"slices"

	"github.com/couchcore/couchcore/retry"
)

// Pushback does what the server said about the next attempt: it waits exactly the server's delay, after which the
// backoff starts afresh, and does not retry when the server asked for that. Whether the failure is one to retry at all
// is for Base to say.
type Pushback struct {
	Base retry.Strategy // nil inherits the default strategy
}

// RetryAfter implements retry.Strategy.
func (p Pushback) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if r.Pushback.Never() {
		return retry.Stop()
	}
	a := r.Ask(ctx, p.Base, why)
	if d, ok := r.Pushback.After(); ok {
		return a.WithDelay(d)
	}
	return a
}

// Wraps implements retry.Wrapper.
func (p Pushback) Wraps(self retry.Strategy) (base retry.Strategy, ok bool) {
	return p.Base, retry.Is[Pushback](self)
}

// Only lets Base decide about failures with one of the reasons or codes and does not retry any other. It narrows what
// Base would do and never widens it; its zero value retries nothing that a server has seen. What no server has seen is
// in no list: Unseen decides about it. Codes must not change afterwards.
type Only struct {
	Base    retry.Strategy // nil inherits the default strategy
	Reasons retry.Reasons
	Codes   []uint32 // the services' own numbers
	// Unseen decides about transparent retries, whose delays are then no steps of Base's backoff; nil is Base.
	Unseen retry.Strategy
}

// Unreached is the strategy of an operation whose hedges have all failed without a server's having seen them: it tries
// such failures again until the deadline, but for terminal ones, and nothing else.
func Unreached() retry.Strategy { return Only{Base: retry.FastFailOnTerminalError{}} }

// RetryAfter implements retry.Strategy.
func (o Only) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	unseen := why.Unseen() || r.Unseen
	if o.Unseen != nil {
		if unseen {
			return r.Ask(ctx, o.Unseen, why)
		}
		step, steps := r.BackoffStep, r.UnseenSteps
		r.BackoffStep, r.UnseenSteps = step-steps, 0
		defer func() { r.BackoffStep, r.UnseenSteps = step, steps }()
	}
	if unseen || o.Reasons.Has(why) || r.Code != 0 && slices.Contains(o.Codes, r.Code) {
		return r.Ask(ctx, o.Base, why)
	}
	if r.Pushback.Never() {
		r.Ask(ctx, o.Base, why) // a throttle below counts every server that asks not to be tried again
	}
	return retry.Stop()
}

// Wraps implements retry.Wrapper.
func (o Only) Wraps(self retry.Strategy) (base retry.Strategy, ok bool) {
	if o.Unseen != nil && !retry.IsInline(o.Unseen) {
		return o.Unseen, retry.Is[Only](self)
	}
	return o.Base, retry.Is[Only](self)
}
