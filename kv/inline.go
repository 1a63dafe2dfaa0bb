package kv

import (
	"context"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/call"
)

// GoInline is Go for a done that neither blocks nor ends its goroutine, such as one that sends on a channel with room:
// mostly it runs where the answer is read, and nothing else is read from that node meanwhile. It costs less: no other
// goroutine is woken, and the memory of the call is used again. A call that fails without an answer ends as by Go.
// Cancel of what it returns ends the call unless it has ended, and says whether it did.
func GoInline[R any, O Op[R]](
	ctx context.Context, d Dispatcher, op O, done func(R, error),
) interface{ Cancel() bool } {
	i := &inline[R]{run: d.Runner(), done: done}
	c := i.run.NewCall()
	i.c = c
	c.Inline(&i.started, i.deliver)
	dec, err := load[R](c, &op)
	if err == nil && c.Hedging(i.run) != nil {
		i.state.Store(inlineKept)
		var r R
		c.HedgeAsync(ctx, i.run, func(won *call.Call) error { return decode(won, dec, &r) }, func(err error) {
			i.elsewhere(r, err)
		})
		return i
	}
	i.dec = dec
	if err = prepared(ctx, i.run, c, err); err != nil {
		i.state.Store(inlineKept)
		var r R
		i.elsewhere(r, err)
		return i
	}
	if !c.Req.Block() {
		i.run.Dispatch(c) // from now on the call may be another one's
		return i
	}
	i.state.Store(inlineKept)
	i.run.Dispatch(c)
	c.AwaitTurn()
	return i
}

// inline is what a call has that was started by GoInline.
type inline[R any] struct {
	c       *call.Call
	run     call.Runner
	dec     decoder[R]
	done    func(R, error)
	started call.Started
	state   atomic.Uint32 // one of these
}

const (
	inlineRuns  = iota // the call's memory may be used again when it has ended
	inlineEnded        // c is not the call any more
	inlineKept         // c stays the call
)

// deliver makes the outcome, releases the call, and gives the outcome to the program.
func (i *inline[R]) deliver() {
	var r R
	err, owner := outcome(i.c, i.dec, &r), i.c.Owner()
	if i.state.CompareAndSwap(inlineRuns, inlineEnded) {
		i.run.Release(i.c)
	}
	defer func() {
		if v := recover(); v != nil {
			if o, ok := owner.(call.Container); ok {
				o.Panicked(v)
			}
		}
	}()
	i.done(r, err)
}

// elsewhere gives an outcome to the program where callbacks run.
func (i *inline[R]) elsewhere(r R, err error) { complete(i.run, func() { i.done(r, err) }) }

func complete(run call.Runner, f func()) {
	if o, ok := run.(call.Completer); ok {
		o.Complete(f)
		return
	}
	f()
}

// Cancel ends the call unless it has ended, and says whether it did.
func (i *inline[R]) Cancel() bool {
	if !i.state.CompareAndSwap(inlineRuns, inlineKept) && i.state.Load() != inlineKept {
		return false
	}
	return i.c.Cancel()
}
