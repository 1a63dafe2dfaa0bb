package kv

import (
	"context"
	"errors"
	"fmt"
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
	// encode loads the request's fields, the opcode first, so that its own error names the operation, and gives what
	// makes the result of a successful answer. It is called once, on the caller's goroutine, before anything is sent.
	encode(r *call.Request) (decoder[R], error)
}

// decoder makes the result of a successful answer. It is all that a call needs of its operation once it is sent.
type decoder[R any] func(r *call.Response) (R, error)

// Dispatcher is where operations go: a core.Bucket, or a core.Collection for those that name no collection.
type Dispatcher interface {
	// Runner is the seam between operations and what runs them: a program passes dispatchers on and does not call it.
	Runner() Runner
}

// Runner runs the calls of operations. What its methods take is internal: a program does not call them, and has no
// Runner of its own.
type Runner = call.Runner

// Do runs op and waits for its outcome. It returns when the call has succeeded or failed, at the latest at its
// deadline: the context's, or the one that the timeout gives if that is earlier. The timeout is the operation's, else
// that of its policy, else the cluster's. When ctx ends early the call ends too, within 5 ms of it; a call that has
// waited longer than that notices at once. The error is a *Error. Keys and values of op are lent until Do returns.
func Do[R any, O Op[R]](ctx context.Context, d Dispatcher, op O) (r R, err error) {
	run := d.Runner()
	c := run.NewCall()
	c.Block()
	dec, err := load[R](c, &op)
	if err == nil && c.MayHedge() {
		if res, err, done := doHedged(ctx, run, c, dec); done {
			return res, err
		}
	}
	if err == nil {
		err = c.Prepare(ctx)
	}
	if err != nil {
		err = c.Unprepared(ctx, run, err)
	} else {
		// This is Call.Run, written out: without its frame the stacks of many waiting goroutines are smaller, and more
		// of them fit into a core's cache.
		run.Dispatch(c)
		c.AwaitTurn()
		c.Wait()
		err = outcome(c, dec, &r)
	}
	run.Release(c)
	return r, err
}

// doHedged runs a call that is to be hedged. done is false for a call that is to be sent as it is. The result is
// written by other goroutines, so r is on the heap: in a function of its own, a call that is not hedged does not pay
// for that.
//
//go:noinline
func doHedged[R any](ctx context.Context, run call.Runner, c *call.Call, dec decoder[R]) (r R, err error, done bool) {
	done, err = c.Hedge(ctx, run, func(won *call.Call) error { return decode(won, dec, &r) })
	if done {
		c.State.Finish()
		run.Release(c)
	}
	return r, err, done
}

// load has op encode itself into the call's request, and gives the decoder of its answer. An operation that names no
// collection gets the one that the dispatcher has named. Operations and results are passed by pointers: copies of them
// would make the stack of every waiting goroutine several times as large.
func load[R any, O Op[R]](c *call.Call, op *O) (decoder[R], error) {
	scope, collection := c.Req.Scope(), c.Req.Collection()
	dec, err := encode[R](&c.Req, op)
	if scope != "" || collection != "" {
		c.Req.Outside(scope, collection)
	}
	return dec, err
}

// prepared makes a loaded call ready to be dispatched. err is how loading has failed, if it has. The call has ended
// when prepared gives an error.
func prepared(ctx context.Context, run call.Runner, c *call.Call, err error) error {
	if err == nil {
		err = c.Prepare(ctx)
	}
	if err == nil {
		return nil
	}
	return c.Unprepared(ctx, run, err)
}

// encode has op encode itself into r. A panic in it fails the call alone.
func encode[R any, O Op[R]](r *call.Request, op *O) (dec decoder[R], err error) {
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

// decode makes the result of a call that has succeeded. A panic in dec fails the call alone.
func decode[R any](c *call.Call, dec decoder[R], r *R) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = c.DecodeError(panicked(v))
		}
	}()
	answer, err := c.Answer()
	if err == nil {
		*r, err = dec(answer)
	}
	if err != nil {
		err = c.DecodeError(err)
	}
	return err
}

// outcome makes the result of a call that has ended. The error says why the call, or the decoding of its answer,
// failed.
func outcome[R any](c *call.Call, dec decoder[R], r *R) error {
	err := c.Outcome()
	if err == nil || c.Absent(err) {
		err = decode(c, dec, r)
	}
	return c.Told(err)
}

// Future is a call that was started and not waited for. It may be copied, and waited for more than once and from
// several goroutines. Its zero value must not be used.
type Future[R any] struct{ f *future[R] }

// Format prints that it is a future, whatever the verb: the client may be changing the call meanwhile.
func (f Future[R]) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "kv.Future") }

// future is what a started call has beside the call itself.
type future[R any] struct {
	call.Started
	c    *call.Call
	once sync.Once
	dec  decoder[R]     // nil for a call whose outcome was set
	done func(R, error) // the user's function that Go calls; nil: none
	r    R
	err  error
}

// finish makes the outcome, on the goroutine that first asks for it.
func (f *future[R]) finish() {
	f.once.Do(func() {
		if f.dec != nil {
			f.err = outcome(f.c, f.dec, &f.r)
		}
	})
}

// deliver makes the outcome, wakes those that wait for it, and gives it to the user's function.
func (f *future[R]) deliver() {
	f.finish()
	f.c.FinishFuture()
	if f.done != nil {
		f.done(f.r, f.err)
	}
}

// set sets the outcome of a call that was not dispatched itself. A value is in r already.
func (f *future[R]) set(run call.Runner, err error) {
	f.dec, f.err = nil, err
	if o, ok := run.(call.Completer); ok && f.done != nil { // a user's function runs where callbacks run
		o.Complete(f.deliver)
		return
	}
	f.deliver()
}

// Start runs op without waiting, so that one goroutine can have thousands of operations in flight. It never blocks,
// unless the operation's Block says so. Keys and values of op are lent until the future is done.
func Start[R any, O Op[R]](ctx context.Context, d Dispatcher, op O) Future[R] {
	return start[R](ctx, d, &op, nil)
}

// Go runs op and calls done with its outcome, exactly once, on a goroutine of the cluster's. done may block: then
// other outcomes are delivered by another goroutine. A panic in it is contained and logged. Keys and values of op are
// lent until done is called. The future need not be waited for; done is called for a call that is canceled, too.
func Go[R any, O Op[R]](ctx context.Context, d Dispatcher, op O, done func(R, error)) Future[R] {
	return start(ctx, d, &op, done)
}

// start runs op without waiting: for Start without done, for Go with it.
func start[R any, O Op[R]](ctx context.Context, d Dispatcher, op *O, done func(R, error)) Future[R] {
	run := d.Runner()
	f := &future[R]{c: run.NewCall(), done: done}
	if done == nil {
		f.c.Future(&f.Started, f.finish)
	} else {
		f.c.Callback(&f.Started, f.deliver)
	}
	dec, err := load[R](f.c, op)
	if err == nil && f.c.Hedging(run) != nil {
		f.c.HedgeAsync(ctx, run, func(won *call.Call) error { return decode(won, dec, &f.r) }, func(err error) {
			f.set(run, err)
		})
		return Future[R]{f}
	}
	f.dec = dec
	if err = prepared(ctx, run, f.c, err); err != nil {
		f.set(run, err)
		return Future[R]{f}
	}
	run.Dispatch(f.c)
	f.c.AwaitTurn()
	return Future[R]{f}
}

// Done is closed when the call has finished.
func (f Future[R]) Done() <-chan struct{} { return f.f.Finished() }

// Wait gives the outcome. When ctx ends first, the call goes on: the error says so, is in doubt and matches ctx's own.
func (f Future[R]) Wait(ctx context.Context) (R, error) {
	select {
	case <-f.Done():
	default:
		select {
		case <-f.Done():
		case <-ctx.Done():
			var zero R
			return zero, gaveUp(ctx)
		}
	}
	f.f.finish()
	return f.f.r, f.f.err
}

// gaveUp is what a wait that ends before its call returns: nothing is known of the call, which may yet succeed.
func gaveUp(ctx context.Context) error {
	kind := cberr.RequestCanceled
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		kind = cberr.AmbiguousTimeout
	}
	return &Error{Op: "wait", Err: kind, Stage: "the call goes on", InDoubt: true, Cause: context.Cause(ctx)}
}

// Cancel ends the call unless it has ended, and says whether it did.
func (f Future[R]) Cancel() bool { return f.f.c.Cancel() }
