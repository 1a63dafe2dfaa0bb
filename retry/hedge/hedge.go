package hedge

import (
	"context"
	"errors"
	"runtime/debug"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Policy says how an operation is hedged. Its zero value refuses.
type Policy struct {
	MaxAttempts int              // the first send included; below 2 there are no hedges
	Delay       time.Duration    // between sends; 0 sends all at once
	NonFatal    func(error) bool // failures after which others may still succeed; nil means that every failure is fatal
	Idempotent  bool             // what is not is refused, since hedging sends it more than once
	Throttle    Throttle         // nil: no throttle
}

// Throttle keeps hedges from servers in trouble. First sends are never asked about. Its methods must not block.
type Throttle interface {
	// Allowed says whether another hedge may be sent, given the endpoints that the operation has been to.
	Allowed(used []string) bool
	// Failure counts a non-fatal failure, or one with which the server asked not to be tried again.
	Failure(endpoint string)
}

// Stats says what became of the attempts of one operation.
type Stats struct {
	Sent      int // attempts, the first included
	Failed    int // hedges, the first attempt apart, that failed while a caller waited for them
	Throttled int // hedges that were not sent because of the Throttle
	Winner    int // the number of the attempt whose outcome was returned, 0 being the first; -1 when there was none
}

// ErrNotIdempotent is Do's answer for a Policy that does not say that the operation is idempotent.
var ErrNotIdempotent = errors.New("an operation that is not idempotent cannot be hedged")

var errGone = errors.New("a hedged attempt ended its goroutine")

// NonFatal is the rule of operations whose attempts go to different nodes: what no server has seen is never the end,
// nor is what Lagging marks; of other failures own says it, and when own is nil those are non-fatal that have a retry
// reason.
func NonFatal(own func(error) bool) func(error) bool {
	return func(err error) bool {
		var l *lagging
		if retry.Transparent(err) || errors.As(err, &l) {
			return true
		}
		if own != nil {
			return own(err)
		}
		why, _ := retry.FailedFor(err)
		return why != retry.Unknown
	}
}

// Lagging marks the failure of a copy that may be behind the others, so that it says little about them.
func Lagging(err error) error { return &lagging{err} }

type lagging struct{ error }

func (e *lagging) Unwrap() error { return e.error }

// Sequel is what the failure of an attempt brings.
type Sequel struct {
	Ends bool // the operation ends with the failure
	Last bool // there is no further hedge, though one that is out may still succeed
	// Wait is the time until the next hedge, if a server has Named one; otherwise that is sent at once, and the others
	// after Delay.
	Wait  time.Duration
	Named bool
}

// After says what follows when an attempt to the endpoint has failed and so many have been sent. It tells the Throttle,
// which may still refuse the next hedge.
func (p *Policy) After(err error, endpoint string, sent int) (s Sequel) {
	var push retry.Pushback
	var carrier interface{ Pushback() retry.Pushback }
	if errors.As(err, &carrier) {
		push = carrier.Pushback()
	}
	s.Ends = p.NonFatal == nil || !p.NonFatal(err)
	if p.Throttle != nil && (!s.Ends || push.Never()) {
		p.Throttle.Failure(endpoint)
	}
	s.Last = push.Never() || sent >= p.MaxAttempts
	s.Wait, s.Named = push.After()
	return s
}

// Do runs try for the first attempt, number 0, and again for each hedge, until one succeeds or fails for good, and
// returns that outcome. A non-fatal failure sends the next hedge at once, after which the delay starts anew; a pushback
// that the error carries (a method Pushback() retry.Pushback) sets the time of the next one instead, or ends hedging.
// When nothing is out and nothing pending, the last failure is returned. When ctx ends, its cause is.
//
// Each attempt runs on a goroutine of its own, with a context that ends as soon as its outcome can no longer matter. Do
// does not wait for attempts that ignore that; what they bring is dropped.
func Do[R any](
	ctx context.Context, p Policy, try func(ctx context.Context, n int, used *Avoid) (R, error),
) (R, Stats, error) {
	var none R
	if !p.Idempotent {
		return none, Stats{Winner: -1}, ErrNotIdempotent
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r := &race[R]{p: p, ctx: ctx, try: try, shared: &used{}, results: make(chan outcome[R], max(p.MaxAttempts, 1))}
	return r.run()
}

type outcome[R any] struct {
	n     int
	avoid *Avoid
	r     R
	err   error
}

// race is one call of Do.
type race[R any] struct {
	p       Policy
	ctx     context.Context
	try     func(context.Context, int, *Avoid) (R, error)
	shared  *used
	results chan outcome[R] // has room for every attempt, so that none ever waits to be heard
	timer   *time.Timer
	stats   Stats
	next    int // the number of the next attempt
	out     int // attempts that have not ended
}

func (r *race[R]) run() (res R, stats Stats, err error) {
	defer func() {
		if v := recover(); v != nil { // one of the policy's functions: it ends the operation and nothing else
			res, stats, err = r.ended(outcome[R]{n: -1, err: &retry.PanicError{
				In: "a hedged attempt", Value: v, Stack: debug.Stack(),
			}})
		}
	}()
	r.timer = time.NewTimer(r.p.Delay)
	defer r.timer.Stop()
	r.send()
	for r.p.Delay <= 0 && r.pending() {
		r.hedge()
	}
	last := outcome[R]{n: -1}
	for r.out > 0 || r.pending() {
		var due <-chan time.Time
		if r.pending() {
			due = r.timer.C
		}
		o, what := r.await(due)
		switch {
		case what == answered && o.err == nil:
			return r.ended(o)
		case Over(r.ctx) != nil: // a failure that comes now is the end's doing
			return r.ended(outcome[R]{n: -1, err: Over(r.ctx)})
		case what == delayOver:
			r.hedge()
			r.timer.Reset(r.p.Delay)
		default:
			r.out--
			if o.n > 0 {
				r.stats.Failed++
			}
			if !r.again(o) {
				return r.ended(o)
			}
			last = o
		}
	}
	return r.ended(last)
}

// Over is why a context has ended, nil when it has not. At its deadline it has, even if its timer has not run yet: what
// ends at the same moment must not be taken for a failure that a further attempt could mend.
func Over(ctx context.Context) error {
	cause := context.Cause(ctx)
	if at, limited := ctx.Deadline(); cause == nil && limited && !time.Now().Before(at) {
		cause = context.DeadlineExceeded
	}
	return cause
}

// event is what a race waits for.
type event uint8

const (
	answered event = iota
	ctxEnded
	delayOver
)

// await gives the next event. An answer that is there already goes before everything else: no hedge is sent beside it,
// and no end that came at the same time hides it.
func (r *race[R]) await(due <-chan time.Time) (outcome[R], event) {
	select {
	case o := <-r.results:
		return o, answered
	default:
	}
	select {
	case o := <-r.results:
		return o, answered
	case <-r.ctx.Done():
		return outcome[R]{}, ctxEnded
	case <-due:
		return outcome[R]{}, delayOver
	}
}

func (r *race[R]) ended(o outcome[R]) (R, Stats, error) {
	r.stats.Winner = o.n
	return o.r, r.stats, o.err
}

// pending says whether hedges may still be sent.
func (r *race[R]) pending() bool { return r.next < r.p.MaxAttempts }

// again handles a failure and says whether the operation goes on.
func (r *race[R]) again(o outcome[R]) bool {
	s := r.p.After(o.err, o.avoid.endpoint(), r.next)
	switch {
	case s.Ends:
		return false
	case s.Last:
		r.next = r.p.MaxAttempts
	case s.Named:
		r.timer.Reset(s.Wait)
	default:
		r.hedge()
		r.timer.Reset(r.p.Delay)
	}
	return true
}

// hedge sends the next hedge unless the throttle forbids it; then it is dropped.
func (r *race[R]) hedge() {
	if r.p.Throttle != nil && !r.p.Throttle.Allowed((&Avoid{shared: r.shared}).Endpoints()) {
		r.next++
		r.stats.Throttled++
		if r.out == 0 { // throttling never waits
			r.next = r.p.MaxAttempts
		}
		return
	}
	r.send()
}

func (r *race[R]) send() {
	n, avoid := r.next, &Avoid{shared: r.shared}
	r.next++
	r.out++
	r.stats.Sent++
	go func() {
		o := outcome[R]{n: n, avoid: avoid, err: errGone} // what stays when the attempt ends its goroutine
		defer func() {
			if v := recover(); v != nil {
				o.err = &retry.PanicError{In: "a hedged attempt", Value: v, Stack: debug.Stack()}
			}
			r.results <- o
		}()
		o.r, o.err = r.try(r.ctx, n, avoid)
	}()
}
