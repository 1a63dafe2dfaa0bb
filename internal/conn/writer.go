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

// part is what one write takes: whole requests.
type part struct {
	buf    []byte
	frames []frame
	// value is the value of the first request, if that is large; otherwise nil. It is not in buf yet: its place is the
	// end of the first frame. Until complete copies it, it is the caller's memory.
	value []byte
}

// largePart is a part whose first request is large, together with memory for that request's head.
type largePart struct {
	part
	frame [1]frame
	head  [96]byte // a longer head, or further requests, make buf move to memory of its own
}

// tryWriter is a socket with a write attempt that never blocks: n is as much as the kernel took at once.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

// role says which goroutine may use the socket for writing: one at a time.
type role uint8

const (
	unowned role = iota // the next caller that appends becomes the writer
	reading             // the reader has the role: it writes when it has completed the answers of its read
	writing             // a goroutine has the role and writes until nothing is pending
)

// writer keeps requests until they are written, many in one write. The connection's lock guards the fields down to
// role; all methods are called with it held. The other fields belong to the goroutine that has the role.
type writer struct {
	wire   call.Wire // of the request that is being appended
	pend   []*part   // oldest first
	spares []*part   // empty parts for further use: callers fill one while another is written
	role   role

	try     tryWriter // nil where the socket has no such attempt
	limit   time.Duration
	left    *part  // the part that the backlog begins with
	taken   int    // how many of its bytes are written already
	backlog func() // Conn.backlog, without an allocation for each start
}

// become makes the caller the writer if the role is in the state from and requests are pending; mine says so. Without
// pending requests the role is unowned then.
func (w *writer) become(from role) (mine bool) {
	if w.role != from {
		return false
	}
	w.role = unowned
	if len(w.pend) > 0 {
		w.role = writing
	}
	return w.role == writing
}

// large reports whether the next write begins with a large request. That is most of the write: to let other callers
// append first gains nothing.
func (w *writer) large() bool { return len(w.pend) > 0 && w.pend[0].value != nil }

// add appends a call's request. added is false when it is wrong, or when the call has ended meanwhile.
func (w *writer) add(c *call.Call, opaque uint32) (added bool, err error) {
	w.wire.Opaque = opaque
	var p *part
	ended := false
	if c.Req.ValueLen() >= largeValue {
		// The value is copied later, without the lock: no goroutine waits for a copy, and no copy waits in memory.
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
		if len(p.frames) == 0 { // the part was begun for this request alone
			w.pend, p.value = w.pend[:len(w.pend)-1], nil
			w.spare(p)
		}
		return false, err
	}
	p.frames = append(p.frames, frame{c, opaque, uint32(len(p.buf))})
	return true, nil
}

// last gives the part that the next request is appended to: the newest one while that has room, otherwise a new one.
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

// pop takes the oldest part, p, out of those that are pending. When p has a value to be copied, pop gives whole, too:
// an empty part with room for all of p, for complete. When no part is pending, pop gives the role up and returns nil.
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

// carrier gives an empty part for n bytes: a spare one that is large enough, or else any spare one, which grows; a new
// one when there is no spare, or when n is too much for one to be kept.
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

// spare keeps an empty part for further use, unless there are enough or its memory is too large.
func (w *writer) spare(p *part) {
	if n := len(w.spares); cap(p.buf) <= maxSpareSize && (n < 2 || n < maxSpares && cap(p.buf) <= fullPart) {
		w.spares = append(w.spares, p)
	}
}

// complete fills p, which is empty, with all of large: the head of the first request, its value, the other requests.
// The connection's lock is not held. When the first call has ended, its value may be the caller's again: Copy then
// appends nothing, and mark cuts the rest of that request out.
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
