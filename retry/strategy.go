package retry

import (
	"context"
	"strconv"
	"time"
)

// Service names a Couchbase service.
type Service string

// The services.
const (
	KV         Service = "kv"
	Query      Service = "query"
	Search     Service = "search"
	Analytics  Service = "analytics"
	Views      Service = "views"
	Management Service = "management"
	Eventing   Service = "eventing"
	Backup     Service = "backup"
	Index      Service = "index"

	// Own is a program's own work, which Do repeats.
	Own Service = "own"
)

// Pushback is what a server said about the next attempt. Its zero value says nothing.
type Pushback struct {
	kind uint8
	d    time.Duration
}

const (
	pushNone uint8 = iota
	pushAfter
	pushNever
)

// ParsePushback reads a server's wish as gRPC's servers write it, in the header grpc-retry-pushback-ms: milliseconds as
// a decimal number of 32 bits without leading zeros. A negative one, and what is no such number, ask not to be tried
// again. A Retry-After is something else: there, what cannot be read says nothing.
func ParsePushback(millis string) Pushback {
	n, err := strconv.ParseInt(millis, 10, 32)
	if err != nil || n < 0 || strconv.FormatInt(n, 10) != millis {
		return PushbackNever()
	}
	return PushbackAfter(time.Duration(n) * time.Millisecond)
}

// PushbackAfter is a server's wish to be tried again after d; negative counts as 0.
func PushbackAfter(d time.Duration) Pushback { return Pushback{pushAfter, max(d, 0)} }

// PushbackNever is a server's wish not to be tried again.
func PushbackNever() Pushback { return Pushback{kind: pushNever} }

// After gives the server's delay; ok is false when it named none.
func (p Pushback) After() (d time.Duration, ok bool) { return p.d, p.kind == pushAfter }

// Never reports whether the server asked not to be tried again.
func (p Pushback) Never() bool { return p.kind == pushNever }

// None reports whether the server said nothing.
func (p Pushback) None() bool { return p.kind == pushNone }

// Request is what a strategy may know of an operation and its latest failure. It is built when something failed and is
// valid during the call that it is passed to. Writing to it changes what the strategy that is asked next sees, and
// nothing else.
//
// A strategy that counts retries by itself, as the RFC's pseudo-code does, uses Retries; one that makes its own backoff
// uses BackoffStep. Both grow at every stage. Counted does not: it leaves out what no server's logic has seen.
type Request struct {
	Context context.Context // the caller's: user data by Value

	Service                   Service
	Operation, Endpoint       string
	ID                        string // the opaque or request id, never a document key
	Bucket, Scope, Collection string
	Idempotent                bool
	Counted                   int // retries made that count against limits; the others are Transparent
	Transparent               int // retries of what no server logic had seen
	// the step for a Backoff: retries since the last pushback, the free re-route not counted
	BackoffStep int
	// the part of BackoffStep that transparent retries made; a policy file's backoff leaves it out
	UnseenSteps int
	Reasons     Reasons  // of earlier failures
	Strategy    Strategy // in force for the operation: its own, or the default
	// what a strategy without a Base inherits, see Ask; nil is FastFailOnTerminalError{}
	Default Strategy
	Kind    Kind // of this failure
	// Unseen is true when no server's logic has seen the attempt that failed now, as far as that is known: for every
	// reason that is Unseen, and for the first connection that was lost before anything came back. Its retry is
	// transparent.
	Unseen            bool
	Started, Deadline time.Time     // of the operation
	LastDelay         time.Duration // before the attempt that failed now
	Waited            time.Duration // all delays together
	WaitedUnseen      time.Duration // the part of Waited that came before transparent retries; limits leave it out
	Pushback          Pushback      // what the server said
	Code              uint32        // the service's own number, opaque here; 0: no number
	Err               error         // what the attempt met
	JitterSource      JitterSource  // the cluster's own source, so that a seed replays exactly; may be nil
}

// Retries is the number of retries made so far, of all kinds: the RFC's retryAttempts.
func (r *Request) Retries() int { return r.Counted + r.Transparent }

// Ask asks s, or what the operation would have without a strategy of its own when s is nil. It is for a strategy around
// another one: with a nil Base it then narrows the cluster's default instead of replacing it. A default that asks the
// default in turn meets FastFailOnTerminalError{}.
func (r *Request) Ask(ctx context.Context, s Strategy, why Reason) Action {
	if s != nil {
		return s.RetryAfter(ctx, r, why)
	}
	inherited := r.Default
	if inherited == nil {
		inherited = FastFailOnTerminalError{}
	}
	r.Default = nil
	a := inherited.RetryAfter(ctx, r, why)
	r.Default = inherited
	return a
}

// Action is a strategy's answer. The zero Action means: do not retry.
type Action struct {
	kind      actionKind
	delay     time.Duration
	translate func(error) error
	budget    Budget
	ignore    bool // what the server said about the next attempt
}

type actionKind uint8

const (
	stop actionKind = iota
	stopTerminal
	again
	waits
)

// After retries after d; 0 is at once, and negative counts as 0.
func After(d time.Duration) Action { return Action{kind: again, delay: max(d, 0)} }

// Stop fails the operation with what its last attempt met.
func Stop() Action { return Action{} }

// StopWith fails the operation with what f makes of the last attempt's error. f must not block; an f that panics or
// returns nil changes nothing about the failure.
func StopWith(f func(error) error) Action { return Action{translate: f} }

// StopTerminal fails the operation with the reason's own error: ErrTerminal and the Reason.
func StopTerminal() Action { return Action{kind: stopTerminal} }

// TimeOutAfter waits d and then fails the operation with ErrTimeout; nothing is sent. It is how a limit that lies
// before the deadline ends an operation as the deadline would.
func TimeOutAfter(d time.Duration) Action { return Action{kind: waits, delay: max(d, 0)} }

// Charged is a with a budget that is asked when the delay is over; when it refuses, the operation fails with
// ErrThrottled. It changes nothing about an Action that stops.
func (a Action) Charged(b Budget) Action {
	a.budget = b
	return a
}

// IgnorePushback is a that does not heed what the server said about the next attempt. Without it a retry waits at least
// as long as the server asked, and there is no next one when the server asked not to be tried again.
func (a Action) IgnorePushback() Action {
	a.ignore = true
	return a
}

// WithDelay is a with another delay. It changes nothing about an Action that stops.
func (a Action) WithDelay(d time.Duration) Action {
	if a.kind == again {
		a.delay = max(d, 0)
	}
	return a
}

// Delay gives the delay before the retry; ok is false when there is to be none.
func (a Action) Delay() (d time.Duration, ok bool) { return a.delay, a.kind == again }

// TimesOut gives the delay of TimeOutAfter; ok is false for every other Action.
func (a Action) TimesOut() (d time.Duration, ok bool) { return a.delay, a.kind == waits }

// Wait is how long an operation waits with a: the strategy's delay, or what the server asked for if that is longer, and
// no less than what keeps anything but the caller from driving a loop of the client's. made is the number of retries
// made so far, of all kinds.
func (a Action) Wait(made int, p Pushback, why Reason) time.Duration {
	if a.kind != again || why.AlwaysRetry() {
		return a.delay
	}
	delay := a.delay
	push, named := p.After()
	if named && !a.ignore {
		delay = max(delay, push)
	}
	return max(delay, floor(made, named, delay))
}

// Terminal reports whether a is StopTerminal's.
func (a Action) Terminal() bool { return a.kind == stopTerminal }

// Strategy chooses whether and when a failed operation is tried again, among what is safe: it cannot make the client
// send an operation again that a server may have executed, and it cannot outlive the deadline. It is called from many
// goroutines. A strategy that IsInline is true of runs where the failure was seen and must not block; any other runs on
// a goroutine of its own, where it may be slow and do I/O, with a context that ends when the operation ends. A panic
// fails the operation and nothing else. Reasons with AlwaysRetry never reach it.
type Strategy interface {
	RetryAfter(ctx context.Context, r *Request, why Reason) Action
}

// Func is a function that is a Strategy. It runs on a goroutine of its own and may block.
type Func func(context.Context, *Request, Reason) Action

// RetryAfter calls f.
func (f Func) RetryAfter(ctx context.Context, r *Request, why Reason) Action { return f(ctx, r, why) }

// BestEffort retries whatever is safe to retry until the deadline: an operation that is idempotent or whose reason
// allows it, and never for Unknown. It waits as long as the server asked, if it did, else as its Backoff says; a nil
// one is DefaultBackoff. It never blocks, and its Backoff must not.
type BestEffort struct{ Backoff Backoff }

// RetryAfter implements Strategy.
func (b BestEffort) RetryAfter(_ context.Context, r *Request, why Reason) Action {
	if why == Unknown || !r.Idempotent && !why.AllowsNonIdempotent() {
		return Stop()
	}
	if d, ok := r.Pushback.After(); ok {
		return After(d)
	}
	if b.Backoff == nil {
		return After(defaultDelay(r.BackoffStep, r.JitterSource))
	}
	return After(b.Backoff(r.BackoffStep, r.LastDelay))
}

// FastFailOnTerminalError gives up at once when the cause is one that an immediate retry is unlikely to cure: wrong
// credentials, a failed TLS handshake, no access to the bucket, a scope or a collection that does not exist. For every
// other reason it does exactly what Base does. A nil Base is BestEffort{}.
//
// It is volatile: which reasons end an operation may change in any release, as the server grows new ones. A program
// that depends on the present behaviour should copy this type.
type FastFailOnTerminalError struct{ Base Strategy }

// RetryAfter implements Strategy.
func (f FastFailOnTerminalError) RetryAfter(ctx context.Context, r *Request, why Reason) Action {
	if why.Terminal() {
		return StopTerminal()
	}
	if f.Base == nil {
		return BestEffort{}.RetryAfter(ctx, r, why)
	}
	return f.Base.RetryAfter(ctx, r, why)
}

// Wraps implements Wrapper.
func (f FastFailOnTerminalError) Wraps(self Strategy) (base Strategy, ok bool) {
	if f.Base == nil {
		f.Base = BestEffort{}
	}
	return f.Base, Is[FastFailOnTerminalError](self)
}

// Budget limits retries across operations. It is charged when a delay is over, before the operation is sent again, and
// settled once when the operation ends. Both methods must not block and are called from many goroutines.
type Budget interface {
	// Take pays for one retry, or refuses it.
	Take(Kind) (cost int32, ok bool)
	// Settle ends what one operation has paid in all. An operation that has ended with a definite answer, such as that
	// there is no document, has succeeded here: the server has done its work.
	Settle(cost int32, succeeded bool)
}
