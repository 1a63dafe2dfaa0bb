package retry

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"
)

// How the orchestrator ends operations. Every ending is an *Error that matches one of these with errors.Is, or none
// when a strategy said stop or a retry was not safe.
var (
	// ErrTimeout is the end at the deadline. It matches context.DeadlineExceeded too.
	ErrTimeout error = timeoutError{}
	// ErrCanceled is the end that the caller asked for.
	ErrCanceled = errors.New("operation canceled")
	// ErrTerminal is the end for a terminal reason; the Error has the Reason.
	ErrTerminal = errors.New("retrying is unlikely to help")
	// ErrExhausted is the end at a strategy's limit of attempts or time.
	ErrExhausted = errors.New("retry limit reached")
	// ErrThrottled is the end because a budget refused the retry.
	ErrThrottled = errors.New("retry throttled")
	// ErrTooManyInRetry is the end because too many operations, or too many bytes of them, wait for their retry.
	ErrTooManyInRetry = errors.New("too many operations wait for a retry")
	// ErrClosed is the end because the client was closed.
	ErrClosed = errors.New("client closed")
)

type timeoutError struct{}

func (timeoutError) Error() string        { return "operation timed out" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// Error is how the orchestrator ends an operation that failed. It unwraps to the sentinel that says what ended it, to
// the canceler's or closer's own error, and to Cause.
type Error struct {
	Info
	Service   Service
	Operation string
	Endpoint  string // of the last attempt, "" when there was none
	ID        string
	InDoubt   bool   // the server may have executed it
	Code      uint32 // the service's own number of the last failure, 0 when it had none
	Cause     error  // what the last attempt said; nil when no attempt had failed

	kind  error // a sentinel, or nil
	ended error // what Cancel or Close was given, or the panic of a strategy
}

// Error says what ended the operation and what its last attempt met.
func (e *Error) Error() string {
	text := ""
	for i, err := range [...]error{e.kind, e.ended, e.Cause} {
		if err == nil || i > 0 && err == e.kind { //nolint:errorlint // the same value is not said twice
			continue
		}
		if text != "" {
			text += ": "
		}
		text += err.Error()
	}
	if text == "" {
		return "operation failed: " + e.Reason.String()
	}
	return text
}

// Unwrap gives the sentinel, the canceler's or closer's error, and the cause, as far as there are any.
func (e *Error) Unwrap() []error {
	var errs []error
	for _, err := range [...]error{e.kind, e.ended, e.Cause} {
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errs
}

// RetryInfo is e.Info. It lets other error types be asked the same question.
func (e *Error) RetryInfo() Info { return e.Info }

// FailedFor is the reason for which an operation has failed: its last attempt met it and was not tried again. It is
// Unknown for an operation that has ended otherwise, with an answer that is definite or by a timeout, whatever reasons
// there were before.
func FailedFor(err error) (why Reason, code uint32) {
	var e *Error
	if !errors.As(err, &e) || errors.Is(e.kind, ErrTimeout) || errors.Is(e.kind, ErrCanceled) ||
		errors.Is(e.kind, ErrClosed) {
		return Unknown, 0
	}
	return e.Reason, e.Code
}

// Transparent reports whether an operation has failed because no server's logic has seen it, as far as is known: it has
// never left the client, or its connection was lost before anything came back.
func Transparent(err error) bool {
	why, _ := FailedFor(err)
	return why.Unseen() || why == SocketClosedWhileInFlight
}

// PanicError is a user's function that panicked; it failed its own operation and nothing else.
type PanicError struct {
	In    string // what the function was: a retry strategy, a hedged attempt, user code
	Value any
	Stack []byte
}

// Error gives the panic's value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic in %s: %v", e.In, e.Value) }

// Unwrap gives the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var (
	errStrategyGone = errors.New("the retry strategy ended its goroutine")
	errBudgetGone   = errors.New("the retry budget ended its goroutine")
)

// Stage is how far an attempt had come when it failed.
type Stage uint8

// The stages of the retry RFC.
const (
	StageNone     Stage = iota // nothing failed
	StageDispatch              // before a socket
	StageNetwork               // on the wire, unanswered
	StageResponse              // answered
)

// String is the stage's name in lower case.
func (s Stage) String() string {
	return [...]string{"none", "dispatch", "network", "response"}[s&3]
}

// Info says how an operation was retried. It is zero when nothing failed.
type Info struct {
	Stage       Stage   // that the last failed attempt had reached
	Reason      Reason  // of the last failure that had one
	Reasons     Reasons // of all failures
	Counted     int     // retries that count against limits and budgets; the others are Transparent
	Transparent int     // retries of what no server logic had seen
	Unsent      int     // attempts that ended before a socket: there was no node, no connection, no time
	Elapsed     time.Duration
	Waited      time.Duration // all delays together
	Parked      bool          // it ended while it waited for a retry
	Log         []Attempt     // in order, the first four and the last four; a copy
}

// Retries is the number of times that the operation was tried again. The error contexts of the SDKs call it
// "retry_attempts": their RFC fixes that name.
func (i Info) Retries() int { return i.Counted + i.Transparent }

// Attempts is the number of times that the operation was sent, the first time included: 0 when it never reached a
// socket. The other requests of a hedged operation are not among them.
func (i Info) Attempts() int { return i.Retries() + 1 - i.Unsent }

// InOrder are the reasons in the order in which each was met first. Those that the log does not have, in the middle of
// a long one, follow in the order of the table.
func (i Info) InOrder() []Reason {
	list := make([]Reason, 0, bits.OnesCount64(uint64(i.Reasons)))
	for _, a := range i.Log {
		if i.Reasons.Has(a.Reason) && !slices.Contains(list, a.Reason) {
			list = append(list, a.Reason)
		}
	}
	for r := range i.Reasons.All() {
		if !slices.Contains(list, r) {
			list = append(list, r)
		}
	}
	return list
}

// Attempt is one failed attempt of an operation.
type Attempt struct {
	Reason   Reason
	Endpoint string
	At       time.Duration // when it failed, since the operation began
	Delay    time.Duration // before the next one, 0 when there was none
}

// InfoOf finds how an operation was retried in the error that it ended with: the first in err's tree that has the
// method RetryInfo.
func InfoOf(err error) (Info, bool) {
	var r interface{ RetryInfo() Info }
	if errors.As(err, &r) {
		return r.RetryInfo(), true
	}
	return Info{}, false
}
