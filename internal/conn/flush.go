package conn

import (
	"errors"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

// startFlush writes what is pending, for the submitter that has set flushing. Alone in flight it writes at once, and so
// it does with a large request, which is most of its write. Otherwise it yields first, so that other callers append to
// the same write.
func (c *Conn) startFlush(alone, large bool) {
	if c.try == nil {
		select {
		case c.kick <- struct{}{}:
		default:
		}
		return
	}
	if !alone && !large {
		runtime.Gosched()
	}
	c.flush()
}

// flush writes part after part until nothing is pending. It never blocks: what the socket does not take goes to a
// goroutine that lives until the backlog is gone. The caller has set flushing.
func (c *Conn) flush() {
	for {
		p := c.swap()
		if p == nil {
			return
		}
		n, err := c.try.TryWrite(p.buf)
		c.Stats.Writes.Add(1)
		if err != nil {
			c.broken(p, n, err)
			return
		}
		if n < len(p.buf) {
			c.Stats.FullSocket.Add(1)
			c.mu.Lock()
			ended := c.closed
			if !ended {
				c.wg.Add(1)
			}
			c.mu.Unlock()
			if ended {
				c.broken(p, n, ErrClosed)
				return
			}
			go func() {
				defer c.wg.Done()
				c.backlog(p, n)
			}()
			return
		}
		c.recycle(p)
	}
}

// backlog blocks where no other goroutine may: it writes the rest of p and then what has gathered meanwhile.
func (c *Conn) backlog(p *part, n int) {
	for p != nil {
		if err := c.nc.SetWriteDeadline(time.Now().Add(c.writeMax)); err != nil {
			c.broken(p, n, err)
			return
		}
		m, err := c.nc.Write(p.buf[n:])
		if err != nil {
			if c.try == nil && errors.Is(err, os.ErrDeadlineExceeded) {
				m = len(p.buf) - n // how much of a record got through is not known: all of it may have
			}
			c.broken(p, n+m, err)
			return
		}
		c.recycle(p)
		n = 0
		p = c.swap()
	}
	_ = c.nc.SetWriteDeadline(time.Time{})
}

// flusher writes for a connection without a non-blocking attempt. It ends with the connection.
func (c *Conn) flusher() {
	for {
		select {
		case <-c.kick:
		case <-c.quit:
			return
		}
		runtime.Gosched()
		if p := c.swap(); p != nil {
			c.Stats.Writes.Add(1)
			c.backlog(p, 0)
		}
	}
}

// swap takes the oldest part that has something to be written and marks its calls as handed to the socket; calls that
// have ended meanwhile are cut out. Nil means that nothing is pending, and flushing has been given up.
func (c *Conn) swap() *part {
	for {
		c.mu.Lock()
		if len(c.pend) == c.head {
			c.flushing = false
			c.mu.Unlock()
			return nil
		}
		p := c.pend[c.head]
		c.pend[c.head] = nil
		if c.head++; c.head == len(c.pend) {
			c.pend, c.head = c.pend[:0], 0
		}
		var whole *part
		if p.value != nil {
			whole = c.carrier(len(p.buf) + len(p.value))
		}
		c.mu.Unlock()
		if whole != nil {
			whole.complete(p)
			p = whole
		}
		c.mark(p)
		if len(p.buf) > 0 {
			c.Stats.Requests.Add(int64(len(p.frames)))
			return p
		}
		c.recycle(p)
	}
}

// carrier is an empty part with memory for n bytes, a spare one if there is any. The lock is held.
func (c *Conn) carrier(n int) *part {
	at := len(c.spares) - 1
	for i := at; i >= 0; i-- {
		if cap(c.spares[i].buf) >= n {
			at = i
			break
		}
	}
	if at < 0 || n > maxSpareSize {
		return &part{buf: make([]byte, 0, n)}
	}
	p := c.spares[at]
	c.spares = slices.Delete(c.spares, at, at+1)
	return p
}

// complete makes p what a part with a large value is, with the value. That is the caller's again once its call has
// ended; then it is left out, and mark cuts out the rest of the request.
func (p *part) complete(large *part) {
	first := large.frames[0]
	head, behind := large.buf[:first.end], large.buf[first.end:]
	p.buf = append(slices.Grow(p.buf, len(large.buf)+len(large.value)), head...)
	p.buf = first.call.Copy(p.buf, large.value)
	copied := uint32(len(p.buf)) - first.end
	p.buf = append(p.buf, behind...)
	p.frames = append(p.frames, large.frames...)
	for i := range p.frames {
		p.frames[i].end += copied
	}
}

// mark tells each call of the part that it is about to be on the wire and cuts out the frames of those that refuse.
func (c *Conn) mark(p *part) {
	start, kept, out := uint32(0), 0, uint32(0)
	for i := range p.frames {
		f := &p.frames[i]
		end := f.end
		gen, s := f.opaque&genMask, c.slots.at(uint16(f.opaque>>16))
		epoch, ok := f.call.State.Sent()
		if ok && !s.sentNow(gen, epoch) {
			s.sent(gen, epoch)
		}
		if !ok {
			c.drop(f.opaque)
			start = end
			continue
		}
		if out == start {
			out = end
		} else {
			out += uint32(copy(p.buf[out:], p.buf[start:end]))
			p.frames[kept] = frame{call: f.call, opaque: f.opaque, end: out}
		}
		start = end
		kept++
	}
	clear(p.frames[kept:]) // the part is used again, and would keep those calls alive
	p.frames, p.buf = p.frames[:kept], p.buf[:out]
}

// drop frees the slot of a request that never left.
func (c *Conn) drop(opaque uint32) {
	i := uint16(opaque >> 16)
	s := c.slots.at(i)
	gen := opaque & genMask
	v := uint64(gen) << 2
	c.mu.Lock()
	if _, ok := s.claim(gen, slotFree, false); ok {
		s.call = nil
		c.inflight--
	} else if s.word.CompareAndSwap(v|slotOrphan, v|slotFree) {
		c.orphans--
	} else {
		c.mu.Unlock()
		return
	}
	c.slots.free = append(c.slots.free, i)
	room := c.room()
	c.mu.Unlock()
	if room {
		c.h.Room(c)
	}
}

// recycle keeps a written part for the next requests.
func (c *Conn) recycle(p *part) {
	clear(p.frames)
	if cap(p.buf) > maxSpareSize {
		return
	}
	p.buf, p.frames = p.buf[:0], p.frames[:0]
	c.mu.Lock()
	c.putSpare(p)
	c.mu.Unlock()
}

// broken judges the requests of a write that failed after n bytes. The connection is closed first: only then is it
// certain that a frame cut in two never becomes whole. Requests inside the n bytes stay in their slots; teardown
// reports them as lost.
func (c *Conn) broken(p *part, n int, cause error) {
	c.Close(cause)
	start := 0
	for _, f := range p.frames {
		if int(f.end) > n {
			c.unsent(f, start < n, cause)
		}
		start = int(f.end)
	}
	c.mu.Lock()
	c.flushing = false // teardown waits for this
	c.mu.Unlock()
}

func (c *Conn) unsent(f frame, cut bool, cause error) {
	i := uint16(f.opaque >> 16)
	s := c.slots.at(i)
	epoch, ok := s.claim(f.opaque&genMask, slotFree, false)
	if !ok {
		return
	}
	call := s.call
	s.call = nil
	if epoch == 0 || call.State.Unsent(epoch) {
		c.h.Unsent(call, cut, cause)
	}
}

// teardown tells what becomes of the calls after the connection has ended. It runs on Serve's goroutine, last.
func (c *Conn) teardown() {
	cause := c.Cause()
	c.wg.Wait()
	if c.try == nil {
		<-c.hungUp
	}
	for c.try != nil && c.isFlushing() {
		runtime.Gosched() // a submitter is inside its one attempt, which does not block
	}
	c.mu.Lock()
	c.flushing, c.down = false, true
	c.timer.Stop()
	pend := c.pend[c.head:]
	c.pend, c.head = nil, 0
	used := c.slots.used
	c.mu.Unlock()
	for _, p := range pend {
		for _, f := range p.frames {
			c.unsent(f, false, cause)
		}
	}
	type lost struct {
		call  *call.Call
		epoch uint32
	}
	var all []lost
	for i := range used {
		s := c.slots.at(uint16(i))
		if epoch, ok := s.claim(uint32(s.word.Load())>>2&genMask, slotFree, false); ok {
			all = append(all, lost{s.call, epoch})
			s.call = nil
		}
	}
	c.mu.Lock()
	c.inflight, c.orphans = 0, 0
	c.mu.Unlock()
	for _, l := range all {
		c.h.Lost(l.call, l.epoch, cause)
	}
}

func (c *Conn) isFlushing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.flushing
}

func (c *Conn) putSpare(p *part) {
	if n := len(c.spares); n < 2 || n < maxSpares && cap(p.buf) <= fullPart {
		c.spares = append(c.spares, p)
	}
}
