package call

import (
	"runtime"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Succeed finishes c with the successful answer p, for a caller that has claimed the attempt. It copies what it needs
// of p; with owned p's value is memory of its own, which the call keeps. False means that the call had ended before:
// the answer is an orphan.
func (c *Call) Succeed(p *memd.Packet, owned bool) bool {
	won, _ := c.State.Finish()
	if won {
		c.State.Settle(nil)
		c.set(p, owned)
		c.deliver()
	}
	return won
}

// Win is Succeed for a reader that has not claimed the attempt, whose number is epoch.
func (c *Call) Win(epoch uint32, p *memd.Packet, owned bool) bool {
	if !c.State.Succeeded(epoch) {
		return false
	}
	c.set(p, owned)
	c.deliver()
	return true
}

// left lets go of an ended call: the deadline that its owner keeps, and the watch of its context, which would otherwise
// hold it in memory.
func (c *Call) left() {
	if !c.shared() {
		return
	}
	s := c.slow.Load()
	if s == nil {
		return
	}
	if s.held.Load() {
		c.letGo()
	}
	if stop := s.unwatch.Load(); stop != nil {
		(*stop)()
	}
}

func (c *Call) set(p *memd.Packet, owned bool) {
	into := c.Req.Into
	if p.Datatype&memd.DatatypeSnappy != 0 {
		into = nil
		if !c.Req.KeepCompressed { // it is inflated into other memory before the operation sees it
			k := c.Req.kept()
			c.Res.set(p, k.spare[:0], owned)
			if cap(c.Res.Value) <= maxKept {
				k.spare = c.Res.Value
			}
			return
		}
	}
	c.Res.set(p, into, owned)
}

// TakePart keeps one packet of an answer that has several (Continues says which those are). The reader of the attempt's
// connection calls it; epoch is the attempt's number. It copies what it needs of p.
func (c *Call) TakePart(p *memd.Packet, epoch uint32) { c.Res.part(p, epoch) }

// Fail finishes c with err unless it has ended, and says whether it did.
func (c *Call) Fail(err error) bool { return c.fail(err, false) }

// Refuse is Fail for a reader that has claimed the attempt and has told no other goroutine of the call; err is what the
// server has answered. Such a call may be pooled, unlike others that have failed: a missing document is a frequent
// outcome.
func (c *Call) Refuse(err error) { c.fail(err, true) }

func (c *Call) fail(err error, refused bool) bool {
	won, inDoubt := c.State.Finish()
	if !won {
		return false
	}
	c.State.Settle(err)
	c.refused = refused
	c.Done(err, inDoubt)
	return true
}

// Done finishes c for the goroutine that has won State.Finish. It implements retry.Op.
func (c *Call) Done(err error, inDoubt bool) {
	c.err, c.inDoubt, c.failed = err, inDoubt, true
	for !c.guard.CompareAndSwap(0, 2) {
		runtime.Gosched() // an encoder is copying the caller's bytes: some microseconds at most
	}
	c.deliver()
}

// Taken wakes the starter of a call that has waited for its turn: the call is on its way now, or has ended.
func (c *Call) Taken() {
	if c.has&hasTurn != 0 && c.started.takenOnce.CompareAndSwap(false, true) {
		close(c.started.taken)
	}
}

// AwaitTurn blocks its starter while the call waits for its turn; the call's deadline and the end of its context end
// that, too. It does nothing for a call without the operation's Block.
func (c *Call) AwaitTurn() {
	if c.has&hasTurn != 0 && c.stage() == StageRoom {
		<-c.started.taken
	}
}

func (c *Call) deliver() {
	c.left()
	c.Taken()
	switch c.form {
	case formBlocking:
		c.wake <- struct{}{}
	case formBatch:
		c.group.Done()
	case formFuture:
		if !c.observed {
			c.FinishFuture()
			return
		}
		c.home.Owner.Complete(func() { // it may never be waited for, and the observer is told
			c.started.finish()
			c.FinishFuture()
		})
	case formInline:
		if c.home == nil || !c.failed || c.refused {
			c.started.finish()
			return
		}
		c.home.Owner.Complete(c.started.finish)
	case formCallback:
		if c.home == nil {
			c.started.finish()
			return
		}
		c.home.Owner.Complete(c.started.finish)
	}
}

// Outcome gives the finished call's error, translated: nil, or a *Error. It is called once, and Told behind it.
func (c *Call) Outcome() error {
	if !c.failed {
		return nil
	}
	return c.Translate(c.err, c.inDoubt)
}

// Told gives err, which is what the caller gets of a finished call. What observes the call is told of it.
func (c *Call) Told(err error) error {
	if c.observed {
		c.Slow().watcher.Done(err)
	}
	if c.shared() { // any other was answered at once
		if o, ok := c.Owner().(Reporter); ok {
			o.Report(c)
		}
	}
	return err
}

// Ended reports whether the call has finished.
func (c *Call) Ended() bool { return c.State.Phase() == retry.PhaseDone }
