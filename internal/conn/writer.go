package conn

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

const (
	maxPart      = 256 << 10 // one write takes at most this, large values apart
	largeValue   = 16 << 10  // from here on a value is copied when its request is about to be written
	maxSpareSize = 512 << 10
	maxSpares    = 8                           // parts that wait for their next use, all but two of at most fullPart
	fullPart     = maxPart + largeValue + 1024 // a part with that much room takes its last request, too
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

// tryWriter makes one write attempt that never blocks: what the peer does not take at once is left out of n.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// The role of the writer belongs to one goroutine at a time, or to none.
type role uint8

const (
	unowned role = iota // the next caller that appends becomes the writer
	reading             // the reader's: it writes when it has completed its answers
	writing             // a goroutine writes, until nothing is pending
)

// writer keeps requests until they are written, many in one write. The fields down to role, and all methods, are for
// the holder of the connection's lock. The others are for the owner of the role, which alone uses the socket.
type writer struct {
	wire   call.Wire // of the request that is being appended
	pend   []*part   // oldest first
	spares []*part   // one is filled while the other is written, and more while there is more than parts hold
	role   role

	try     tryWriter // nil where the socket has no such attempt
	limit   time.Duration
	left    *part // what the backlog begins with, and how much of it is written
	taken   int
	backlog func() // Conn.backlog, without an allocation for each start
}

// become gives the role to the caller if it has the given state and requests are pending, and reports whether it did.
func (w *writer) become(from role) bool {
	if w.role != from {
		return false
	}
	w.role = unowned
	if len(w.pend) > 0 {
		w.role = writing
	}
	return w.role == writing
}

// large reports whether what is to be written next begins with a large request, which is most of that write: nothing is
// gained by letting others append first.
func (w *writer) large() bool { return len(w.pend) > 0 && w.pend[0].value != nil }

// add appends a call's request. added is false when it is wrong, or when the call has ended meanwhile.
func (w *writer) add(c *call.Call, opaque uint32) (added bool, err error) {
	w.wire.Opaque = opaque
	var p *part
	ended := false
	if c.Req.ValueLen() >= largeValue {
		// No goroutine waits for the lock while the value is copied, and what waits to be written takes no memory.
		l := &largePart{}
		p, l.frames = &l.part, l.frame[:0]
		w.pend = append(w.pend, p)
		p.buf, p.value, ended, err = c.AppendHead(l.head[:0], &w.wire)
	} else {
		p = w.last()
		if n := c.BeginSimple(&w.wire); n > 0 {
			at := len(p.buf)
			p.buf = slices.Grow(p.buf, n)[:at+n]
			c.Req.PutSimple(p.buf[at:], &w.wire)
		} else {
			p.buf, ended, err = c.AppendTo(p.buf, &w.wire)
		}
	}
	if err != nil || ended {
		if len(p.frames) == 0 { // it was begun for nothing
			w.pend, p.value = w.pend[:len(w.pend)-1], nil
			w.spare(p)
		}
		return false, err
	}
	p.frames = append(p.frames, frame{c, opaque, uint32(len(p.buf))})
	return true, nil
}

// last is the part that the next request goes to.
func (w *writer) last() (p *part) {
	behindFull := false
	if n := len(w.pend); n > 0 {
		p = w.pend[n-1]
		if len(p.buf)+len(p.value) < maxPart && cap(p.buf) <= maxSpareSize {
			return p
		}
		behindFull = p.value == nil
	}
	if n := len(w.spares) - 1; n >= 0 {
		p, w.spares[n] = w.spares[n], nil
		w.spares = w.spares[:n]
	} else if p = (&part{}); behindFull { // it will be full, too
		p.buf = make([]byte, 0, fullPart)
	}
	w.pend = append(w.pend, p)
	return p
}

// pop takes the oldest part, and an empty one to complete it in if its value is to be copied. Without a part it gives
// the role up.
func (w *writer) pop() (p, whole *part) {
	if len(w.pend) == 0 {
		w.role = unowned
		return nil, nil
	}
	p = w.pend[0]
	w.pend = slices.Delete(w.pend, 0, 1)
	if p.value != nil {
		whole = w.carrier(len(p.buf) + len(p.value))
	}
	return p, whole
}

// carrier is an empty part with memory for n bytes, a spare one if possible.
func (w *writer) carrier(n int) *part {
	fits := func(p *part) bool { return cap(p.buf) >= n }
	at := max(slices.IndexFunc(w.spares, fits), 0)
	if len(w.spares) == 0 || n > maxSpareSize {
		return &part{buf: make([]byte, 0, n)}
	}
	p := w.spares[at]
	w.spares = slices.Delete(w.spares, at, at+1)
	return p
}

// spare keeps an empty part for the next requests.
func (w *writer) spare(p *part) {
	if n := len(w.spares); cap(p.buf) <= maxSpareSize && (n < 2 || n < maxSpares && cap(p.buf) <= fullPart) {
		w.spares = append(w.spares, p)
	}
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
