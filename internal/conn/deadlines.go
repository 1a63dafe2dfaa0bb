package conn

import (
	"math"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// watchTick is how often calls are looked at whose contexts can end; a call that has lasted as long watches its own.
const watchTick = 2500 * time.Microsecond

// deadlines is the one timer of a connection's calls. Its methods are called with the connection's lock held, but now;
// a timer's Reset does not block.
type deadlines struct {
	base    time.Time // the calls' deadlines count from here
	timer   *time.Timer
	at      int64 // when the timer fires, or one of the two constants
	ticking bool  // it is armed for a call whose context may end
}

const (
	never   = math.MaxInt64 // the timer rests
	stopped = math.MinInt64 // and will not be armed again
)

func (d *deadlines) now() int64 { return int64(time.Since(d.base)) }

// add has the timer fire for a call.
func (d *deadlines) add(c *call.Call) {
	if c.Deadline < d.at || !d.ticking && c.Cancelable() {
		d.arm(c.Deadline, c.Cancelable())
	}
}

// arm has the timer fire at a deadline and, with tick, in a tick.
func (d *deadlines) arm(deadline int64, tick bool) {
	now := d.now()
	if tick && !d.ticking {
		d.ticking = true
		deadline = min(deadline, now+int64(watchTick))
	}
	if deadline < d.at {
		d.at = deadline
		d.timer.Reset(time.Duration(max(deadline-now, 0)))
	}
}

// fired notes that the timer has fired; false after stop.
func (d *deadlines) fired() bool {
	if d.at == stopped {
		return false
	}
	d.at, d.ticking = never, false
	return true
}

func (d *deadlines) stop() {
	d.at = stopped
	d.timer.Stop()
}

// sweep runs when the timer fires: it expires what is due, watches the contexts of calls that have lasted a tick, and
// arms the timer again for the earliest deadline that is left, or for the next tick.
func (c *Conn) sweep() {
	c.mu.Lock()
	used, on := c.slots.used, c.deadlines.fired()
	c.mu.Unlock()
	if !on {
		return
	}
	var due, watch []*call.Call
	silent, durable, tick := false, false, false
	next, now, reads := int64(never), c.deadlines.now(), uint32(c.Stats.Reads.Load())
	gone := c.slots.each(used, func(call *call.Call) (keep bool) {
		if call.Ended() || call.Deadline <= now {
			// if its context's timer was first, the node has left it without an answer all the same
			if call.Deadline <= now {
				due = append(due, call)
				silent = silent || call.Route.Reads == reads && call.Req.Connection() == "" &&
					call.Sent() != memd.OpNoop
			}
			call.Share()
			return false
		}
		next = min(next, call.Deadline)
		durable = durable || call.Req.Durability != 0
		switch {
		case !call.Unwatched():
		case call.Started+int64(watchTick) > now:
			tick = true
		default:
			call.Share()
			watch = append(watch, call)
		}
		return true
	})
	c.mu.Lock()
	c.slots.orphans += gone
	over, room := c.slots.orphans > maxOrphans, c.slots.room()
	c.deadlines.arm(next, tick)
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
func (c *Conn) Durable() (durable bool) {
	c.mu.Lock()
	used := c.slots.used
	c.mu.Unlock()
	c.slots.each(used, func(call *call.Call) bool {
		durable = durable || call.Req.Durability != 0
		return true
	})
	return durable
}
