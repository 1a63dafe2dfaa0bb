package kv

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Op is an operation with a result of type R. Encode loads the request's fields, the opcode first, so that its own
// error names the operation; it is called once, on the caller's goroutine, before anything is sent. Decode makes the
// result of a successful answer. Both may be called from any goroutine and must not block. The types of this package
// implement Op on their values, so kv.Get{} and &kv.Get{} both do; types of other packages may implement it too, for
// opcodes that have a row in this package's table.
type Op[R any] interface {
	Encode(r *Request) error
	Decode(r *Response) (R, error)
}

// Dispatcher runs calls. A core.Bucket is one.
type Dispatcher interface {
	// NewCall gives a call to fill.
	NewCall() *Call
	// Dispatch takes c over and returns without waiting for it. It finishes c exactly once, by its deadline.
	Dispatch(c *Call)
	// Release takes back a finished call that its owner needs no more.
	Release(c *Call)
}

// Do runs op and waits for its outcome. It returns when the call has succeeded or failed, at the latest at its
// deadline: the context's, or the operation's or the cluster's timeout, whichever comes first. When ctx ends early the
// call ends too, within 5 ms of it; a call that has waited longer than that notices at once. The error is a *Error.
// Keys and values of op are lent until Do returns.
func Do[R any, O Op[R]](ctx context.Context, d Dispatcher, op O) (r R, err error) {
	c := d.NewCall()
	c.block()
	if err = load[R](c, &op); err == nil && c.mayHedge() && c.hedge() != nil {
		var done bool
		if done, err = doHedged(ctx, d, c, &op, &r); done {
			return r, err
		}
	}
	// What finish does, in this frame: the stacks of those who wait are more than a core's cache holds.
	if err == nil {
		err = c.prepare(ctx)
	}
	if err != nil {
		err = c.unprepared(ctx, err)
	} else {
		d.Dispatch(c)
		c.awaitTurn()
		<-c.wake
		err = outcome(c, &op, &r)
	}
	d.Release(c)
	return r, err
}

// The functions below pass operations and results by pointers: copies of them would make every waiting goroutine's
// stack several times as large. What is rare and needs a copy has a frame of its own.

//go:noinline
func doHedged[R any, O Op[R]](ctx context.Context, d Dispatcher, c *Call, op *O, r *R) (done bool, err error) {
	res, err, done := tryHedged[R](ctx, d, c, *op)
	if done {
		*r = res
		c.State.Finish()
		d.Release(c)
	}
	return done, err
}

// finish sends a loaded call and waits for its outcome.
func finish[R any, O Op[R]](ctx context.Context, d Dispatcher, c *Call, op *O, r *R) error {
	err := start(ctx, d, c, nil)
	if err == nil {
		<-c.wake
		err = outcome(c, op, r)
	}
	d.Release(c)
	return err
}

// load has op say what to send.
func load[R any, O Op[R]](c *Call, op *O) error {
	scope, collection := c.Req.Scope, c.Req.Collection // see In
	err := encode[R](&c.Req, op)
	if r := &c.Req; r.Scope == "" && r.Collection == "" && r.CollectionID == 0 && c.is(CollectionAware) {
		r.Scope, r.Collection = scope, collection
	}
	return err
}

// start dispatches a loaded call. When it fails, as it does when loading has failed with err, the call was never
// dispatched.
func start(ctx context.Context, d Dispatcher, c *Call, err error) error {
	if err = prepared(ctx, c, err); err != nil {
		return err
	}
	d.Dispatch(c)
	c.awaitTurn()
	return nil
}

// prepared makes a loaded call ready to be dispatched. When it fails, as it does when loading has failed with err, the
// call has ended.
func prepared(ctx context.Context, c *Call, err error) error {
	if err == nil {
		err = c.prepare(ctx)
	}
	if err == nil {
		return nil
	}
	return c.unprepared(ctx, err)
}

// unprepared ends a call that cannot be dispatched, and gives the error of that.
func (c *Call) unprepared(ctx context.Context, err error) error {
	c.State.Finish()
	c.ctx = ctx
	c.err, c.failed = err, true
	return c.translate(err, false)
}

// encode has op say what to send. A panic in it fails the call alone.
func encode[R any, O Op[R]](r *Request, op *O) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &retry.PanicError{In: "user code", Value: v, Stack: debug.Stack()}
		}
		if err != nil {
			err = kinded(err)
		}
	}()
	return (*op).Encode(r)
}

// kinded makes sure that the failure of an Encode names its kind.
func kinded(err error) error {
	if cberr.KindOf(err) == nil {
		return &encodeError{err}
	}
	return err
}

// encodeError is a failure of an Encode that names no kind.
type encodeError struct{ err error }

func (e *encodeError) Error() string   { return e.err.Error() }
func (e *encodeError) Unwrap() []error { return []error{cberr.EncodingFailure, e.err} }

// decode has op say what the answer means. A panic in it fails the call alone.
func decode[R any, O Op[R]](c *Call, op *O, r *R) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.decodeError(&retry.PanicError{In: "user code", Value: v, Stack: debug.Stack()})
		}
	}()
	c.Res.arrived(&c.Route, c.via, c.bucket())
	if !c.Req.KeepCompressed {
		err = c.inflate()
	}
	if err == nil {
		*r, err = (*op).Decode(&c.Res)
	}
	if err != nil {
		err = c.decodeError(err)
	}
	return err
}

func outcome[R any, O Op[R]](c *Call, op *O, r *R) error {
	if err := c.outcome(); err != nil {
		if c.Req.AbsentOK && isAbsent(err) {
			return decodeAbsent(c, op, r, err)
		}
		return err
	}
	return decode(c, op, r)
}

// decodeError is the error of a successful answer that makes no sense. What was to be changed has been changed.
func (c *Call) decodeError(err error) error {
	e := c.newError(cberr.DecodingFailure)
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

// Future is a call that was started and not waited for. It may be copied, and waited for more than once and from
// several goroutines. Its zero value must not be used.
type Future[R any] struct {
	c   *Call
	res *futureResult[R]
}

// futureResult makes the outcome once, on the goroutine that first asks for it.
type futureResult[R any] struct {
	once sync.Once
	make func() (R, error)
	r    R
	err  error
}

// Start runs op without waiting, so that one goroutine can have thousands of operations in flight. It never blocks,
// unless the operation's Block says so. Keys and values of op are lent until the future is done.
func Start[R any, O Op[R]](ctx context.Context, d Dispatcher, op O) Future[R] {
	c := d.NewCall()
	c.form, c.async = formFuture, &async{done: make(chan struct{})}
	f := Future[R]{c: c, res: &futureResult[R]{}}
	err := load[R](c, &op)
	if err == nil && c.hedge() != nil {
		hedgedAsync(ctx, d, c, op, func(r R, err error) {
			f.res.make = func() (R, error) { return r, err }
			close(c.async.done)
		})
		return f
	}
	if err := start(ctx, d, c, err); err != nil {
		f.res.make = func() (r R, _ error) { return r, err }
		close(c.async.done)
		return f
	}
	f.res.make = func() (r R, err error) {
		err = outcome(c, &op, &r)
		return r, err
	}
	return f
}

// Done is closed when the call has finished.
func (f Future[R]) Done() <-chan struct{} { return f.c.async.done }

// Wait gives the outcome. When ctx ends first, Wait returns ctx's error and the call goes on.
func (f Future[R]) Wait(ctx context.Context) (R, error) {
	select {
	case <-f.c.async.done:
	default:
		select {
		case <-f.c.async.done:
		case <-ctx.Done():
			var zero R
			return zero, context.Cause(ctx)
		}
	}
	f.res.once.Do(func() { f.res.r, f.res.err = f.res.make() })
	return f.res.r, f.res.err
}

// Cancel ends the call unless it has ended, and says whether it did.
func (f Future[R]) Cancel() bool { return cancel(f.c) }

// Pending is a call that was started with a callback.
type Pending struct{ c *Call }

// Cancel ends the call unless it has ended, and says whether it did. The callback runs in either case, once.
func (p Pending) Cancel() bool { return cancel(p.c) }

func cancel(c *Call) bool {
	if c.home == nil {
		return false
	}
	return c.home.Owner.Cancel(c, cberr.RequestCanceled)
}

// Go runs op and calls done with its outcome, exactly once, on a goroutine of the cluster's. done may block: then
// other outcomes are delivered by another goroutine. A panic in it is contained and logged. Keys and values of op are
// lent until done is called.
func Go[R any, O Op[R]](ctx context.Context, d Dispatcher, op O, done func(R, error)) Pending {
	c := d.NewCall()
	c.form, c.async = formCallback, &async{}
	c.async.finish = func() {
		var r R
		err := outcome(c, &op, &r)
		done(r, err)
	}
	err := load[R](c, &op)
	if err == nil && c.hedge() != nil {
		hedgedAsync(ctx, d, c, op, func(r R, err error) { complete(d, func() { done(r, err) }) })
		return Pending{c}
	}
	if err := start(ctx, d, c, err); err != nil {
		complete(d, func() {
			var zero R
			done(zero, err)
		})
	}
	return Pending{c}
}

// complete runs f, which calls a user's function, where callbacks run.
func complete(d Dispatcher, f func()) {
	if o, ok := d.(interface{ Complete(f func()) }); ok {
		o.Complete(f)
		return
	}
	f()
}
