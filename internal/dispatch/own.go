package dispatch

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Strict is the strategy of the client's own requests: they are repeated by their next turn, not by a retry. It is not
// for users: the module keeps it internal.
var Strict retry.Strategy = strict{}

type strict struct{}

func (strict) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}
func (strict) Inline() bool { return true }

// noop makes a request for a sign of life of the node, over its connection of that id, "" for any. It is to be run by
// run or send.
func (n *node) noop(connection string, limit time.Duration) *call.Call {
	c := n.r.own(memd.OpNoop, limit)
	o := c.Req.Own()
	c.Req.Pinned, o.Node, o.Connection = true, n.index(), connection
	return c
}

// own makes a request of the client's own.
func (r *Router) own(op memd.Opcode, limit time.Duration) *call.Call {
	c := r.NewCall()
	c.Req.Opcode, c.Req.Timeout, c.Req.Own().Retry = op, limit, Strict
	return c
}

// run runs a request of the client's own and waits for its outcome.
func (r *Router) run(ctx context.Context, c *call.Call) error {
	defer r.Release(c)
	return c.Run(ctx, r)
}

// send runs a request of the client's own and has done called with its outcome on a goroutine of the router's.
func (r *Router) send(c *call.Call, done func(error)) {
	c.Callback(func() { done(c.Outcome()) })
	if err := c.Prepare(r.ctx); err != nil {
		r.Complete(func() { done(c.Unprepared(r.ctx, err)) })
		return
	}
	r.Dispatch(c)
}
