package retry

import "context"

// Ask asks r's strategy, or that of operations without one of their own, about a failure that is no operation's, such
// as one of a program that waits: nothing is counted, parked, reported or charged. It fills in what a Request has of
// the strategy, the reason and the client. It blocks as long as the strategy does, at most until ctx ends; the error is
// then ctx's, and that of a strategy that panics its *PanicError. A strategy that ignores its context keeps its
// goroutine until it returns.
func (o *Orchestrator) Ask(ctx context.Context, r Request, why Reason) (Action, error) {
	of := State{Strategy: r.Strategy}
	st := o.strategyOf(&of)
	r.Context, r.Strategy, r.Default, r.JitterSource = ctx, st, o.inherited(&of), o.opts.JitterSource
	r.Kind, r.Unseen = why.Kind(), why.Unseen()
	if inline(st, r.Default) {
		return ask(ctx, st, &r, why)
	}
	type answer struct {
		Action
		err error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer, 1)
	go func() {
		a := answer{err: errStrategyGone} // stays when the strategy ends its goroutine
		defer func() { answers <- a }()
		a.Action, a.err = ask(ctx, st, &r, why)
	}()
	select {
	case a := <-answers:
		return a.Action, a.err
	case <-ctx.Done():
		return Stop(), context.Cause(ctx)
	}
}
