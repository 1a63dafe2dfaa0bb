package conn

import (
	"errors"
	"io"
	"os"
	"runtime"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// read is the reader's loop: complete every whole packet of one read, then give the slots back, then write what callers
// have appended meanwhile.
func (c *Conn) read() error {
	if p := c.pushed; p != nil {
		c.pushed = nil
		c.h.Push(c, p)
	}
	for left := c.rlen > c.rpos; ; left = false { // of what was read in the handshake
		if !left {
			if err := c.fill(); err != nil {
				return err
			}
		}
		c.mu.Lock()
		c.fills++
		if !c.flushing && c.try != nil {
			c.reading = true
		}
		c.mu.Unlock()
		err := c.packets()
		c.mu.Lock()
		mine := c.reading // a long packet has given the writer's role up
		c.slots.free = append(c.slots.free, c.freed...)
		c.inflight -= c.ended
		c.orphans -= c.orphaned
		room, large := c.room(), c.large()
		c.mu.Unlock()
		if room {
			c.h.Room(c)
		}
		c.Stats.Answers.Add(int64(c.ended))
		c.idleWakes = c.parked > 0 && c.parked == c.ended
		c.freed, c.ended, c.orphaned, c.parked = c.freed[:0], 0, 0, 0
		if mine {
			if !large && !c.idleWakes {
				runtime.Gosched() // the callers just woken append their next requests
			}
			c.stopWriting()
		}
		if err != nil {
			return err
		}
	}
}

// stopWriting ends the reader's role as the writer: it writes what callers have appended, and from now on they write.
func (c *Conn) stopWriting() {
	c.mu.Lock()
	mine := c.reading && len(c.pend) > c.head
	c.reading = false
	c.flushing = c.flushing || mine
	c.mu.Unlock()
	if mine {
		c.flush()
	}
}

// fill reads once, growing the buffer when the last read had filled it.
func (c *Conn) fill() error {
	if c.rpos > 0 {
		copy(c.rbuf, c.rbuf[c.rpos:c.rlen])
		c.rlen -= c.rpos
		c.rpos = 0
	}
	if (c.filled || c.rlen == len(c.rbuf)) && len(c.rbuf) < maxRead {
		c.resize(min(4*len(c.rbuf), maxRead))
	}
	n, err := c.nc.Read(c.rbuf[c.rlen:])
	for n == 0 && err != nil && c.rested(err) {
		if c.rlen == 0 {
			c.resize(idleRead)
		}
		n, err = c.nc.Read(c.rbuf[c.rlen:])
	}
	c.rlen += n
	c.filled = c.rlen == len(c.rbuf)
	if n > 0 {
		c.Stats.Reads.Add(1)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

func (c *Conn) resize(n int) {
	b := make([]byte, n)
	copy(b, c.rbuf[:c.rlen])
	c.rbuf, c.pkt = b, memd.Packet{} // the last answer was in the old one, and would keep it
	c.reads.Store(int32(n))
}

// ShrinkIdle lets go of the memory that only a busy connection needs. It is for one that has read nothing for some
// time; on a busy one it costs a little time and harms nothing.
func (c *Conn) ShrinkIdle() {
	c.mu.Lock()
	c.spares = nil
	c.mu.Unlock()
	if c.reads.Load() <= idleRead {
		return
	}
	if c.resting.CompareAndSwap(awake, shrinking) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader, which alone may change its buffer
		c.resting.Store(shrunk)
	}
}

// Where Rest is on its way. The reader takes the deadline away only when it is certain that it is not yet to be set.
const (
	awake = iota
	shrinking
	shrunk
)

// rested reports whether a read has failed because of Rest, and lets reads block again.
func (c *Conn) rested(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	for c.resting.Load() == shrinking {
		runtime.Gosched() // the other goroutine is setting the deadline, which does not block
	}
	if c.resting.Load() != shrunk || c.nc.SetReadDeadline(time.Time{}) != nil {
		return false
	}
	c.resting.Store(awake)
	return true
}

// packets completes what the buffer holds.
func (c *Conn) packets() error {
	p := &c.pkt
	for c.rlen-c.rpos >= memd.HeaderLen {
		b := c.rbuf[c.rpos:c.rlen]
		if n := p.ParseSuccess(b, c.limit); n > 0 {
			c.rpos += n
			c.fast(p)
			continue
		}
		n, err := p.Parse(b, c.limit)
		switch {
		case err == nil:
			c.rpos += n
			c.packet(p, false)
		case err != memd.ErrShort: //nolint:errorlint // the value itself
			return err
		case n <= maxRead:
			return nil
		default:
			if err := c.long(p); err != nil {
				return err
			}
		}
	}
	if c.rpos == c.rlen {
		c.rpos, c.rlen = 0, 0
	}
	return nil
}

// long receives a packet that is longer than the buffer: its value goes straight into memory of its own size. Of one
// that is longer than firstLong no more memory is taken than twice what has come: the header alone proves nothing.
func (c *Conn) long(p *memd.Packet) error {
	h, err := memd.ParseHeader(c.rbuf[c.rpos:c.rlen], c.limit)
	if err != nil {
		return err
	}
	c.stopWriting() // the packet may take long to arrive, and requests that are appended meanwhile do not wait for it
	c.rpos += memd.HeaderLen
	head := make([]byte, h.BodyLen-h.ValueLen()) // 64 KiB and some bytes at most
	if err := c.receive(head); err != nil {
		return err
	}
	value := make([]byte, min(h.ValueLen(), firstLong))
	if err := c.receive(value); err != nil {
		return err
	}
	for had := len(value); had < h.ValueLen(); had = len(value) {
		value = append(make([]byte, 0, min(h.ValueLen(), 2*had)), value...)
		value = value[:cap(value)]
		if err := c.receive(value[had:]); err != nil {
			return err
		}
	}
	h.BodyLen = len(head)
	p.SetBody(&h, head)
	p.Value = value
	c.packet(p, true)
	return nil
}

// receive fills b with what comes next, of which the buffer may hold a part.
func (c *Conn) receive(b []byte) error {
	n := copy(b, c.rbuf[c.rpos:c.rlen])
	c.rpos += n
	for n < len(b) {
		m, err := io.ReadFull((*counted)(c), b[n:])
		n += m
		if err != nil && !c.rested(err) {
			return err
		}
	}
	return nil
}

// counted is the connection's socket while a packet is received that takes many reads: each of them is a sign of life.
type counted Conn

func (c *counted) Read(b []byte) (n int, err error) {
	n, err = c.nc.Read(b)
	if n > 0 {
		c.Stats.Reads.Add(1)
		c.mu.Lock()
		c.fills++
		c.mu.Unlock()
	}
	return n, err
}

// fast is packet for a success that is whole in the buffer, with as little as possible in between.
func (c *Conn) fast(p *memd.Packet) {
	i := uint16(p.Opaque >> 16)
	if s := c.slots.at(i); s != nil && !call.Continues(p) {
		if epoch, ok := s.claimNow(p.Opaque & genMask); ok {
			c.succeeded(c.claimed(s, i), epoch, p, false)
			return
		}
	}
	c.packet(p, false)
}

// claimed gives the call of a slot whose attempt the reader has claimed, and notes that the slot is free.
func (c *Conn) claimed(s *slot, i uint16) *call.Call {
	call := s.call
	s.call = nil
	c.freed = append(c.freed, i)
	c.ended++
	return call
}

func (c *Conn) succeeded(call *call.Call, epoch uint32, p *memd.Packet, owned bool) {
	if p.Opcode != call.Sent() {
		c.outOfStep(call, epoch)
		return
	}
	if f := c.feedback.Load(); f != nil {
		(*f).Success()
	}
	if !call.Win(epoch, p, owned) {
		c.orphan(p)
	}
}

// outOfStep is an answer to another request than the call's: no later answer can be trusted either.
func (c *Conn) outOfStep(call *call.Call, epoch uint32) {
	c.h.Lost(call, epoch, ErrOutOfStep)
	c.Close(ErrOutOfStep)
}

// packet gives one packet to its waiter.
func (c *Conn) packet(p *memd.Packet, owned bool) {
	if !p.Magic.IsResponse() {
		c.h.Push(c, p)
		return
	}
	if p.Magic == memd.MagicServerRes {
		return
	}
	i, gen := uint16(p.Opaque>>16), p.Opaque&genMask
	s := c.slots.at(i)
	if s == nil {
		c.orphan(p)
		return
	}
	if call.Continues(p) {
		c.part(s, gen, p)
		return
	}
	epoch, ok := s.claim(gen, slotFree, true)
	if !ok {
		c.late(s, i, gen, p)
		return
	}
	call := c.claimed(s, i)
	switch {
	case p.Status == memd.StatusSuccess:
		c.succeeded(call, epoch, p, owned)
	case p.Opcode != call.Sent():
		c.outOfStep(call, epoch)
	case call.State.Answered(epoch):
		c.h.Answered(c, call, p)
		// or it is in use again and is so, which is rare and only a matter of speed
		if call.State.Phase() == retry.PhaseParked {
			c.parked++
		}
	default:
		c.orphan(p)
	}
}

// part is one packet of an answer that has several, and not its last: the call keeps it and goes on waiting. Without a
// call it is dropped, and the slot stays reserved for the packets that follow.
func (c *Conn) part(s *slot, gen uint32, p *memd.Packet) {
	epoch, ok := s.claim(gen, slotHeld, true)
	if !ok {
		return
	}
	if s.call.Req.Opcode == p.Opcode && !s.call.Ended() {
		s.call.TakePart(p, epoch)
	}
	s.word.Store(uint64(epoch)<<32 | uint64(gen)<<2 | slotLive)
}

// late is an answer without a call: its slot becomes free if it had been kept for it.
func (c *Conn) late(s *slot, i uint16, gen uint32, p *memd.Packet) {
	if v := uint64(gen) << 2; s.word.CompareAndSwap(v|slotOrphan, v|slotFree) {
		c.freed = append(c.freed, i)
		c.orphaned++
	}
	c.orphan(p)
}

func (c *Conn) orphan(p *memd.Packet) {
	c.Stats.Orphans.Add(1)
	c.h.Orphan(c, p)
}
