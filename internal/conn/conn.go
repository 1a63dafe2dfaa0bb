package conn

import (
	"crypto/tls"
	"errors"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/memd"
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
	idleRead   = 4 << 10 // of a connection at rest
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
	orphaned   int
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
