package retry

import (
	"context"
	"time"
)

// Observer is told of everything that happens to an operation once it has failed. Its methods are called without a
// lock, on whatever goroutine the event happened on, so they must not block, and several may run at once. The
// Requests are copies of the Observer's own.
type Observer interface {
	// Attempt reports an attempt of an operation that has failed once, when the attempt ends. First-time successes are
	// not reported; the last attempt of a retried operation is when State.Succeeded or State.Settle is called.
	Attempt(AttemptInfo)
	// Retry reports the decision to retry after the delay, before anything follows from it. GaveUp follows it when the
	// operation cannot wait: too many do, or the client is closed.
	Retry(*Request, Reason, time.Duration)
	// GaveUp reports an operation that is not retried for the reason, or ended while it was, with its error.
	GaveUp(*Request, Reason, error)
}

// AttemptInfo is one attempt of an operation, which has ended.
type AttemptInfo struct {
	Context   context.Context // the caller's
	Service   Service
	Operation string
	Endpoint  string
	ID        string
	Number    int    // 1 is the first
	Reason    Reason // Unknown when the attempt succeeded or its failure has none
	Stage     Stage  // that a failed attempt had reached
	Err       error  // nil when it succeeded
	At        time.Time
}
