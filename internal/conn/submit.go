package conn

import (
	"errors"
	"os"
	"runtime"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Submit appends the call's request, and has it written by this goroutine or by the present writer. It never blocks. An
// error means that the call was not taken: ErrClosed, ErrFull, or what is wrong with the request. A call that has ended
// meanwhile is dropped without an error.
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
			for _, call := range round { // compressing all calls first would be for nothing when the connection is full
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

// write unlocks the connection after taken calls were appended. A caller that finds no writer becomes the writer. When
// other calls are in flight it yields once before it writes, so that their callers append to the same write. It does
// not yield for a large request, which is most of its write.
func (c *Conn) write(taken int) {
	mine := c.writer.become(unowned)
	yield := mine && c.slots.withOwn() > taken && !c.writer.large()
	c.mu.Unlock()
	if yield {
		runtime.Gosched()
	}
	if mine {
		c.flush()
	}
}

// WantRoom reports true when the connection is not full, or has ended. When it is full, Room is called once as soon as
// it takes calls again.
func (c *Conn) WantRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slots.wanted = c.cause == nil && !c.refusing && c.slots.full()
	return !c.slots.wanted
}

// put gives the call a slot and appends its request. A call that has ended meanwhile is dropped without an error. The
// lock is held.
func (c *Conn) put(call *call.Call) error {
	if c.cause != nil || c.refusing {
		return ErrClosed
	}
	s, opaque := c.slots.take(call.OfClient())
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

// flush writes part after part until nothing is pending. The goroutine that has become the writer calls it. It never
// blocks: what the socket does not take at once, a goroutine of its own writes, which gets the role and ends with it.
func (c *Conn) flush() {
	for p := c.next(nil); p != nil; p = c.next(p) {
		n, err := 0, error(nil)
		if c.writer.try != nil {
			n, err = c.writer.try.TryWrite(p.buf)
		}
		if err == nil && n < len(p.buf) {
			if err = c.block(p, n); err == nil {
				return
			}
		}
		if err != nil {
			c.broken(p, n, err)
			return
		}
	}
}

// block starts the goroutine that writes the backlog: the part p from byte n on, and the parts that follow.
func (c *Conn) block(p *part, n int) error {
	c.writer.left, c.writer.taken = p, n
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return ErrClosed
	}
	if c.writer.try != nil {
		c.Stats.FullSocket.Add(1)
	}
	c.wg.Add(1) // it ends with the backlog, or with the socket; Serve waits for it
	go c.writer.backlog()
	return nil
}

// backlog writes as flush does, with writes that block. It runs on a goroutine of its own, which has the role.
func (c *Conn) backlog() {
	defer c.wg.Done()
	p, n := c.writer.left, c.writer.taken
	for c.writer.left = nil; p != nil; p, n = c.next(p), 0 {
		err := c.nc.SetWriteDeadline(time.Now().Add(c.writer.limit))
		if err == nil {
			var m int
			m, err = c.nc.Write(p.buf[n:])
			n += m
		}
		if err != nil {
			if c.writer.try == nil && errors.Is(err, os.ErrDeadlineExceeded) {
				n = len(p.buf) // TLS does not say how much of a record got through: all of it may have
			}
			c.broken(p, n, err)
			return
		}
		_ = c.nc.SetWriteDeadline(time.Time{}) // TLS answers to what it reads, whenever that is
	}
}

// next takes back the part that was written, done, and gives the oldest pending part. It marks that part's calls as
// sent, and cuts the requests of calls that have ended out; a part of which nothing is left is passed over. Nil means
// that the role was given up, because nothing is pending or the connection has ended.
func (c *Conn) next(done *part) *part {
	for {
		var p, whole *part
		if done != nil {
			clear(done.frames)
			done.buf, done.frames = done.buf[:0], done.frames[:0]
		}
		c.mu.Lock()
		if done != nil {
			c.writer.spare(done)
		}
		if c.cause == nil {
			p, whole = c.writer.pop()
		} else {
			c.writer.role = unowned
		}
		c.mu.Unlock()
		if p == nil {
			return nil
		}
		if whole != nil {
			whole.complete(p)
			p = whole
		}
		if c.mark(p); len(p.buf) > 0 {
			c.Stats.Writes.Add(1)
			c.Stats.Requests.Add(int64(len(p.frames)))
			return p
		}
		done = p
	}
}

// mark tells each call of the part that the socket is about to be given its request. The frames of calls that refuse,
// because they have ended, are cut out.
func (c *Conn) mark(p *part) {
	start, kept, out := uint32(0), 0, uint32(0)
	for _, f := range p.frames {
		n := f.end - start
		epoch, ok := f.call.State.Sent()
		if !ok {
			c.drop(f.opaque)
			start = f.end
			continue
		}
		c.slots.at(f.opaque).sent(f.opaque, epoch)
		if out != start { // behind a frame that was cut out
			copy(p.buf[out:], p.buf[start:f.end])
			p.frames[kept] = frame{f.call, f.opaque, out + n}
		}
		start, out, kept = f.end, out+n, kept+1
	}
	clear(p.frames[kept:]) // the part is used again, and would keep those calls alive
	p.frames, p.buf = p.frames[:kept], p.buf[:out]
}

// drop frees the slot of a request that was cut out before it was written.
func (c *Conn) drop(opaque uint32) {
	s, room := c.slots.at(opaque), false
	c.mu.Lock()
	_, live := s.claim(opaque, slotFree, false)
	if live {
		s.call = nil
	} else if s.orphanEnds(opaque) {
		c.slots.orphans.add(opaque, -1)
		live = true
	}
	if live {
		c.slots.give(opaque)
		room = c.slots.room()
	}
	c.mu.Unlock()
	if room {
		c.h.Room(c)
	}
}
