package policy

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Bucket makes retries pay a budget that operations share, as in smithy's SDKs. The payment is made when the delay is
// over; a retry that cannot be paid fails the operation with retry.ErrThrottled. First tries and transparent retries cost
// nothing. A nil Store is no budget.
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
type Costs struct{ Server, Client, Throttling, Timeout int32 }

// DefaultCosts are those of smithy's kind: throttling is dearest.
func DefaultCosts() Costs { return Costs{Server: 5, Client: 5, Throttling: 10, Timeout: 5} }

func (c Costs) of(k retry.Kind) int32 {
	switch k {
	case retry.ClientSide:
		return c.Client
	case retry.Throttling:
		return c.Throttling
	case retry.Timeout:
		return c.Timeout
	case retry.ServerSide:
	}
	return c.Server
}

// Store is a retry.Budget: a bucket of tokens that fills up with time, whatever operations do, and gets back what an
// operation paid when it succeeds. It needs no goroutine and never blocks.
type Store struct {
	costs    Costs
	capacity int64 // thousandths
	perToken time.Duration
	began    time.Time
	state    atomic.Pointer[level]
}

// level is what was in the bucket at an instant; what time has given since comes on top.
type level struct {
	tokens int64 // thousandths
	at     time.Duration
}

// slowest is the longest time that a token may take to come back.
const slowest = 30 * 24 * time.Hour

// NewStore makes a full bucket of capacity tokens, at most 2^31-1, that gets one back every perToken; 0 is never, and more than 30
// days count as 30. Zero costs are DefaultCosts.
func NewStore(capacity int, perToken time.Duration, costs Costs) *Store {
	if costs == (Costs{}) {
		costs = DefaultCosts()
	}
	s := &Store{costs: costs, capacity: 1000 * within(capacity, 0), perToken: min(perToken, slowest), began: time.Now()}
	s.state.Store(&level{tokens: s.capacity})
	return s
}

// now is the bucket's level at the present time.
func (s *Store) now(l *level) level {
	passed := time.Since(s.began) - l.at
	if s.perToken <= 0 || passed <= 0 {
		return *l
	}
	whole := int64(passed / s.perToken)
	if whole > s.capacity {
		return level{s.capacity, l.at + passed}
	}
	part := int64(passed % s.perToken * 1000 / s.perToken)
	// The time that has given less than a thousandth goes on counting.
	used := time.Duration(whole)*s.perToken + time.Duration(part)*s.perToken/1000
	return level{min(l.tokens+1000*whole+part, s.capacity), l.at + used}
}

// change adds delta thousandths unless that would leave less than nothing.
func (s *Store) change(delta int64) bool {
	for {
		old := s.state.Load()
		l := s.now(old)
		if l.tokens += delta; l.tokens < 0 {
			return false
		}
		l.tokens = min(l.tokens, s.capacity)
		if s.state.CompareAndSwap(old, &l) {
			return true
		}
	}
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
	l := s.now(s.state.Load())
	return int(l.tokens / 1000)
}
