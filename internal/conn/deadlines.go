package conn

import (
	"math"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// watchTick is how often the timer looks at calls whose contexts can end, or later where looks are paced. A call that
// has lasted for one tick watches its own context from then on.
const watchTick = 2500 * time.Microsecond

// deadlines is the one timer of a connection's calls. All methods but now are called with the connection's lock held: a
// timer's Reset does not block.
type deadlines struct {
	base    time.Time // the calls' deadlines count from here
	timer   *time.Timer
	slow    int64 // after which a call is shared; 0: never
	at      int64 // when the timer fires, or one of the two constants
	from    int64 // the timer does not fire before that
	looking bool  // the timer is armed when the look is over
	ticking bool  // the timer is armed for a tick, because the context of a call can end
}

const (
	never   = math.MaxInt64 // the timer is not armed
	stopped = math.MinInt64 // the timer is not armed, and will not be armed again
)

func (d *deadlines) now() int64 { return int64(time.Since(d.base)) }

// add arms the timer for a call that was appended.
func (d *deadlines) add(c *call.Call) {
	due := c.Deadline
	if d.slow > 0 {
		due = min(due, c.Started+d.slow)
	}
	if due < d.at || !d.ticking && c.Cancelable() {
		d.arm(due, c.Cancelable())
	}
}

// lookShare is how many times as long as the last look at all calls took the timer waits before the next one, up to
// lookPause: where a node does not answer, each deadline would otherwise have all other calls looked at.
const (
	lookShare = 9
	lookPause = 5 * time.Millisecond
)

// looked arms the timer when a look at all calls is over: for the calls that it has seen, as arm does, and for those
// that were added meanwhile.
func (d *deadlines) looked(began, deadline int64, tick bool) {
	now := d.now()
	d.from = now + min(lookShare*(now-began), int64(lookPause))
	d.arm(deadline, tick)
	d.looking = false
	if d.at != stopped && d.at != never {
		d.at = max(d.at, d.from)
		d.timer.Reset(time.Duration(d.at - now))
	}
}

// arm makes the timer fire by the deadline; with tick, by the next tick too.
func (d *deadlines) arm(deadline int64, tick bool) {
	now := d.now()
	if tick && !d.ticking {
		d.ticking = true
		deadline = min(deadline, now+int64(watchTick))
	}
	if deadline = max(deadline, d.from); deadline < d.at {
		d.at = deadline
		if !d.looking {
			d.timer.Reset(time.Duration(max(deadline-now, 0)))
		}
	}
}

// dueOf is when a call is to be looked at: at its deadline, and before that once when it has become slow.
func (d *deadlines) dueOf(c *call.Call, now int64) int64 {
	at := c.Started + d.slow
	switch {
	case d.slow <= 0 || at >= c.Deadline:
	case at > now:
		return at
	default:
		c.Share()
	}
	return c.Deadline
}

// fired notes that the timer has fired, and a look begins; false after stop.
func (d *deadlines) fired() bool {
	if d.at == stopped {
		return false
	}
	d.at, d.ticking, d.looking = never, false, true
	return true
}

func (d *deadlines) stop() {
	d.at = stopped
	d.timer.Stop()
}

// sweep runs when the timer fires. It expires the calls whose deadlines have passed, has calls that have lasted a tick
// watch their contexts, and arms the timer for the earliest deadline that is left, or for the next tick.
func (c *Conn) sweep() {
	c.mu.Lock()
	end, on := c.slots.end(), c.deadlines.fired()
	c.mu.Unlock()
	if !on {
		return
	}
	var watch []*call.Call
	held, tick := false, false
	next, now := int64(never), c.deadlines.now()
	left := leaving{now: now, reads: uint32(c.Stats.Reads.Load())}
	gone := c.slots.each(end, func(call *call.Call, sent bool) (keep bool) {
		if call.Ended() || call.Deadline <= now {
			c.countUnanswered(call, sent, now)
			left.add(call)
			return false
		}
		next = min(next, c.deadlines.dueOf(call, now))
		held = held || call.Req.MayWait() > 0
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
	c.slots.orphans.all += gone.all
	c.slots.orphans.own += gone.own
	c.remember(left.late)
	c.holders.add(left.holders)
	heldUp := c.holders.holdUp(held, now, left.reads)
	over, room := c.slots.orphans.all > maxOrphans, c.slots.room()
	c.deadlines.looked(now, next, tick)
	c.mu.Unlock()
	c.expire(left.due)
	if left.silent && !heldUp {
		c.h.Silent(c)
	}
	if over {
		c.Close(ErrOrphans)
	}
	if room {
		c.h.Room(c)
	}
	for _, call := range watch {
		call.Watch()
	}
}

// leaving are the calls that a sweep takes out of their slots, without an answer.
type leaving struct {
	now     int64
	reads   uint32       // how often the connection has read something until now
	due     []*call.Call // those whose deadline has passed
	late    []lateCall
	holders holders
	silent  bool // nothing has come since one of them was sent
}

func (l *leaving) add(c *call.Call) {
	l.holders.leaves(c, l.reads)
	// A call whose context's timer was first has ended, but the node has not answered it either: it counts.
	if c.Deadline <= l.now {
		l.due = append(l.due, c)
		l.silent = l.silent || c.Route.Reads == l.reads && c.Req.Connection() == "" && c.Sent() != memd.OpNoop
	}
	c.Share()
	if len(l.late) < maxMarks {
		l.late = append(l.late, c.Late())
	}
}

// expire reports calls whose deadline has passed.
func (c *Conn) expire(due []*call.Call) {
	if len(due) > 0 {
		c.h.Unanswered(len(due), nil)
		c.h.Expired(due)
	}
}

// lateCall is a call that has left before its answer came.
type lateCall = call.Late

// maxMarks is how many of them a connection keeps in mind for reports.
const maxMarks = 1000

// remember keeps them until their answers come. The lock is held.
func (c *Conn) remember(late []lateCall) {
	for _, l := range late {
		if c.late == nil {
			c.late = map[uint32]lateCall{}
		}
		if len(c.late) < maxMarks {
			c.late[l.Opaque] = l
		}
	}
}

// forget gives what is known of the call that an answer has come too late for.
func (c *Conn) forget(opaque uint32) (l lateCall) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l = c.late[opaque]
	delete(c.late, opaque)
	return l
}
