package policy

import (
	"context"
	"math"
	"sync/atomic"

	"github.com/couchcore/couchcore/retry"
)

// Tokens are the retry tokens of one node, as in gRPC's A6: they start at the maximum, each failure takes one, each
// success gives a part of one back, and retries stop while at most half of them are left. All methods are atomic, may
// be called from any goroutine and do not block. A nil *Tokens allows everything.
type Tokens struct {
	n          atomic.Int64 // thousandths, 0 to max
	max, ratio int64        // thousandths
}

// NewTokens makes a full set of maxTokens, of which a success gives back ratioMilli thousandths of one. Numbers below 1
// count as 1, and those above 2^31-1 as that.
func NewTokens(maxTokens, ratioMilli int) *Tokens {
	t := &Tokens{max: 1000 * within(maxTokens, 1), ratio: within(ratioMilli, 1)}
	t.n.Store(t.max)
	return t
}

// within keeps n between lo and 2^31-1, so that thousandths of it do not overflow.
func within(n, lo int) int64 { return int64(min(max(n, lo), math.MaxInt32)) }

// Success gives a part of a token back. While the set is full it only reads.
func (t *Tokens) Success() {
	if t == nil {
		return
	}
	for {
		n := t.n.Load()
		if n >= t.max || t.n.CompareAndSwap(n, min(n+t.ratio, t.max)) {
			return
		}
	}
}

// Failure takes a token and says whether retries are still allowed.
func (t *Tokens) Failure() (allowed bool) {
	if t == nil {
		return true
	}
	for {
		n := t.n.Load()
		next := max(n-1000, 0)
		if t.n.CompareAndSwap(n, next) {
			return next > t.max/2
		}
	}
}

// Allowed says whether retries are allowed.
func (t *Tokens) Allowed() bool { return t == nil || t.n.Load() > t.max/2 }

// Throttle refuses retries, at once and with retry.ErrThrottled, while the node that failed has at most half of its
// tokens. Failures that the node is to blame for take one: those with the reason's flag Fault, and those for which the
// server asked not to be tried again. Transparent retries neither take one nor are refused. Successes are told to the
// Tokens by their observer.
type Throttle struct {
	Base retry.Strategy // nil inherits the default strategy
	// Node finds the tokens of the node at the endpoint; nil tokens, or a nil Node, do not throttle. It must not block.
	Node func(endpoint string) *Tokens
}

// RetryAfter implements retry.Strategy.
func (t Throttle) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	var tokens *Tokens
	if t.Node != nil {
		tokens = t.Node(r.Endpoint)
	}
	allowed := true
	switch {
	case r.Pushback.Never() || why.Fault() && !r.Unseen:
		allowed = tokens.Failure()
	case !why.Unseen() && !r.Unseen:
		allowed = tokens.Allowed()
	}
	a := r.Ask(ctx, t.Base, why)
	if _, again := a.Delay(); again && !allowed {
		return refuse(retry.ErrThrottled)
	}
	return a
}

// Wraps implements retry.Wrapper.
func (t Throttle) Wraps(self retry.Strategy) (base retry.Strategy, ok bool) {
	return t.Base, retry.Is[Throttle](self)
}
