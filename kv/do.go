package kv

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/retry"
)

// Op is an operation with a result of type R. The types of this package implement it on their values, so kv.Get{} and
// &kv.Get{} both do. No type of another package can: what an operation sends and what it makes of an answer is between
// this package and what runs calls.
type Op[R any] interface {
	// encode loads the request's fields, the opcode first, so that its own error names the operation. It is called
	// once, on the caller's goroutine, before anything is sent.
	encode(r *call.Request) error
	// decode makes the result of a successful answer.
	decode(r *call.Response) (R, error)
}

// Dispatcher is where operations go: a core.Bucket, or a core.Collection for those that name no collection.
type Dispatcher interface {
	// Runner is the seam between operations and what runs them. Its type is internal: a program passes dispatchers on
	// and does not call it.
	Runner() call.Runner
}

// Do runs op and waits for its outcome. It returns when the call has succeeded or failed, at the latest at its
// deadline: the context's, or the operation's or the cluster's timeout, whichever comes first. When ctx ends early the
// call ends too, within 5 ms of it; a call that has waited longer than that notices at once. The error is a *Error.
// Keys and values of op are lent until Do returns.
func Do[R any, O Op[R]](ctx context.Context, d Dispatcher, op O) (r R, err error) {
	run := d.Runner()
	c := run.NewCall()
	c.Block()
	if err = load[R](c, &op); err == nil && c.MayHedge() && c.Hedging() != nil {
		var done bool
		if done, err = doHedged(ctx, run, c, &op, &r); done {
			return r, err
		}
	}
	// What finish does, in this frame: the stacks of those who wait are more than a core's cache holds.
	if err == nil {
		err = c.Prepare(ctx)
	}
	if err != nil {
		err = c.Unprepared(ctx, err)
	} else {
		run.Dispatch(c)
		c.AwaitTurn()
		c.Wait()
		err = outcome(c, &op, &r)
	}
	run.Release(c)
	return r, err
}

// The functions below pass operations and results by pointers: copies of them would make every waiting goroutine's
// stack several times as large. What is rare and needs a copy has a frame of its own.

//go:noinline
func doHedged[R any, O Op[R]](ctx context.Context, run call.Runner, c *call.Call, op *O, r *R) (done bool, err error) {
	res, err, done := tryHedged[R](ctx, run, c, *op)
	if done {
		*r = res
		c.State.Finish()
		run.Release(c)
	}
	return done, err
}

// finish sends a loaded call and waits for its outcome.
func finish[R any, O Op[R]](ctx context.Context, run call.Runner, c *call.Call, op *O, r *R) error {
	err := start(ctx, run, c, nil)
	if err == nil {
		c.Wait()
		err = outcome(c, op, r)
	}
	run.Release(c)
	return err
}

// load has op say what to send. The collection that the dispatcher has named holds for an operation that names none.
func load[R any, O Op[R]](c *call.Call, op *O) error {
	scope, collection := c.Req.Scope(), c.Req.Collection()
	err := encode[R](&c.Req, op)
	if scope != "" || collection != "" {
		c.Req.Outside(scope, collection)
	}
	return err
}

// start dispatches a loaded call. When it fails, as it does when loading has failed with err, the call was never
// dispatched.
func start(ctx context.Context, run call.Runner, c *call.Call, err error) error {
	if err = prepared(ctx, c, err); err != nil {
		return err
	}
	run.Dispatch(c)
	c.AwaitTurn()
	return nil
}

// prepared makes a loaded call ready to be dispatched. When it fails, as it does when loading has failed with err, the
// call has ended.
func prepared(ctx context.Context, c *call.Call, err error) error {
	if err == nil {
		err = c.Prepare(ctx)
	}
	if err == nil {
		return nil
	}
	return c.Unprepared(ctx, err)
}

// encode has op say what to send. A panic in it fails the call alone.
func encode[R any, O Op[R]](r *call.Request, op *O) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = panicked(v)
		}
		if err != nil && cberr.KindOf(err) == nil {
			err = &encodeError{err}
		}
	}()
	return (*op).encode(r)
}

// encodeError is a failure to encode that names no kind.
type encodeError struct{ err error }

func (e *encodeError) Error() string   { return e.err.Error() }
func (e *encodeError) Unwrap() []error { return []error{cberr.EncodingFailure, e.err} }

// panicked is the failure of an operation whose code has panicked.
func panicked(v any) error {
	return &retry.PanicError{In: "an operation", Value: v, Stack: debug.Stack()}
}

// decode has op say what the answer means. A panic in it fails the call alone.
func decode[R any, O Op[R]](c *call.Call, op *O, r *R) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.DecodeError(panicked(v))
		}
	}()
	answer, err := c.Answer()
	if err == nil {
		*r, err = (*op).decode(answer)
	}
	if err != nil {
		err = c.DecodeError(err)
	}
	return err
}

func outcome[R any, O Op[R]](c *call.Call, op *O, r *R) error {
	if err := c.Outcome(); err != nil {
		if c.Req.AbsentOK && call.IsAbsent(err) {
			return decodeAbsent(c, op, r, err)
		}
		return err
	}
	return decode(c, op, r)
}

// Future is a call that was started and not waited for. It may be copied, and waited for more than once and from
// several goroutines. Its zero value must not be used.
type Future[R any] struct {
	c   *call.Call
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
	run := d.Runner()
	c := run.NewCall()
	c.Future()
	f := Future[R]{c: c, res: &futureResult[R]{}}
	err := load[R](c, &op)
	if err == nil && c.Hedging() != nil {
		hedgedAsync(ctx, run, c, op, func(r R, err error) {
			f.res.make = func() (R, error) { return r, err }
			c.FinishFuture()
		})
		return f
	}
	if err := start(ctx, run, c, err); err != nil {
		f.res.make = func() (r R, _ error) { return r, err }
		c.FinishFuture()
		return f
	}
	f.res.make = func() (r R, err error) {
		err = outcome(c, &op, &r)
		return r, err
	}
	return f
}

// Done is closed when the call has finished.
func (f Future[R]) Done() <-chan struct{} { return f.c.Finished() }

// Wait gives the outcome. When ctx ends first, Wait returns ctx's error and the call goes on.
func (f Future[R]) Wait(ctx context.Context) (R, error) {
	select {
	case <-f.c.Finished():
	default:
		select {
		case <-f.c.Finished():
		case <-ctx.Done():
			var zero R
			return zero, context.Cause(ctx)
		}
	}
	f.res.once.Do(func() { f.res.r, f.res.err = f.res.make() })
	return f.res.r, f.res.err
}

// Cancel ends the call unless it has ended, and says whether it did.
func (f Future[R]) Cancel() bool { return f.c.Cancel() }

// Pending is a call that was started with a callback.
type Pending struct{ c *call.Call }

// Cancel ends the call unless it has ended, and says whether it did. The callback runs in either case, once.
func (p Pending) Cancel() bool { return p.c.Cancel() }

// Go runs op and calls done with its outcome, exactly once, on a goroutine of the cluster's. done may block: then
// other outcomes are delivered by another goroutine. A panic in it is contained and logged. Keys and values of op are
// lent until done is called.
func Go[R any, O Op[R]](ctx context.Context, d Dispatcher, op O, done func(R, error)) Pending {
	run := d.Runner()
	c := run.NewCall()
	c.Callback(func() {
		var r R
		err := outcome(c, &op, &r)
		done(r, err)
	})
	err := load[R](c, &op)
	if err == nil && c.Hedging() != nil {
		hedgedAsync(ctx, run, c, op, func(r R, err error) { complete(run, func() { done(r, err) }) })
		return Pending{c}
	}
	if err := start(ctx, run, c, err); err != nil {
		complete(run, func() {
			var zero R
			done(zero, err)
		})
	}
	return Pending{c}
}

// complete runs f, which calls a user's function, where callbacks run.
func complete(run call.Runner, f func()) {
	if o, ok := run.(call.Completer); ok {
		o.Complete(f)
		return
	}
	f()
}
