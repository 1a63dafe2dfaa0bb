package policy

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Bucket makes retries pay a budget that operations share, as in smithy's SDKs. The payment is made when the delay is
// over; a retry that cannot be paid fails the operation with retry.ErrThrottled. First tries and transparent retries
// cost nothing. A nil Store is no budget.
type Bucket struct {
	Base  retry.Strategy // nil inherits the default strategy
	Store retry.Budget
}

// RetryAfter implements retry.Strategy.
func (b Bucket) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	a := r.Ask(ctx, b.Base, why)
	if b.Store == nil {
		return a
	}
	return a.Charged(b.Store)
}

// Wraps implements retry.Wrapper.
func (b Bucket) Wraps(self retry.Strategy) (base retry.Strategy, ok bool) {
	return b.Base, retry.Is[Bucket](self)
}

// Costs are what a retry costs by the kind of failure, in tokens.
type Costs struct {
	Server, Client, Throttling, Timeout int32
	// Own are the costs of kinds of the program's own, from retry.OwnKind on; one that is not listed costs as much as
	// Server. It must not be changed afterwards.
	Own map[retry.Kind]int32
}

// DefaultCosts are those of smithy's kind: throttling is dearest.
func DefaultCosts() Costs { return Costs{Server: 5, Client: 5, Throttling: 10, Timeout: 5} }

func (c *Costs) isZero() bool {
	return c.Server == 0 && c.Client == 0 && c.Throttling == 0 && c.Timeout == 0 && c.Own == nil
}

func (c *Costs) of(k retry.Kind) int32 {
	shipped := [...]int32{
		retry.ServerSide: c.Server, retry.ClientSide: c.Client, retry.Throttling: c.Throttling,
		retry.Timeout: c.Timeout,
	}
	if int(k) < len(shipped) {
		return shipped[k]
	}
	if own, ok := c.Own[k]; ok {
		return own
	}
	return c.Server
}

// Store is a bucket of tokens that fills up with time, whatever operations do, and gets back what an operation paid
// when it succeeds. It is a retry.Budget for operations of the client and a retry.TokenBucket for retry.Do; both may
// share one. It needs no goroutine, and never blocks but for Waiting.
type Store struct {
	costs    Costs
	capacity int64 // thousandths
	perToken time.Duration
	elapsed  func() time.Duration // since it was full

	mu sync.Mutex
	// thousandths at the time of at; what time has given since comes on top. Below 0 it is owed to who waits
	tokens int64
	at     time.Duration // as elapsed is
}

// slowest is the longest time that a token may take to come back.
const slowest = 30 * 24 * time.Hour

// firstTry is what the success of a first try gives back, in thousandths of a token.
const firstTry = 1000

// NewStore makes a full bucket of capacity tokens, at most 2^31-1, that gets one back every perToken; 0 is never, and
// more than 30 days count as 30. Zero costs are DefaultCosts.
func NewStore(capacity int, perToken time.Duration, costs Costs) *Store {
	if costs.isZero() {
		costs = DefaultCosts()
	}
	s := &Store{costs: costs, capacity: 1000 * within(capacity, 0), perToken: min(perToken, slowest)}
	began := time.Now()
	s.elapsed = func() time.Duration { return time.Since(began) }
	s.tokens = s.capacity
	return s
}

// refill adds what time has given until now, which elapsed has said; under the mutex.
func (s *Store) refill(now time.Duration) {
	passed := now - s.at
	if s.perToken <= 0 || passed <= 0 {
		return
	}
	whole := int64(passed / s.perToken)
	if whole > s.capacity+max(-s.tokens, 0) {
		s.tokens, s.at = s.capacity, s.at+passed
		return
	}
	part := int64(passed % s.perToken * 1000 / s.perToken)
	// The time that has given less than a thousandth goes on counting.
	s.at += time.Duration(whole)*s.perToken + time.Duration(part)*s.perToken/1000
	s.tokens = min(s.tokens+1000*whole+part, s.capacity)
}

// change adds delta thousandths unless that would leave less than nothing.
func (s *Store) change(delta int64) bool {
	now := s.elapsed() // may be code of the user's
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill(now)
	if delta < 0 && s.tokens+delta < 0 {
		return false
	}
	s.tokens = min(s.tokens+delta, s.capacity)
	return true
}

// owe takes cost tokens that may not be there yet, and says how long it is until they are. ok is false when that is
// never.
func (s *Store) owe(cost int32) (wait time.Duration, ok bool) {
	now := s.elapsed() // may be code of the user's
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill(now)
	left := s.tokens - 1000*int64(cost)
	if left < 0 && s.perToken <= 0 {
		return 0, false
	}
	s.tokens = left
	if left >= 0 {
		return 0, true
	}
	wait = math.MaxInt64
	if f := float64(-left) / 1000 * float64(s.perToken); f < math.MaxInt64 {
		wait = time.Duration(f)
	}
	return wait, true
}

// Take implements retry.Budget.
func (s *Store) Take(k retry.Kind) (cost int32, ok bool) {
	cost = s.costs.of(k)
	return cost, s.change(-1000 * int64(cost))
}

// Settle implements retry.Budget: what a successful operation has paid comes back.
func (s *Store) Settle(cost int32, succeeded bool) {
	if succeeded {
		s.change(1000 * int64(cost))
	}
}

// Tokens is the number of whole tokens in the bucket, for diagnostics.
func (s *Store) Tokens() int {
	now := s.elapsed() // may be code of the user's
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refill(now)
	return int(max(s.tokens, 0) / 1000)
}

// Acquire implements retry.TokenBucket. A first try costs nothing, and its success gives one token back. A retry that
// the bucket cannot pay for fails at once with retry.ErrThrottled.
func (s *Store) Acquire(context.Context) (retry.Token, error) { return firstToken{s}, nil }

// Waiting is the same bucket for work that would rather wait than fail: a retry that the bucket cannot pay for waits
// until time has filled it. Those who wait are served in the order in which they came. A bucket that does not fill with
// time fails them.
func (s *Store) Waiting() retry.TokenBucket { return waiting{s} }

type waiting struct{ s *Store }

// Acquire implements retry.TokenBucket.
func (w waiting) Acquire(context.Context) (retry.Token, error) { return firstWaiting(w), nil }

// firstToken and firstWaiting are the tokens of first tries: a pointer each, so that an interface holds them without
// memory of its own.
type (
	firstToken   struct{ s *Store }
	firstWaiting struct{ s *Store }
)

func (t firstToken) NotifySuccess() { t.s.change(firstTry) }
func (t firstToken) NotifyFailure() {}
func (t firstToken) ScheduleRetry(ctx context.Context, k retry.Kind) (retry.Token, error) {
	return (&token{s: t.s}).ScheduleRetry(ctx, k)
}

func (t firstWaiting) NotifySuccess() { t.s.change(firstTry) }
func (t firstWaiting) NotifyFailure() {}
func (t firstWaiting) ScheduleRetry(ctx context.Context, k retry.Kind) (retry.Token, error) {
	return (&token{s: t.s, waits: true}).ScheduleRetry(ctx, k)
}

// token is a retry's: it knows what the work has paid so far.
type token struct {
	s     *Store
	paid  int32
	waits bool
}

// NotifySuccess implements retry.Token.
func (t *token) NotifySuccess() { t.s.Settle(t.paid, true) }

// NotifyFailure implements retry.Token.
func (t *token) NotifyFailure() { t.s.Settle(t.paid, false) }

// ScheduleRetry implements retry.Token.
func (t *token) ScheduleRetry(ctx context.Context, k retry.Kind) (retry.Token, error) {
	cost := t.s.costs.of(k)
	next := &token{s: t.s, paid: t.paid + cost, waits: t.waits}
	if !t.waits {
		if !t.s.change(-1000 * int64(cost)) {
			return nil, retry.ErrThrottled
		}
		return next, nil
	}
	wait, ok := t.s.owe(cost)
	if !ok {
		return nil, retry.ErrThrottled
	}
	if wait <= 0 {
		return next, nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return next, nil
	case <-ctx.Done():
		t.s.change(1000 * int64(cost)) // it was owed, and is not used
		return nil, context.Cause(ctx)
	}
}
