package conn

import (
	"crypto/tls"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Handler is told what a connection meets. Its methods run on the connection's goroutines; they must not block and
// must not close the connection.
type Handler interface {
	// Answered gets a call whose attempt was answered with something else than success; the attempt is claimed. p is
	// valid during the call.
	Answered(cn *Conn, c *call.Call, p *memd.Packet)
	// Lost gets a call that was on the wire when the connection ended.
	Lost(c *call.Call, epoch uint32, cause error)
	// Unsent gets a call that provably never reached the server. cut says that part of its frame was written.
	Unsent(c *call.Call, cut bool, cause error)
	// Expired gets a call whose deadline has passed.
	Expired(c *call.Call)
	// Silent says that calls have expired, and that nothing at all was read since one of them was sent. A NOOP and a
	// request that is bound to its connection are no such calls, since their sender draws conclusions of its own.
	// While a durable write is in flight, which may hold up what comes after it, nothing is said.
	Silent(cn *Conn)
	// Orphan counts an answer whose call has ended.
	Orphan(cn *Conn, p *memd.Packet)
	// Room says that the connection takes calls again, after WantRoom has said that it does not.
	Room(cn *Conn)
	// Push gets a request that the server sent. p is valid during the call.
	Push(cn *Conn, p *memd.Packet)
}

// Errors of Submit and causes of a connection's end.
var (
	ErrClosed    = errors.New("connection is closed")
	ErrFull      = errors.New("too many calls in flight on the connection")
	ErrOutOfStep = errors.New("the node answered a request with another one's opcode")
	ErrOrphans   = errors.New("too many answers are missing: the node does not answer")
	errShutdown  = errors.New("closed by the client")
)

const (
	maxPart    = 256 << 10 // one write takes at most this, large values apart
	largeValue = 16 << 10  // from here on a value is copied when its request is about to be written
	minRead    = 16 << 10
	restRead   = 4 << 10 // of a connection at rest
	firstLong  = 1 << 20 // of a longer value, what is received before there is memory for more
	// the read buffer grows up to this while reads fill it, and shrinks again in silence
	maxRead = 256 << 10
	// how often calls are looked at whose contexts can end; one that has lasted as long watches it
	watchTick    = 2500 * time.Microsecond
	maxOrphans   = 16384
	never        = math.MaxInt64
	maxSpareSize = 512 << 10
	maxSpares    = 8                           // parts that wait for their next use, all but two of at most fullPart
	fullPart     = maxPart + largeValue + 1024 // a part with that much room takes its last request, too
)

// tryWriter makes one write attempt that never blocks: what the peer does not take at once is left out of n.
type tryWriter interface {
	TryWrite(b []byte) (n int, err error)
}

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

// Conn is a bootstrapped connection. Connect makes it, Serve runs it on the goroutine that calls it, Close ends it.
// Besides that goroutine, which reads and flushes, it has one that flushes on TLS and foreign connections, or, for as
// long as a TCP socket is full, one that writes the backlog; Serve waits for either before it returns.
type Conn struct {
	nc       net.Conn
	try      tryWriter
	h        Handler
	feedback atomic.Pointer[Feedback] // nil: successes are not told; see SetFeedback
	base     time.Time
	info     handshake.Info
	limit    int
	maxCalls int
	writeMax time.Duration
	packer   call.Packer

	// Map is the number of the oldest cluster map whose calls the connection may carry: it is for the sender of calls.
	// Who has made the connection sets it before others know of it.
	Map uint32

	mu   sync.Mutex
	wire call.Wire // of the request that is being appended
	pend []*part   // to be written, oldest first, from head on
	head int
	// one is filled while the other is written, and more while there is more than parts hold; until Rest
	spares   []*part
	flushing bool // a goroutine writes, or is about to
	reading  bool // the reader is completing answers and will flush after that
	closed   bool
	down     bool // teardown has begun to tell what becomes of the calls: until then they have their deadlines here
	refusing bool // its node has left: what is in flight may finish
	wanted   bool // the dispatcher waits for room
	inflight int
	orphans  int
	fills    uint32 // reads that have brought something
	armed    int64  // when the timer fires; never when it rests
	ticking  bool   // it is armed for a call whose context may end
	timer    *time.Timer

	slots  table
	cause  atomic.Pointer[error]
	kick   chan struct{} // wakes the flusher of a connection without TryWrite
	quit   chan struct{}
	hungUp chan struct{} // closed when the socket is, where closing may block
	wg     sync.WaitGroup

	rbuf       []byte
	reads      atomic.Int32 // how long rbuf is
	resting    atomic.Int32 // the read deadline is over because of Rest
	rpos, rlen int
	filled     bool         // by the last read: there may be more
	pkt        memd.Packet  // the answer being handled
	pushed     *memd.Packet // a notification that came in the handshake, until Serve has told of it
	freed      []uint16     // slots of this read's answers, and how many of each kind they were
	ended      int
	cameLate   int
	parked     int  // of the calls that have ended here: they wait for their time
	idleWakes  bool // the last read's answers have woken no caller that may append: their calls are parked

	Stats Stats
}

// Stats are counters that cost nothing to keep, each written by one goroutine at a time.
type Stats struct {
	Writes, Requests, Reads, Answers, Orphans, FullSocket atomic.Int64
}

// Info says what the handshake learned.
func (c *Conn) Info() *handshake.Info { return &c.info }

// Forget releases the error map and the cluster map in Info. It is for the goroutine that made the connection, before
// others know of it.
func (c *Conn) Forget() { c.info.Forget() }

// InFlight is the number of calls that wait for an answer.
func (c *Conn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inflight
}

// Cause is why the connection ended; nil while it lives.
func (c *Conn) Cause() error {
	if p := c.cause.Load(); p != nil {
		return *p
	}
	return nil
}

// Close ends the connection without waiting: Serve then tells what becomes of the calls and returns. It may be called
// from anywhere, more than once.
func (c *Conn) Close(cause error) {
	if cause == nil {
		cause = errShutdown
	}
	first := c.cause.CompareAndSwap(nil, &cause)
	// The second caller may not rely on the first to have got this far: teardown follows when Serve has called
	// Close.
	c.mu.Lock()
	c.closed = true // no further call is taken
	c.mu.Unlock()
	if first {
		close(c.quit)
	}
	switch {
	case c.try != nil:
		hangUp(c.nc)
	case first:
		// closing may block: TLS says goodbye, and foreign connections do as they like. teardown waits for it
		go func() {
			hangUp(c.nc)
			close(c.hungUp)
		}()
	}
}

// hangUp closes a socket. A read under way ends first: closing would wait for it where the user has set the descriptor
// to blocking mode since Dial has given it.
func hangUp(nc net.Conn) {
	under := nc
	if t, ok := nc.(*tls.Conn); ok {
		under = t.NetConn()
	}
	if t, ok := under.(*net.TCPConn); ok {
		_ = t.CloseRead()
	}
	_ = nc.Close()
}

// Refuse takes no further calls; those that were taken may finish.
func (c *Conn) Refuse() {
	c.mu.Lock()
	c.refusing = true
	c.mu.Unlock()
}

// Idle reports whether nothing waits for an answer or to be written.
func (c *Conn) Idle() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed || c.inflight == 0 && len(c.pend) == c.head && !c.flushing
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

// now is the time since the cluster's base.
func (c *Conn) now() int64 { return int64(time.Since(c.base)) }

// arm sets the timer for a call's deadline or for the next look at its context. The lock is held; a timer's Reset
// does not block.
func (c *Conn) arm(deadline int64, cancelable bool) {
	now := c.now()
	want := deadline
	if cancelable && !c.ticking {
		c.ticking = true
		want = min(want, now+int64(watchTick))
	}
	if want < c.armed {
		c.armed = want
		c.timer.Reset(time.Duration(max(want-now, 0)))
	}
}

// sweep runs when the timer fires: it expires what is due, watches the contexts of calls that have lasted a tick, and
// arms the timer again for the earliest deadline that is left, or for the next tick.
func (c *Conn) sweep() {
	c.mu.Lock()
	c.armed, c.ticking = never, false
	used, fills := c.slots.used, c.fills
	c.mu.Unlock()
	var due, watch []*call.Call
	silent, durable, again := false, false, false
	next, now, gone := int64(never), c.now(), 0
	for i := range used {
		s := c.slots.at(uint16(i))
		v, ok := s.hold()
		if !ok {
			continue
		}
		switch call := s.call; {
		case call.Ended(), call.Deadline <= now:
			// if its context's timer was first, the node has left it without an answer all the same
			if call.Deadline <= now {
				due = append(due, call)
				silent = silent || call.Route.Reads == fills && call.Req.Connection() == "" &&
					call.Sent() != memd.OpNoop
			}
			call.Share()
			s.call = nil
			gone++
			s.word.Store(uint64(uint32(v))&^3 | slotOrphan)
		default:
			next = min(next, call.Deadline)
			durable = durable || call.DurabilityMS != 0
			switch {
			case !call.Unwatched():
			case call.Started+int64(watchTick) > now:
				again = true
			default:
				call.Share()
				watch = append(watch, call)
			}
			s.word.Store(v)
		}
	}
	c.mu.Lock()
	c.inflight -= gone
	c.orphans += gone
	over := c.orphans > maxOrphans
	room := c.room()
	if again && !c.ticking {
		c.ticking = true
		next = min(next, now+int64(watchTick))
	}
	if next < c.armed && !c.down {
		c.armed = next
		c.timer.Reset(time.Duration(max(next-c.now(), 0)))
	}
	c.mu.Unlock()
	for _, call := range due {
		c.h.Expired(call)
	}
	if silent && !durable {
		c.h.Silent(c)
	}
	if room {
		c.h.Room(c)
	}
	for _, call := range watch {
		call.Watch()
	}
	if over {
		c.Close(ErrOrphans)
	}
}

// Durable reports whether a durable write waits for its answer. A node may hold up whatever comes after such a write on
// the connection, even where it answers out of order: only requests for documents pass each other.
func (c *Conn) Durable() bool {
	c.mu.Lock()
	used := c.slots.used
	c.mu.Unlock()
	for i := range used {
		s := c.slots.at(uint16(i))
		v, ok := s.hold()
		if !ok {
			continue
		}
		durable := s.call.DurabilityMS != 0
		s.word.Store(v)
		if durable {
			return true
		}
	}
	return false
}

// Serve runs the connection until it ends and gives the reason. It must be called once.
func (c *Conn) Serve() error {
	if c.try == nil {
		c.wg.Go(c.flusher)
	}
	err := c.read()
	c.Close(err)
	c.teardown()
	return c.Cause()
}

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
		c.orphans -= c.cameLate
		room, large := c.room(), c.large()
		c.mu.Unlock()
		if room {
			c.h.Room(c)
		}
		c.Stats.Answers.Add(int64(c.ended))
		c.idleWakes = c.parked > 0 && c.parked == c.ended
		c.freed, c.ended, c.cameLate, c.parked = c.freed[:0], 0, 0, 0
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
			c.resize(restRead)
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

// Rest lets go of the memory that only a busy connection needs. It is for one that has read nothing for some time; on a
// busy one it costs a little time and harms nothing.
func (c *Conn) Rest() {
	c.mu.Lock()
	c.spares = nil
	c.mu.Unlock()
	if c.reads.Load() <= restRead {
		return
	}
	if c.resting.CompareAndSwap(awake, goingToRest) {
		_ = c.nc.SetReadDeadline(time.Unix(1, 0)) // wakes the reader, which alone may change its buffer
		c.resting.Store(atRest)
	}
}

// Where Rest is on its way. The reader takes the deadline away only when it is certain that it is not yet to be set.
const (
	awake = iota
	goingToRest
	atRest
)

// rested reports whether a read has failed because of Rest, and lets reads block again.
func (c *Conn) rested(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	for c.resting.Load() == goingToRest {
		runtime.Gosched() // the other goroutine is setting the deadline, which does not block
	}
	if c.resting.Load() != atRest || c.nc.SetReadDeadline(time.Time{}) != nil {
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
		c.cameLate++
	}
	c.orphan(p)
}

func (c *Conn) orphan(p *memd.Packet) {
	c.Stats.Orphans.Add(1)
	c.h.Orphan(c, p)
}
