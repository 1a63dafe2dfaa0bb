package call

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
)

// Runner runs calls: a bucket's dispatcher is one. What else it can do, and operations over several nodes ask for, is
// Batcher, Mapped, Hedger, ScanTimer, Completer, Named and Observing.
type Runner interface {
	// NewCall gives a call to fill.
	NewCall() *Call
	// Dispatch takes c over and returns without waiting for it. It finishes c exactly once, by its deadline.
	Dispatch(c *Call)
	// Release takes back a finished call that its owner needs no more.
	Release(c *Call)
}

// Batcher is a Runner that can take over many calls at once, which costs less than one after the other.
type Batcher interface {
	// DispatchAll takes the calls over as Dispatch does. The slice is the caller's again when it returns.
	DispatchAll(calls []*Call)
}

// Mapped is a Runner that knows where things are.
type Mapped interface {
	// AwaitMap gives the newest cluster map. While no map does, it waits for one as a call would, and fails
	// as one would.
	AwaitMap(ctx context.Context, w MapWait) (Layout, error)
}

// ScanTimer is a Runner that knows the time of a scan's requests when the scan names none; 0 means 10 s.
type ScanTimer interface{ ScanTimeout() time.Duration }

// Completer is a Runner that has a place for code of a user's.
type Completer interface {
	// Complete runs f, which calls a user's function, where callbacks run.
	Complete(f func())
}

// Named is a Runner whose bucket has a name.
type Named interface{ Name() string }

// Observing is a Runner that tells of operations.
type Observing interface {
	// Compose begins an operation that is made of several calls. They are made with the context that it gives; end is
	// told the outcome, once.
	Compose(ctx context.Context, name, scope, collection string) (of context.Context, end func(error))
	// Rejected tells of a call that fails with err before it was dispatched.
	Rejected(ctx context.Context, c *Call, err error)
}

// Compose is that of a Runner that is Observing; one that is not does nothing.
func Compose(ctx context.Context, run Runner, name, scope, collection string) (of context.Context, end func(error)) {
	if o, ok := run.(Observing); ok {
		return o.Compose(ctx, name, scope, collection)
	}
	return ctx, func(error) {}
}

// Future makes c a call that is started and not waited for. s.Finished is closed when it has finished. finish makes its
// outcome; it may be called more than once and from several goroutines.
func (c *Call) Future(s *Started, finish func()) {
	s.finish = finish
	c.form, c.started = formFuture, s
}

// Finished is closed when a call that is a future has finished.
func (c *Call) Finished() <-chan struct{} { return c.started.Finished() }

// FinishFuture closes Finished of a call that does not do so itself: it was never dispatched, or is a callback.
func (c *Call) FinishFuture() {
	c.Leave()
	c.started.end()
}

// Callback makes c a future whose end runs f, where f cannot hold up anything else. f calls FinishFuture.
func (c *Call) Callback(s *Started, f func()) {
	s.finish = f
	c.form, c.started = formCallback, s
}

// Inline makes c a call whose end runs f: where the answer is read, or where callbacks run. f may release the call.
func (c *Call) Inline(s *Started, f func()) {
	s.finish = f
	c.form, c.started = formInline, s
}

// Started is what a call has that its starter does not wait for. Its zero value is ready.
type Started struct {
	finish    func() // what to do with the outcome
	done      atomic.Pointer[chan struct{}]
	taken     chan struct{} // closed when the call is on its way or has ended; nil unless it waits for its turn
	takenOnce atomic.Bool
}

// closed is the channel of calls that have finished before anything waited for them.
var closed = func() *chan struct{} {
	c := make(chan struct{})
	close(c)
	return &c
}()

// Finished is closed when the call, which is a future, has finished. The channel is made for the first that asks.
func (s *Started) Finished() <-chan struct{} {
	if c := s.done.Load(); c != nil {
		return *c
	}
	c := make(chan struct{})
	if s.done.CompareAndSwap(nil, &c) {
		return c
	}
	return *s.done.Load()
}

// end closes what Finished gives, once.
func (s *Started) end() {
	if !s.done.CompareAndSwap(nil, closed) {
		close(*s.done.Load())
	}
}

// InBatch makes c one of the calls that g waits for.
func (c *Call) InBatch(g *sync.WaitGroup) { c.form, c.group = formBatch, g }

// Block makes c a call that is waited for. The channel stays when the call is used again.
func (c *Call) Block() {
	c.form = formBlocking
	if c.wake == nil {
		c.wake = make(chan struct{}, 1)
	}
}

// Wait waits for the end of a call that is waited for.
func (c *Call) Wait() { <-c.wake }

// Run has a loaded call run, waits for its end and gives its error. The call is still to be released.
func (c *Call) Run(ctx context.Context, run Runner) error {
	return c.runTo(ctx, run, func(*Call) error { return nil })
}

// runTo is Run where use takes the answer, and its failure is the call's: what is told of the call waits for it.
func (c *Call) runTo(ctx context.Context, run Runner, use func(*Call) error) error {
	c.Block()
	if err := c.Prepare(ctx); err != nil {
		return c.Unprepared(ctx, run, err)
	}
	run.Dispatch(c)
	c.AwaitTurn()
	c.Wait()
	err := c.Outcome()
	if err == nil {
		err = use(c)
	}
	return c.Told(err)
}

// Cancel ends the call unless it has ended, and says whether it did.
func (c *Call) Cancel() bool {
	if c.home == nil {
		return false
	}
	return c.home.Owner.Cancel(c, cberr.RequestCanceled)
}

// Answer is the answer of a call that has succeeded, its value as the operation wants it.
func (c *Call) Answer() (*Response, error) {
	c.Res.of = c
	if !c.Req.KeepCompressed {
		if err := c.inflate(); err != nil {
			return nil, err
		}
	}
	return &c.Res, nil
}

// Unprepared ends a call that cannot be dispatched, and gives the error of that.
func (c *Call) Unprepared(ctx context.Context, run Runner, err error) error {
	c.State.Finish()
	c.ctx = ctx
	c.err, c.failed = err, true
	err = c.Translate(err, false)
	if o, ok := run.(Observing); ok {
		o.Rejected(ctx, c, err)
	}
	return err
}

// DecodeError is the error of a successful answer that makes no sense. What was to be changed has been changed.
func (c *Call) DecodeError(err error) error {
	e := c.newError(cberr.DecodingFailure)
	e.routed(c)
	e.Answered, e.Status, e.Name = true, c.Res.Status, c.Res.Status.String()
	e.InDoubt = c.Spec().Has(Mutates)
	e.Retry = c.State.Info()
	e.Cause = err
	var pe *PathError
	if errors.As(err, &pe) { // the answer made sense, and says that there is no such thing
		e.Err = pe.Kind
	}
	return e
}
