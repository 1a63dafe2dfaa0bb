package policy

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Fit says what happens when the next delay would pass a limit of time, or when the last one stays below it.
type Fit uint8

// The fits. Drop and Stretch differ when the sum of the delays is below the limit, Truncate and Overflow when it is
// above.
const (
	Drop Fit = iota // drop the retry that would pass the limit: no further one; a sum below it stays as it is
	// as Drop, but let the last delay end on Hard; only with MaxAttempts is a retry known to be the last
	Stretch
	Truncate // shorten the delay, unless a server named it, so that it ends on the limit, for the last retry
	Overflow // let one delay pass the limit, for the last retry
	Cap      // wait until the limit, then time out
	GiveUp   // as Drop, and also for a delay that would pass the operation's deadline

	fitCount
)

var fits = [fitCount]string{
	Drop: "drop", Stretch: "stretch", Truncate: "truncate", Overflow: "overflow", Cap: "cap", GiveUp: "giveUp",
}

// String is the fit's name in a policy file.
func (f Fit) String() string {
	if f < fitCount {
		return fits[f]
	}
	return fmt.Sprintf("fit(%d)", uint8(f))
}

// Limit ends the retries of an operation after a number of attempts or some time. 0 means no limit. A
// retry that a limit drops fails the operation with retry.ErrExhausted around what the last attempt met. The
// operation's deadline lies above all limits and is kept by the orchestrator. Transparent retries, of requests that no
// server has seen, are outside of all limits but MaxElapsed. It is safe for concurrent use and never blocks unless Base
// does.
type Limit struct {
	Base        retry.Strategy // nil inherits the default strategy
	MaxAttempts int            // the first try included, transparent retries apart
	MaxElapsed  time.Duration  // since the operation began, transparent retries included
	Soft        time.Duration  // once the sum of delays has come to it there is no further retry
	Hard        time.Duration  // of the sum of delays; only Overflow passes it
	Fit         Fit            // for MaxElapsed and Hard; the zero value is Drop
}

// RetryAfter implements retry.Strategy. Base is asked first, so that a throttle below sees every failure.
func (l Limit) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	a := r.Ask(ctx, l.Base, why)
	d, again := a.Delay()
	if !again {
		return a
	}
	transparent := why.Unseen() || r.Unseen
	counts := l.MaxAttempts > 0 && !transparent
	if counts && r.Counted+1 >= l.MaxAttempts || l.Soft > 0 && !transparent && r.Waited-r.WaitedUnseen >= l.Soft {
		return exhausted()
	}
	last := counts && r.Counted+2 >= l.MaxAttempts
	named, ok := r.Pushback.After()
	exact := ok && d == named // the server's delay is neither shortened nor made longer
	room := l.room(r, transparent)
	if room > 0 && d <= room {
		if l.Fit == Stretch && last && l.Hard > 0 && !exact {
			return a.WithDelay(room)
		}
		return a
	}
	switch {
	case l.Fit == Cap:
		return retry.TimeOutAfter(room)
	case l.Fit == Truncate && room > 0 && !exact:
		return a.WithDelay(room)
	case l.Fit == Overflow && room > 0:
		return a
	}
	return exhausted()
}

// room is how much delay the limits of time leave.
func (l Limit) room(r *retry.Request, transparent bool) time.Duration {
	room := time.Duration(math.MaxInt64)
	if l.Hard > 0 && !transparent {
		room = l.Hard - (r.Waited - r.WaitedUnseen)
	}
	if l.MaxElapsed > 0 {
		room = min(room, l.MaxElapsed-time.Since(r.Started))
	}
	if l.Fit == GiveUp && !r.Deadline.IsZero() {
		room = min(room, time.Until(r.Deadline)-1) // a delay that ends with the operation sends nothing
	}
	return room
}

// Wraps implements retry.Wrapper.
func (l Limit) Wraps(self retry.Strategy) (base retry.Strategy, ok bool) {
	return l.Base, retry.Is[Limit](self)
}

// planSteps is how many steps of a backoff Plan looks at to find its longest delay.
const planSteps = 1000

// Plan is an upper bound of the sum of an operation's delays under the limit, when worst is the longest that its
// backoff can be: the same backoff built with random numbers near 1. It is the longest Duration when nothing bounds it.
// It is for operations whose delays are all the backoff's: transparent retries, the controlled ones of reasons that are
// always retried, and delays that a server names add their own and take the backoff to other steps.
func (l Limit) Plan(worst retry.Backoff) time.Duration {
	var sum, longest, d time.Duration
	steps := planSteps
	if l.MaxAttempts > 0 {
		steps = l.MaxAttempts - 1
	}
	for step := range min(steps, planSteps) {
		d = worst(step, d)
		sum, longest = add(sum, d), max(longest, d)
	}
	if steps >= planSteps {
		longest = max(longest, worst(math.MaxInt32, d))
		sum = math.MaxInt64
		if l.MaxAttempts > 0 && longest < math.MaxInt64/time.Duration(steps) {
			sum = longest * time.Duration(steps)
		}
	}
	if l.Fit == Stretch && l.Hard > 0 && l.MaxAttempts > 1 {
		sum = max(sum, l.Hard)
	}
	over := time.Duration(0)
	if l.Fit == Overflow {
		over = longest
	}
	for _, limit := range []time.Duration{l.Hard, l.MaxElapsed} {
		if limit > 0 {
			sum = min(sum, add(limit, over))
		}
	}
	if l.Soft > 0 {
		sum = min(sum, max(add(l.Soft, longest), l.stretched()))
	}
	return sum
}

// stretched is how far Stretch may take the sum past Soft.
func (l Limit) stretched() time.Duration {
	if l.Fit == Stretch {
		return l.Hard
	}
	return 0
}

func add(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// GraphTime is how long Graph may retry an operation. A request that uses Graph needs a timeout of that length: with a
// service's default it ends before, and after 960 s there were ten retries that failed at once.
const GraphTime = 1800 * time.Second

// Graph is the preset of the Microsoft Graph clients: 3 s times the square of the retry's number, at most 180 s, 1800 s
// in all, 10 retries; a Retry-After is obeyed, and one that does not fit fails the operation at once.
func Graph() Limit {
	return Limit{
		Base:        Pushback{Base: retry.BestEffort{Backoff: retry.Polynomial(3*time.Second, 2, 180*time.Second)}},
		MaxAttempts: 11, MaxElapsed: GraphTime, Fit: GiveUp,
	}
}

func exhausted() retry.Action { return refuse(retry.ErrExhausted) }

// refuse stops with a sentinel around the cause.
func refuse(sentinel error) retry.Action {
	return retry.StopWith(func(cause error) error {
		if cause == nil {
			return sentinel
		}
		return fmt.Errorf("%w: %w", sentinel, cause)
	})
}
