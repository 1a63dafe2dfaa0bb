package retry

import (
	"context"
	"errors"
	"time"
)

// Loop says how Do repeats a program's own work. Its zero value retries as the default strategy does, until the context
// ends. A Loop is a plain value: copies are independent but for what they point to.
type Loop struct {
	// Name is what statistics, observers and log lines call the work: its Service is Own.
	Name string
	// Strategy decides when a try that asks for it is repeated, or that it is not. It sees the reason
	// EVALUATION_INDICATED and the Kind that the evaluation has named. Nil is the Orchestrator's default.
	Strategy Strategy
	// MaxAttempts is the most tries, the first included; 0 is no limit. The error of the last one then matches
	// ErrExhausted.
	MaxAttempts int
	// MaxElapsed is the most time for all tries and delays together; 0 is no limit. It ends the context of a try that
	// hangs. The error then matches ErrTimeout.
	MaxElapsed time.Duration
	// Bucket limits the retries of all loops that share it; nil: no limit.
	Bucket TokenBucket
	// Orchestrator keeps what waits, the statistics and the observer. Nil is one of this Do's own, made when its first
	// try has failed.
	Orchestrator *Orchestrator
}

// TokenBucket is a supply of tokens that several loops share; *policy.Store is one. Its methods may be called from many
// goroutines.
type TokenBucket interface {
	// Acquire gives the token of a first try. It may block, at most until ctx ends.
	Acquire(ctx context.Context) (Token, error)
}

// Token is one try's. Each is resolved by exactly one call of one of its methods.
type Token interface {
	// NotifySuccess says that the try has succeeded: what was paid goes back.
	NotifySuccess()
	// NotifyFailure says that the try has failed and is not repeated.
	NotifyFailure()
	// ScheduleRetry gives the token of the next try, after its delay. It may block until the bucket can pay for it, at
	// most until ctx ends. An error ends the work with ErrThrottled.
	ScheduleRetry(ctx context.Context, k Kind) (Token, error)
}

// ErrRejected is the failure of a try whose evaluation says Fail although it has a result and no error.
var ErrRejected = errors.New("the evaluation has rejected the result")

// Do runs block until its evaluation says that it has succeeded or failed, or until a limit of the Loop or the strategy
// ends it. The block runs at least once, on the caller's goroutine, with a context that ends by MaxElapsed; a block
// that ignores its context is waited for. Between two tries Do waits, until ctx ends at most. A nil evaluate is
// Standard.
//
// The result is that of the last try. The error is nil after a success. After a failure that is not retryable it is the
// block's own. At a limit it is an *Error that matches what ended the work (ErrExhausted, ErrTimeout, ErrCanceled,
// ErrThrottled, ErrClosed) and what the last try has met, and whose Info tells the rest.
//
// A first try that succeeds starts no goroutine and allocates nothing, unless MaxElapsed is set.
func Do[R any](
	ctx context.Context, l Loop, evaluate Evaluation[R], block func(context.Context) (R, error),
) (res R, err error) {
	if evaluate == nil {
		evaluate = Standard[R]
	}
	if l.MaxElapsed > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.MaxElapsed)
		defer cancel()
	}
	began := time.Now()
	var held holder
	defer held.drop()
	if l.Bucket != nil {
		if held.token, err = l.Bucket.Acquire(ctx); err != nil {
			return res, err
		}
	}
	res, err = block(ctx)
	d := evaluate(res, err)
	switch {
	case d.ruling == succeeds:
		held.succeeded()
		return res, nil
	case d.ruling == fails && ctx.Err() == nil:
		held.failed()
		return res, rejected(err)
	}
	w := newWork(ctx, &l, began)
	for w.again(d, err, &held) {
		res, err = block(ctx)
		d = evaluate(res, err)
	}
	return res, w.err
}

// rejected is the error of a failure.
func rejected(err error) error {
	if err == nil {
		return ErrRejected
	}
	return err
}

// holder has the token of the present try until it is resolved.
type holder struct{ token Token }

func (h *holder) succeeded() {
	if t := h.token; t != nil {
		h.token = nil
		t.NotifySuccess()
	}
}

func (h *holder) failed() {
	if t := h.token; t != nil {
		h.token = nil
		t.NotifyFailure()
	}
}

// drop resolves the token of a try that has not come back: its block has panicked or ended the goroutine.
func (h *holder) drop() { h.failed() }

// work is a Do whose first try has failed: an operation of an orchestrator. Its tries run on the caller's goroutine.
type work struct {
	state State
	o     *Orchestrator
	name  string
	ctx   context.Context
	began time.Time
	epoch uint32 // of the present try
	last  error  // that a try has met, other than the end of the context
	wake  chan struct{}
	done  chan struct{}
	err   error
}

// unlimited is the time of work that nothing limits.
const unlimited = 100 * 365 * 24 * time.Hour

func newWork(ctx context.Context, l *Loop, began time.Time) *work {
	w := &work{
		o: l.Orchestrator, name: l.Name, ctx: ctx, began: began, wake: make(chan struct{}, 1),
		done: make(chan struct{}),
	}
	if w.o == nil {
		w.o = New(Options{})
	}
	w.state.Idempotent = true // the evaluation answers for that
	w.state.Strategy = l.Strategy
	if l.MaxAttempts > 0 {
		w.state.Strategy = attempts{l.Strategy, l.MaxAttempts}
	}
	var limited bool
	if w.state.Deadline, limited = ctx.Deadline(); !limited {
		w.state.Deadline = began.Add(unlimited)
	}
	w.epoch, _ = w.state.Sent()
	return w
}

// again is told what the evaluation says of a try. It says whether the next one is to run now; otherwise the work has
// ended with w.err, which is nil for a success.
func (w *work) again(d Directive, err error, held *holder) bool {
	if d.ruling == succeeds {
		held.succeeded()
		w.state.Succeeded(w.epoch)
		return false
	}
	w.state.Answered(w.epoch) // nothing but this goroutine ends a try
	ended := w.ctx.Err()
	if err != nil && (ended == nil || !errors.Is(err, ended)) {
		w.last = err
	}
	switch {
	case ended != nil:
		held.failed()
		kind, why := endOf(w.ctx)
		w.o.failNow(w, w.last, kind, why)
	case d.ruling == fails:
		held.failed()
		w.err = rejected(err)
		w.state.Finish()
		w.state.Settle(w.err)
		return false
	default:
		w.o.MaybeRetry(w, EvaluationIndicated, err, Hint{Pushback: d.pushback, kind: d.kind, ownKind: true})
		if w.await() && w.pay(d.kind, held) {
			w.epoch, _ = w.state.Sent()
			return true
		}
		held.failed()
	}
	<-w.done
	return false
}

// endOf is what the end of a context means.
func endOf(ctx context.Context) (kind, why error) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ErrTimeout, nil
	}
	return ErrCanceled, context.Cause(ctx)
}

// await waits for the delay before the next try. False means that the work has ended.
func (w *work) await() bool {
	select {
	case <-w.wake:
		return true
	case <-w.done:
	case <-w.ctx.Done():
		w.end()
	}
	return false
}

// end ends the work with its context.
func (w *work) end() {
	kind, why := endOf(w.ctx)
	w.o.end(w, kind, why)
}

// pay gets the token of the next try. False means that the work has ended.
func (w *work) pay(k Kind, held *holder) bool {
	if held.token == nil {
		return true
	}
	t := held.token
	held.token = nil
	next, err := t.ScheduleRetry(w.ctx, k)
	switch {
	case err == nil:
		held.token = next
		return true
	case w.ctx.Err() != nil:
		w.end()
	default:
		if errors.Is(err, ErrThrottled) {
			err = nil
		}
		w.o.withdraw(w, ErrThrottled, err)
	}
	return false
}

// Retry implements Op.
func (w *work) Retry() *State { return &w.state }

// Describe implements Op.
func (w *work) Describe(r *Request) { r.Service, r.Operation, r.Started = Own, w.name, w.began }

// Context implements Op.
func (w *work) Context() context.Context { return w.ctx }

// Size implements Op: what the block holds is the program's.
func (w *work) Size() int { return 0 }

// Dispatch implements Op.
func (w *work) Dispatch() { w.wake <- struct{}{} }

// Done implements Op.
func (w *work) Done(err error, _ bool) {
	w.err = err
	close(w.done)
}

// attempts is a strategy that ends after a number of tries.
type attempts struct {
	base Strategy
	most int
}

// RetryAfter implements Strategy. The base is asked first, so that what counts failures counts the last one, too.
func (s attempts) RetryAfter(ctx context.Context, r *Request, why Reason) Action {
	a := r.Ask(ctx, s.base, why)
	if _, again := a.Delay(); again && r.Counted+1 >= s.most {
		return StopWith(exhausted)
	}
	return a
}

// Wraps implements Wrapper.
func (s attempts) Wraps(self Strategy) (base Strategy, ok bool) { return s.base, Is[attempts](self) }

// exhausted is ErrExhausted around what the last try has met.
func exhausted(cause error) error {
	if cause == nil {
		return ErrExhausted
	}
	return &limitError{cause}
}

// limitError is the last try's error at a limit of tries.
type limitError struct{ cause error }

func (e *limitError) Error() string   { return ErrExhausted.Error() + ": " + e.cause.Error() }
func (e *limitError) Unwrap() []error { return []error{ErrExhausted, e.cause} }
