package conn

import "github.com/couchcore/couchcore/internal/call"

// Requests that a node may keep waiting, and with them what follows on the connection, a sign of life included (see
// call.Request.MayWait): while there are any, silence says nothing of the other end.

// holders are those that have left without an answer. The lock of the Conn protects its own.
type holders struct {
	until int64 // the node may keep one of them waiting until then
	// One was overdue: the node had had all its time, and nothing had come since it was sent. So often had the
	// connection read something then.
	overdue bool
	reads   uint32
}

// leaves notes that a call leaves without an answer: reads is how often the connection has read something until now.
func (h *holders) leaves(c *call.Call, now int64, reads uint32) {
	most, began := c.Req.MayWait(), c.Began()
	switch {
	case most == 0 || began < 0:
	case began+int64(most) > now:
		h.until = max(h.until, began+int64(most))
	case c.Route.Reads == reads:
		h.overdue, h.reads = true, reads
	}
}

// add adds others that have left since.
func (h *holders) add(o holders) {
	h.until = max(h.until, o.until)
	if o.overdue {
		h.overdue, h.reads = true, o.reads
	}
}

// holdUp reports whether silence may come of one of them, or of one that is in flight. Once one was overdue it does
// not, until something comes: others that are sent all the time must not hide that the other end is gone.
func (h *holders) holdUp(inFlight bool, now int64, reads uint32) bool {
	return (inFlight || h.until > now) && !(h.overdue && h.reads == reads)
}

// HeldUp reports whether a node may keep a request waiting, and with it what follows on the connection.
func (c *Conn) HeldUp() bool {
	c.mu.Lock()
	end := c.slots.end()
	c.mu.Unlock()
	inFlight := false
	c.slots.each(end, func(call *call.Call, _ bool) bool {
		inFlight = inFlight || call.Req.MayWait() > 0
		return true
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.holders.holdUp(inFlight, c.deadlines.now(), uint32(c.Stats.Reads.Load()))
}
