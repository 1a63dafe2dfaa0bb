package conn

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// now is the time since the cluster's base.
func (c *Conn) now() int64 { return int64(time.Since(c.base)) }

// arm sets the timer for a call's deadline or for the next look at its context. The lock is held; a timer's Reset
// does not block.
func (c *Conn) arm(deadline int64, cancelable bool) {
	now := c.now()
	want := deadline
	if cancelable && !c.ticking {
		c.ticking = true
		want = min(want, now+int64(watchTick))
	}
	if want < c.armed {
		c.armed = want
		c.timer.Reset(time.Duration(max(want-now, 0)))
	}
}

// sweep runs when the timer fires: it expires what is due, watches the contexts of calls that have lasted a tick, and
// arms the timer again for the earliest deadline that is left, or for the next tick.
func (c *Conn) sweep() {
	c.mu.Lock()
	c.armed, c.ticking = never, false
	used, fills := c.slots.used, c.fills
	c.mu.Unlock()
	var due, watch []*call.Call
	silent, durable, again := false, false, false
	next, now, gone := int64(never), c.now(), 0
	for i := range used {
		s := c.slots.at(uint16(i))
		v, ok := s.hold()
		if !ok {
			continue
		}
		switch call := s.call; {
		case call.Ended(), call.Deadline <= now:
			// if its context's timer was first, the node has left it without an answer all the same
			if call.Deadline <= now {
				due = append(due, call)
				silent = silent || call.Route.Reads == fills && call.Req.Connection() == "" &&
					call.Sent() != memd.OpNoop
			}
			call.Share()
			s.call = nil
			gone++
			s.word.Store(uint64(uint32(v))&^3 | slotOrphan)
		default:
			next = min(next, call.Deadline)
			durable = durable || call.Req.Durability != 0
			switch {
			case !call.Unwatched():
			case call.Started+int64(watchTick) > now:
				again = true
			default:
				call.Share()
				watch = append(watch, call)
			}
			s.word.Store(v)
		}
	}
	c.mu.Lock()
	c.inflight -= gone
	c.orphans += gone
	over := c.orphans > maxOrphans
	room := c.room()
	if again && !c.ticking {
		c.ticking = true
		next = min(next, now+int64(watchTick))
	}
	if next < c.armed && !c.down {
		c.armed = next
		c.timer.Reset(time.Duration(max(next-c.now(), 0)))
	}
	c.mu.Unlock()
	for _, call := range due {
		c.h.Expired(call)
	}
	if silent && !durable {
		c.h.Silent(c)
	}
	if room {
		c.h.Room(c)
	}
	for _, call := range watch {
		call.Watch()
	}
	if over {
		c.Close(ErrOrphans)
	}
}

// Durable reports whether a durable write waits for its answer. A node may hold up whatever comes after such a write on
// the connection, even where it answers out of order: only requests for documents pass each other.
func (c *Conn) Durable() bool {
	c.mu.Lock()
	used := c.slots.used
	c.mu.Unlock()
	for i := range used {
		s := c.slots.at(uint16(i))
		v, ok := s.hold()
		if !ok {
			continue
		}
		durable := s.call.Req.Durability != 0
		s.word.Store(v)
		if durable {
			return true
		}
	}
	return false
}
