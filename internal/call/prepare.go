package call

import (
	"context"
	"errors"

	"github.com/couchcore/couchcore/retry"
)

// Prepare loads what the call needs besides the operation's fields. A context that has ended already ends the call
// here, before anything is sent.
func (c *Call) Prepare(ctx context.Context) error {
	spec := c.Spec()
	c.State.Idempotent = spec != nil && spec.Has(Idempotent)
	if c.Req.Retry() != nil {
		c.SetStrategy(c.Req.Retry())
	}
	c.ctx = ctx
	if c.has&hasRefused != 0 {
		return retry.ErrClosed
	}
	if spec == nil {
		return BadArgument("opcode", c.Req.Opcode.String()+" is not an operation of this client")
	}
	if err := c.Req.Validate(spec); err != nil {
		return err
	}
	if c.Req.Durability != 0 && c.Req.Capability() == "" {
		c.Req.Own().Capability = CapabilityDurableWrite
	}
	c.Req.simple = c.Req.isSimple(spec)
	if c.Req.Block() && c.started != nil {
		c.has |= hasTurn
		c.started.taken = make(chan struct{})
	}
	if ctx.Done() != nil {
		c.has |= hasContext
		if err := ctx.Err(); err != nil {
			return &contextError{cause: context.Cause(ctx), deadline: errors.Is(err, context.DeadlineExceeded)}
		}
	}
	return nil
}

// contextError is a context that had ended before the call began.
type contextError struct {
	cause    error
	deadline bool
}

func (e *contextError) Error() string { return e.cause.Error() }

func (e *contextError) Unwrap() error { return e.cause }

// ContextEnded is the failure of a call whose context has ended with cause; deadline says that its time was over.
func ContextEnded(cause error, deadline bool) error {
	return &contextError{cause: cause, deadline: deadline}
}
