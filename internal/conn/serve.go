package conn

import (
	"runtime"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// read is the reader's loop. For each read it completes every whole packet, gives the slots back, and writes what
// callers have appended meanwhile. It ends with the error of a read, or of a packet.
func (c *Conn) read() (err error) {
	if c.reader.n == 0 { // nothing was read in the handshake
		err = c.reader.fill()
	}
	for err == nil {
		c.mu.Lock()
		if c.writer.role == unowned {
			c.writer.role = reading
		}
		c.mu.Unlock()
		err = c.packets()
		c.settle()
		if err == nil {
			err = c.reader.fill()
		}
	}
	return err
}

// packets completes every packet that is whole in the buffer.
func (c *Conn) packets() error {
	r := &c.reader
	r.answers, r.parked, r.now = 0, 0, 0
	for {
		p, err := r.next()
		long := err == errLong //nolint:errorlint // the value itself
		if long {
			c.stopReading() // a long packet may take a while to arrive: until then, callers write themselves
			p, err = r.long()
		}
		if p == nil {
			return err
		}
		c.packet(p, long)
	}
}

// settle gives back the slots of the answers of one read. Then the reader yields, so that the callers that it has woken
// append their next requests, and writes those.
func (c *Conn) settle() {
	r := &c.reader
	c.mu.Lock()
	yield := c.writer.role == reading && !c.writer.large() && !r.wokeNone()
	c.giveBack()
	c.Stats.Answers.Add(int64(r.answers))
	if yield {
		runtime.Gosched()
	}
	c.stopReading()
}

// giveBack gives back the slots of the answers so far, and calls that wait for a slot take them. The lock is held, and
// is released before that.
func (c *Conn) giveBack() {
	r := &c.reader
	for _, opaque := range r.freed {
		c.slots.give(opaque)
	}
	c.slots.orphans.all -= r.orphaned.all
	c.slots.orphans.own -= r.orphaned.own
	r.freed, r.orphaned = r.freed[:0], orphans{}
	room := c.slots.room()
	c.mu.Unlock()
	if room {
		c.h.Room(c)
	}
}

// refused gives a call an answer that is no success. It may bring a map, with which calls of another node go on over
// this connection: those that wait here already take the free slots first.
func (c *Conn) refused(call *call.Call, p *memd.Packet) {
	c.mu.Lock()
	c.giveBack()
	c.h.Answered(c, call, p)
	// Another use of the call's memory may have begun: then the count is wrong, which costs or saves a yield at most.
	if call.State.Phase() == retry.PhaseParked {
		c.reader.parked++
	}
}

// stopReading ends the reader's turn as the writer, if it has the role: it writes what callers have appended. From then
// on a caller that appends becomes the writer.
func (c *Conn) stopReading() {
	c.mu.Lock()
	mine := c.writer.become(reading)
	c.mu.Unlock()
	if mine {
		c.flush()
	}
}

// packet gives one packet to the call that waits for it. With owned the value is memory of its own, not in the buffer.
func (c *Conn) packet(p *memd.Packet, owned bool) {
	switch {
	case p.Magic == memd.MagicServerRes:
		return
	case !p.Magic.IsResponse():
		c.h.Push(c, p)
		return
	}
	s := c.slots.at(p.Opaque)
	if s == nil {
		c.orphan(p, lateCall{})
		return
	}
	if call.Continues(p) {
		c.part(s, p)
		return
	}
	epoch, ok := s.claim(p.Opaque, slotFree, true)
	if !ok {
		var late lateCall
		if s.orphanEnds(p.Opaque) {
			c.reader.freed = append(c.reader.freed, p.Opaque)
			c.reader.orphaned.add(p.Opaque, 1)
			late = c.forget(p.Opaque)
			c.countLate(p.Opcode, &late)
		}
		c.orphan(p, late)
		return
	}
	call := s.call
	s.call = nil
	c.reader.freed = append(c.reader.freed, p.Opaque)
	c.reader.answers++
	c.answer(call, epoch, p, owned)
}

// answer gives a call the last packet of its answer.
func (c *Conn) answer(call *call.Call, epoch uint32, p *memd.Packet, owned bool) {
	if c.counts.On() {
		c.countAnswer(call)
	}
	switch {
	case p.Opcode != call.Sent(): // no later answer can be trusted either
		c.h.Unanswered(1, ErrOutOfStep)
		c.h.Lost(call, epoch, ErrOutOfStep)
		c.Close(ErrOutOfStep)
	case p.Status == memd.StatusSuccess:
		if f := c.feedback.Load(); f != nil {
			(*f).Success()
		}
		if !call.Win(epoch, p, owned) {
			c.unwanted(p, call.Late())
		}
	case call.State.Answered(epoch):
		c.refused(call, p)
	default:
		c.unwanted(p, call.Late())
	}
}

// part handles one packet of an answer that has several, unless it is the last: the call keeps it and goes on waiting.
// When the call has left, the packet is dropped, and the slot stays reserved for the packets that follow.
func (c *Conn) part(s *slot, p *memd.Packet) {
	epoch, ok := s.claim(p.Opaque, slotHeld, true)
	if !ok {
		return
	}
	if s.call.Req.Opcode == p.Opcode && !s.call.Ended() {
		s.call.TakePart(p, epoch)
		c.reader.answers++
	}
	s.word.Store(uint64(epoch)<<32 | uint64(p.Opaque&genMask)<<2 | slotLive)
}

func (c *Conn) orphan(p *memd.Packet, late lateCall) {
	c.Stats.Orphans.Add(1)
	c.h.Orphan(c, p, late)
}
