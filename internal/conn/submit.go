package conn

import (
	"slices"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// frame is one request within a part: whose it is and where it ends.
type frame struct {
	call   *call.Call
	opaque uint32
	end    uint32
}

// part is what one write takes.
type part struct {
	buf    []byte
	frames []frame
	// of the first request if that is large: it comes behind its frame's end, and is the call's until it is copied
	value []byte
}

// largePart is a part that begins with a large request, and its memory.
type largePart struct {
	part
	frame [1]frame
	head  [96]byte // a longer one, and what comes behind, has memory of its own
}

// Submit appends the call's request and sees to it that it is written. It never blocks. When it fails the call was not
// taken: ErrClosed, ErrFull, or what is wrong with the request. A call that has ended meanwhile is dropped silently.
func (c *Conn) Submit(call *call.Call) error {
	if c.info.Features.Has(memd.FeatureSnappy) {
		call.Pack(&c.packer)
	}
	c.mu.Lock()
	err := c.put(call)
	if alone, large, mine := c.unlock(err == nil); mine {
		c.startFlush(alone, large)
	}
	return err
}

// unlock ends a submitter's turn and says whether it is the one to write what is pending, and whether its request is
// alone or large.
func (c *Conn) unlock(put bool) (alone, large, mine bool) {
	alone, mine = c.inflight == 1, put && c.mine()
	large = mine && c.large()
	c.mu.Unlock()
	return alone, large, mine
}

// large reports whether what is to be written next begins with a large request, which is most of that write: nothing is
// gained by letting others append first. The lock is held.
func (c *Conn) large() bool { return len(c.pend) > c.head && c.pend[c.head].value != nil }

// maxRound is how many requests are appended under one lock: some microseconds' worth.
const maxRound = 64

// SubmitAll is Submit for many calls at once. It takes them in order and says how many; the first that was left is one
// that Submit would not have taken.
func (c *Conn) SubmitAll(calls []*call.Call) (taken int) {
	alone, large, mine, more := false, false, false, true
	for more && taken < len(calls) {
		round := calls[taken:min(taken+maxRound, len(calls))]
		if c.info.Features.Has(memd.FeatureSnappy) {
			for _, call := range round { // not all of them: a full connection takes none
				call.Pack(&c.packer)
			}
		}
		c.mu.Lock()
		before := c.inflight
		for _, call := range round {
			if more = c.put(call) == nil; !more {
				break
			}
			taken++
		}
		if len(c.pend) > c.head && c.mine() {
			mine, alone, large = true, before == 0, c.large()
		}
		c.mu.Unlock()
	}
	if mine {
		c.startFlush(alone, large)
	}
	return taken
}

// mine says whether the submitter is the one to write, and holds it to that. The lock is held.
func (c *Conn) mine() bool {
	if c.flushing || c.reading {
		return false
	}
	c.flushing = true
	return true
}

// WantRoom reports whether the connection takes calls, or has ended. If it does neither, Room is called once when it
// does.
func (c *Conn) WantRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wanted = !c.closed && !c.refusing && c.inflight >= c.maxCalls
	return !c.wanted
}

// room reports whether the dispatcher is to be told that there is room. The lock is held.
func (c *Conn) room() bool {
	if !c.wanted || c.inflight >= c.maxCalls {
		return false
	}
	c.wanted = false
	return true
}

// put gives the call a slot and appends its request. One that has ended meanwhile is dropped silently. The lock is
// held.
func (c *Conn) put(call *call.Call) error {
	s, err := c.take()
	if err != nil {
		return err
	}
	if call.Req.ValueLen() >= largeValue {
		return c.putLarge(call, s)
	}
	n := call.BeginSimple(&c.wire)
	if n == 0 {
		return c.putAny(call, s)
	}
	p := c.last()
	at := len(p.buf)
	if cap(p.buf)-at < n {
		p.grow(n)
	}
	p.buf = p.buf[:at+n]
	call.Req.PutSimple(p.buf[at:], &c.wire)
	c.added(call, s, p)
	return nil
}

//go:noinline
func (p *part) grow(n int) { p.buf = slices.Grow(p.buf, n) }

// putAny is put for every request, after take.
//
//go:noinline
func (c *Conn) putAny(call *call.Call, s *slot) error {
	p := c.last()
	buf, ended, err := call.AppendTo(p.buf, &c.wire)
	p.buf = buf
	if err != nil || ended {
		c.notPut(p)
		return err
	}
	c.added(call, s, p)
	return nil
}

// putLarge is put for a request with a large value, after take: no goroutine waits for the lock while that is copied,
// and what waits to be written takes no memory for it.
//
//go:noinline
func (c *Conn) putLarge(call *call.Call, s *slot) (err error) {
	l := &largePart{}
	l.frames = l.frame[:0]
	var ended bool
	if l.buf, l.value, ended, err = call.AppendHead(l.head[:0], &c.wire); err != nil || ended {
		c.notPut(&l.part)
		return err
	}
	c.pend = append(c.pend, &l.part)
	c.added(call, s, &l.part)
	return nil
}

// take gives the next request a slot: wire.Opaque names it. The lock is held.
func (c *Conn) take() (*slot, error) {
	switch {
	case c.closed || c.refusing:
		return nil, ErrClosed
	case c.inflight >= c.maxCalls:
		return nil, ErrFull
	}
	i, ok := c.slots.take()
	if !ok {
		return nil, ErrFull
	}
	s := c.slots.at(i)
	c.wire.Opaque = s.next(i)
	return s, nil
}

// added makes the slot that was taken live for the call, whose request is the last one of p. The lock is held.
func (c *Conn) added(call *call.Call, s *slot, p *part) {
	o := c.wire.Opaque
	p.frames = append(p.frames, frame{call: call, opaque: o, end: uint32(len(p.buf))})
	call.Route.Reads = c.fills
	s.call = call
	s.word.Store(uint64(o&genMask)<<2 | slotLive)
	c.inflight++
	if call.Deadline < c.armed || !c.ticking && call.Cancelable() {
		c.arm(call.Deadline, call.Cancelable())
	}
}

// last is the part that the next request goes to. The lock is held.
func (c *Conn) last() *part {
	if n := len(c.pend); n > c.head {
		if p := c.pend[n-1]; len(p.buf)+len(p.value) < maxPart && cap(p.buf) <= maxSpareSize {
			return p
		}
	}
	return c.another()
}

func (c *Conn) another() (p *part) {
	if n := len(c.spares) - 1; n >= 0 {
		p, c.spares[n] = c.spares[n], nil
		c.spares = c.spares[:n]
	} else if p = (&part{}); len(c.pend) > c.head &&
		c.pend[len(c.pend)-1].value == nil { // the one before is full, and this one will be
		p.buf = make([]byte, 0, fullPart)
	}
	c.pend = append(c.pend, p)
	return p
}

// notPut takes back the slot that was taken, and a part that was begun for nothing. The lock is held.
func (c *Conn) notPut(p *part) {
	c.slots.free = append(c.slots.free, uint16(c.wire.Opaque>>16))
	if n := len(c.pend); n > c.head && c.pend[n-1] == p && len(p.frames) == 0 {
		c.pend = c.pend[:n-1]
		c.putSpare(p)
	}
}
