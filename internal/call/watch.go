package call

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// Watch makes the end of the caller's context end the call. It may be called more than once, from anywhere.
func (c *Call) Watch() {
	if !c.Cancelable() || !c.Slow().watched.CompareAndSwap(false, true) {
		return
	}
	c.Share()
	stop := context.AfterFunc(c.ctx, func() { c.home.Owner.Cancel(c, c.Over()) })
	c.Slow().unwatch.Store(&stop)
	if c.State.Phase() == retry.PhaseDone {
		stop()
	}
}

// Over is why the caller's context has ended, nil when it has not: the deadline alone is a timeout.
func (c *Call) Over() error {
	switch {
	case !c.Cancelable():
		return nil
	case errors.Is(c.ctx.Err(), context.DeadlineExceeded):
		return context.DeadlineExceeded // the owner makes a timeout of it
	}
	return context.Cause(c.ctx)
}

// Cancelable reports whether the caller's context can end before its deadline does.
func (c *Call) Cancelable() bool { return c.has&hasContext != 0 }

// Unwatched reports whether the caller's context can end the call and Watch has not been called yet.
func (c *Call) Unwatched() bool {
	s := c.slow.Load()
	return c.Cancelable() && (s == nil || !s.watched.Load())
}

// Watcher is told what becomes of a call. Its methods must not block; all but Done are called on connections' readers
// and writers, and under their locks.
type Watcher interface {
	// Sent says that an attempt begins: its request was appended to what a connection writes.
	Sent(v *Via, opaque uint32)
	// Unsent says that nothing of the attempt has left.
	Unsent()
	// Failed says that the attempt which was out, if one was, has failed. The call may go on. cause is not to be kept.
	Failed(cause error)
	// Retried says that the call is sent again, or is about to be: how often it has been, why, and after which delay.
	Retried(retries int, why retry.Reason, delay time.Duration)
	// Done gives the outcome, once, on a goroutine that is no connection's.
	Done(err error)
}

// ObserveAttempts has w told what becomes of the call and of its attempts.
func (c *Call) ObserveAttempts(w Watcher) { c.Slow().watcher, c.observed = w, true }

// Watcher is what ObserveAttempts was given last, which may be in an earlier use of the call; nil when nothing was.
func (c *Call) Watcher() Watcher {
	if s := c.slow.Load(); s != nil {
		return s.watcher
	}
	return nil
}

// AttemptFailed implements retry.Attempter.
func (c *Call) AttemptFailed(cause error) {
	if c.observed {
		c.Slow().watcher.Failed(cause)
	}
}

// Again says that the call is sent again. The dispatcher that does so calls it before.
func (c *Call) Again() {
	if c.observed {
		c.Slow().watcher.Retried(c.State.Again())
	}
}

// NotSent says that nothing of the call's attempt has left.
func (c *Call) NotSent() {
	if c.observed {
		c.Slow().watcher.Unsent()
	}
}
