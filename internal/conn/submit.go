package conn

import (
	"runtime"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Submit appends the call's request and sees to it that it is written. It never blocks. When it fails the call was not
// taken: ErrClosed, ErrFull, or what is wrong with the request. A call that has ended meanwhile is dropped silently.
func (c *Conn) Submit(call *call.Call) error {
	if c.info.Features.Has(memd.FeatureSnappy) {
		call.Pack(&c.packer)
	}
	c.mu.Lock()
	err := c.put(call)
	c.write(1)
	return err
}

// maxRound is how many requests are appended under one lock: some microseconds' worth.
const maxRound = 64

// SubmitAll is Submit for many calls at once. It takes them in order and says how many; the first that was left is one
// that Submit would not have taken.
func (c *Conn) SubmitAll(calls []*call.Call) (taken int) {
	for more := true; ; {
		round := calls[taken:min(taken+maxRound, len(calls))]
		if c.info.Features.Has(memd.FeatureSnappy) {
			for _, call := range round { // not all of them: a full connection takes none
				call.Pack(&c.packer)
			}
		}
		c.mu.Lock()
		for _, call := range round {
			if more = c.put(call) == nil; !more {
				break
			}
			taken++
		}
		if !more || taken == len(calls) {
			c.write(taken)
			return taken
		}
		c.mu.Unlock()
	}
}

// write ends a turn in the lock in which that many calls were taken: a caller that finds no writer becomes the writer.
// With other calls in flight it yields once before, so that their callers append to the same write; but not for a
// large request, which is most of its write.
func (c *Conn) write(taken int) {
	mine := c.writer.become(unowned)
	yield := mine && c.slots.inFlight() > taken && !c.writer.large()
	c.mu.Unlock()
	if yield {
		runtime.Gosched()
	}
	if mine {
		c.flush()
	}
}

// WantRoom reports whether the connection takes calls, or has ended. If it does neither, Room is called once when it
// does.
func (c *Conn) WantRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots.wanted = c.cause == nil && !c.refusing && c.slots.full()
	return !c.slots.wanted
}

// put gives the call a slot and appends its request. One that has ended meanwhile is dropped silently. The lock is
// held.
func (c *Conn) put(call *call.Call) error {
	switch {
	case c.cause != nil || c.refusing:
		return ErrClosed
	case c.slots.full():
		return ErrFull
	}
	s, opaque := c.slots.take()
	if s == nil {
		return ErrFull
	}
	added, err := c.writer.add(call, opaque)
	if !added {
		c.slots.give(opaque)
		return err
	}
	call.Route.Reads = uint32(c.Stats.Reads.Load())
	s.live(call, opaque)
	c.deadlines.add(call)
	return nil
}
