package call

import (
	"runtime"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Succeed finishes c with a successful answer that p holds; the caller has claimed the attempt. It copies what it
// needs of p. False means that the call had ended: the answer is an orphan.
// owned says that p's value is memory of its own that the call may keep.
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

// left has those forget the ended call who know of it, but for its waiter.
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
	if stop := s.unwatch.Load(); stop != nil { // lets go of the caller's context
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

// TakePart keeps one packet of an answer that has several; Continues says which those are. epoch is the attempt's
// number, and the caller is the reader of the connection that carries it. It copies what it needs of p.
func (c *Call) TakePart(p *memd.Packet, epoch uint32) { c.Res.part(p, epoch) }

// Fail finishes c with err unless it has ended, and says whether it did.
func (c *Call) Fail(err error) bool { return c.fail(err, false) }

// Refuse is Fail with what the server has answered, for a reader that has claimed the attempt and has told no other
// goroutine of it. A missing document is a frequent outcome: such a call may be used again.
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

// Taken says that a call which has waited for its turn is on its way.
func (c *Call) Taken() {
	if c.has&hasTurn != 0 && c.started.takenOnce.CompareAndSwap(false, true) {
		close(c.started.taken)
	}
}

// AwaitTurn blocks while the call waits for its turn. Its deadline and the end of its context end that too.
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
			c.started.end()
			return
		}
		c.home.Owner.Complete(func() { // it may never be waited for, and the observer is told
			c.started.finish()
			c.started.end()
		})
	case formCallback:
		if c.home == nil {
			c.started.finish()
			return
		}
		c.home.Owner.Complete(c.started.finish)
	}
}

// Outcome gives the finished call's error, translated: nil, or a *Error. It is called once.
func (c *Call) Outcome() error {
	err := c.result()
	if c.observed {
		if c.Req.AbsentOK && IsAbsent(err) { // an answer, to the observer too
			c.Slow().watcher.Done(nil)
		} else {
			c.Slow().watcher.Done(err)
		}
	}
	return err
}

func (c *Call) result() error {
	if !c.failed {
		return nil
	}
	return c.Translate(c.err, c.inDoubt)
}

// Ended reports whether the call has finished.
func (c *Call) Ended() bool { return c.State.Phase() == retry.PhaseDone }
