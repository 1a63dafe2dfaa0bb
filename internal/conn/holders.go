package conn

import "github.com/couchcore/couchcore/internal/call"

// Requests that a node may keep waiting, and with them what follows on the connection, a sign of life included (see
// call.Request.MayWait): while there are any, silence says nothing of the other end.

// holders are those that have left without an answer. The lock of the Conn protects its own.
type holders struct {
	until int64 // the node may keep one of them waiting until then
	// Nothing had come since one was sent when it left: when the node must have answered that one, 0 for none, and how
	// often the connection had read something.
	owed  int64
	reads uint32
}

// leaves notes that a call leaves without an answer: reads is how often the connection has read something until now.
func (h *holders) leaves(c *call.Call, reads uint32) {
	most, began := c.Req.MayWait(), c.Began()
	if most == 0 || began < 0 {
		return
	}
	h.until = max(h.until, began+int64(most))
	if c.Route.Reads == reads {
		h.owes(began+int64(most), reads)
	}
}

// owes keeps the first answer that must have come since something came.
func (h *holders) owes(at int64, reads uint32) {
	if h.owed == 0 || h.reads != reads || at < h.owed {
		h.owed, h.reads = at, reads
	}
}

// add adds others that have left since.
func (h *holders) add(o holders) {
	h.until = max(h.until, o.until)
	if o.owed != 0 {
		h.owes(o.owed, o.reads)
	}
}

// holdUp reports whether silence may come of one of them, or of one that is in flight. Once an answer is overdue it
// does not, until something comes: others that are sent all the time must not hide that the other end is gone.
func (h *holders) holdUp(inFlight bool, now int64, reads uint32) bool {
	overdue := h.owed != 0 && h.owed <= now && h.reads == reads
	return (inFlight || h.until > now) && !overdue
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
