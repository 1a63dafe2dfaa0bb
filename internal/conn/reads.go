package conn

import (
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
)

// readEpoch is the attempt's number of a read without a call, once it was handed to the socket.
const readEpoch = 1

// SubmitReads is SubmitAll for reads without calls.
func (c *Conn) SubmitReads(r *kv.Reads, at []kv.ReadAt) (taken int) {
	alone, mine := false, false
	for {
		round := at[taken:min(taken+maxRound, len(at))]
		c.mu.Lock()
		before := c.inflight
		n := c.putReads(r, round)
		taken += n
		if len(c.pend) > c.head && c.mine() {
			mine, alone = true, before == 0
		}
		c.mu.Unlock()
		if n < len(round) || taken == len(at) {
			break
		}
	}
	if mine {
		c.startFlush(alone, false)
	}
	return taken
}

// SubmitRead is SubmitReads for a read that is alone, and says whether it was taken. One that has not begun begins now, if it is.
func (c *Conn) SubmitRead(r *kv.Reads, key []byte, vbucket uint16) bool {
	c.mu.Lock()
	looked := !r.Begun() && c.begin(r)
	before := c.beginReads(r)
	put := before != 0 && c.putRead(r, 0, key, vbucket, before)
	if put && looked {
		c.pend[len(c.pend)-1].begun = r.Started
	}
	if alone, large, mine := c.unlock(put); mine {
		c.startFlush(alone, large)
	}
	return put
}

// begin has a read begin, and says whether it has looked at the clock. A look costs a fortieth of a read, and those that are
// written together have begun together, but for what callers that can run do before it. So one of them looks for all, unless
// the socket is full, or the writes of the connection block. The lock is held.
func (c *Conn) begin(r *kv.Reads) (looked bool) {
	if n := len(c.pend); n > c.head && !c.slow {
		if at := c.pend[n-1].begun; at != 0 {
			r.Begin(at)
			return false
		}
	}
	r.Begin(max(c.now(), 1))
	return true
}

// putReads is put for reads without calls, and says how many were taken. The lock is held.
func (c *Conn) putReads(r *kv.Reads, at []kv.ReadAt) int {
	before := c.beginReads(r)
	if before == 0 {
		return 0
	}
	for k, a := range at {
		if !c.putRead(r, a.I, r.Key(int(a.I)), a.VBucket, before) {
			return k
		}
	}
	return len(at)
}

// beginReads says how much of the requests of reads is before the key; 0 when the connection does not take them. The lock is
// held.
func (c *Conn) beginReads(r *kv.Reads) (before int) {
	if c.closed || c.refusing {
		return 0
	}
	if r.Deadline < c.armed || !c.ticking && r.Cancelable() {
		c.arm(r.Deadline, r.Cancelable())
	}
	return r.BeforeKey(&c.wire)
}

// putRead is put for one of them. The lock is held.
func (c *Conn) putRead(r *kv.Reads, i uint32, key []byte, vbucket uint16, before int) bool {
	if c.inflight >= c.maxCalls {
		return false
	}
	at, ok := c.slots.take()
	if !ok {
		return false
	}
	s := c.slots.at(at)
	o := s.next(at)
	p := c.last() // not before there is something to put
	from, n := len(p.buf), before+len(key)
	if cap(p.buf)-from < n {
		p.grow(n)
	}
	p.buf = p.buf[:from+n]
	b := p.buf[from:]
	body := uint32(n - memd.HeaderLen)
	memd.PutRequest((*[memd.HeaderLen]byte)(b), memd.OpGet, uint16(body), 0, 0, vbucket, body, o, 0)
	if before > memd.HeaderLen {
		r.PutPrefix(b[memd.HeaderLen:before])
	}
	copy(b[before:], key)
	p.frames = append(p.frames, frame{opaque: o, end: uint32(from + n)})
	s.call, s.read = nil, read{of: r, i: i, fills: c.fills}
	s.word.Store(unsentRead | uint64(o&genMask)<<2 | slotLive)
	c.inflight++
	return true
}

// stays reports whether a read that a sweep finds goes on as it is: it is not late, and if its context can end, that has not
// happened and the read has not lasted long. One that has becomes a call, which notices at once.
func (r *read) stays(now int64) bool {
	return now < r.of.Deadline && (!r.of.Cancelable() || now < r.of.Started+2*int64(watchTick) && !r.of.Over())
}

// sentReadNow notes that a read without a call is about to be on the wire, if nothing stands in its way at this moment; then
// it says so.
func (s *slot) sentReadNow(gen uint32) bool {
	live := uint64(gen)<<2 | slotLive
	return s.word.CompareAndSwap(live|unsentRead, readEpoch<<32|live)
}

// sentRead is sentReadNow whatever stands in the way: the read may have become a call meanwhile. False means that it is not
// to be sent any more.
func (s *slot) sentRead(gen uint32) bool {
	v, ok := s.hold()
	if !ok {
		return false
	}
	epoch := uint32(readEpoch)
	if s.call != nil {
		if epoch, ok = s.call.State.Sent(); !ok {
			s.word.Store(v)
			return false
		}
	}
	s.word.Store(uint64(epoch)<<32 | uint64(gen)<<2 | slotLive)
	return true
}

// win gives a read without a call its answer, and notes that its slot is free; false when the read needs a call. The reader
// has claimed the slot.
func (c *Conn) win(rd *read, i uint16, p *memd.Packet, owned bool) bool {
	if !rd.of.Win(int(rd.i), p, owned, c.wire.Via, &c.wakes) {
		return false
	}
	if f := c.feedback.Load(); f != nil {
		(*f).Success()
	}
	c.freed = append(c.freed, i)
	c.ended++
	return true
}

// own makes a call of the read in a slot that the caller has claimed or holds. It gives the attempt's number of the call,
// for that of the read, which is 0 if the read was not handed to the socket.
func (c *Conn) own(s *slot, i uint16, epoch uint32) uint32 {
	rd := &s.read
	call := rd.of.Call(int(rd.i), true)
	opaque := opaqueOf(i, uint32(s.word.Load())>>2)
	call.Carry(&kv.Wire{Features: c.info.Features, Opaque: opaque, VBucket: call.Route.VBucket, Via: c.wire.Via}, rd.fills)
	if epoch != 0 {
		epoch, _ = call.State.Sent()
	}
	s.call = call
	return epoch
}
