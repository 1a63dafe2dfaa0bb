package conn

import (
	"crypto/tls"
	"net"
	"runtime"

	"github.com/couchcore/couchcore/internal/call"
)

// Close ends the connection and does not wait for that. Serve then reports every call as lost or unsent, and returns.
// Close may be called from any goroutine, more than once; the first cause counts.
func (c *Conn) Close(cause error) {
	if cause == nil {
		cause = errShutdown
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cause != nil {
		return
	}
	c.cause = cause // no further call is taken, and no further part is written
	// Closing may block: TLS sends an alert first, and the user's connections may do anything. teardown waits for it.
	c.wg.Go(func() { hangUp(c.nc) })
}

// hangUp closes a socket. A read under way ends first: closing would wait for it where the user has set the descriptor
// to blocking mode since Dial has given it.
func hangUp(nc net.Conn) {
	under := nc
	if t, ok := nc.(*tls.Conn); ok {
		under = t.NetConn()
		if w, ok := under.(interface{ NetConn() net.Conn }); ok { // the handshake's, which watches the socket
			under = w.NetConn()
		}
	}
	if t, ok := under.(*net.TCPConn); ok {
		_ = t.CloseRead()
	}
	_ = nc.Close()
}

// broken ends the connection after a write of p has failed behind n bytes. Requests that end within the n bytes stay in
// their slots, and teardown reports them as lost. The others are reported as unsent: the connection is closed first and
// the role given up last, so that no later write can make a frame whole that was cut in two.
func (c *Conn) broken(p *part, n int, cause error) {
	c.Close(cause)
	start := 0
	for _, f := range p.frames {
		if int(f.end) > n {
			if k, ok := c.take(f.opaque); ok {
				c.notSent(k, start < n, cause)
			}
		}
		start = int(f.end)
	}
	c.mu.Lock()
	c.writer.role = unowned // teardown waits for this
	c.mu.Unlock()
}

// claimed is a call that was taken out of its slot.
type claimed struct {
	call  *call.Call
	epoch uint32
}

// take takes a call out of its slot; false when another goroutine has claimed it.
func (c *Conn) take(opaque uint32) (k claimed, ok bool) {
	s := c.slots.at(opaque)
	epoch, ok := s.claim(opaque, slotFree, false)
	if ok {
		k, s.call = claimed{s.call, epoch}, nil
	}
	return k, ok
}

// notSent reports a call whose frame did not reach the server.
func (c *Conn) notSent(k claimed, cut bool, cause error) {
	if k.epoch == 0 || k.call.State.Unsent(k.epoch) {
		c.h.Unsent(k.call, cut, cause)
	}
}

// teardown reports every call that is left after the connection has ended. It is the last that Serve's goroutine does.
func (c *Conn) teardown() {
	c.wg.Wait()
	c.mu.Lock()
	for c.writer.role == writing { // a caller is inside TryWrite, which does not block
		c.mu.Unlock()
		runtime.Gosched()
		c.mu.Lock()
	}
	c.deadlines.stop() // until here the calls have their deadlines
	pend, end, cause := c.writer.pend, c.slots.end(), c.cause
	c.writer.pend, c.writer.spares = nil, nil
	c.mu.Unlock()
	var unsent, lost []claimed
	for _, p := range pend {
		for _, f := range p.frames {
			if k, ok := c.take(f.opaque); ok {
				unsent = append(unsent, k)
			}
		}
	}
	for place := range uint32(end) {
		s := c.slots.at(place << 16)
		if s == nil {
			continue
		}
		if k, ok := c.take(place<<16 | uint32(s.word.Load())>>2); ok {
			lost = append(lost, k)
			c.countUnanswered(k.call, k.epoch != 0, c.deadlines.now())
		}
	}
	c.counts.Release()
	c.mu.Lock()
	c.slots.own, c.slots.used, c.slots.free, c.slots.orphans = 0, 0, nil, orphans{}
	c.mu.Unlock()
	if len(lost) > 0 {
		c.h.Unanswered(len(lost), cause)
	}
	for _, k := range unsent {
		c.notSent(k, false, cause)
	}
	for _, k := range lost {
		c.h.Lost(k.call, k.epoch, cause)
	}
}
