package conn

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/telemetry"
	"github.com/couchcore/couchcore/memd"
)

// Handler is told what a connection meets. Its methods run on the connection's goroutines; they must not block and
// must not close the connection.
type Handler interface {
	// Answered gets a call whose attempt was answered with something else than success; the attempt is claimed. p is
	// valid during the call.
	Answered(cn *Conn, c *call.Call, p *memd.Packet)
	// Unanswered says that Lost gets n calls next, one by one, or Expired all of them. It comes before, because what
	// follows from the end of the first may happen before the last has ended. The cause is nil where deadlines have
	// passed.
	Unanswered(n int, cause error)
	// Lost gets a call that was on the wire when the connection ended.
	Lost(c *call.Call, epoch uint32, cause error)
	// Unsent gets a call that provably never reached the server. cut says that part of its frame was written.
	Unsent(c *call.Call, cut bool, cause error)
	// Expired gets the calls whose deadlines have passed. The slice is its own.
	Expired(calls []*call.Call)
	// Silent says that calls have expired, and that nothing at all was read since one of them was sent. A NOOP and a
	// request that is bound to its connection are no such calls, since their sender draws conclusions of its own.
	// While a request is in flight that may hold up what comes after it, nothing is said.
	Silent(cn *Conn)
	// Orphan counts an answer whose call has ended. What is known of the call is zero for one that nothing is known of.
	Orphan(cn *Conn, p *memd.Packet, late call.Late)
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
	errGone      = errors.New("a function of the program has ended the reader's goroutine")
)

const maxOrphans = 16384

// Conn is a bootstrapped connection. Connect makes it, Serve runs it on the goroutine that calls it, Close ends it.
// It has no goroutine of its own, but one that writes for as long as the socket is full, on sockets that have no
// attempt to write without blocking for each write, and one that closes the socket. Serve waits for them.
type Conn struct {
	// Map is the number of the oldest cluster map whose calls the connection may carry: it is for the sender of calls.
	// Who has made the connection sets it before others know of it.
	Map   uint32
	Stats Stats

	nc       net.Conn
	h        Handler
	feedback atomic.Pointer[Feedback] // nil: successes are not told; see SetFeedback
	info     handshake.Info
	packer   call.Packer
	counts   *telemetry.Counters // of attempts; nil: not counted

	mu        sync.Mutex // held for appending a request, never across a write or a method of the handler
	cause     error      // why the connection has ended; nil while it lives
	refusing  bool       // its node has left: what is in flight may finish
	slots     slots
	writer    writer
	deadlines deadlines
	holders   holders
	late      map[uint32]lateCall // by opaque: orphans that reports know of

	reader reader // of Serve's goroutine
	wg     sync.WaitGroup
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

// InFlight is the number of calls that wait for an answer, without the client's own requests.
func (c *Conn) InFlight() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slots.inFlight()
}

// Cause is why the connection ended; nil while it lives.
func (c *Conn) Cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cause
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
	return c.cause != nil || c.slots.withOwn() == 0 && len(c.writer.pend) == 0 && c.writer.role != writing
}

// ShrinkIdle lets go of the memory that only a busy connection needs. It is for one that has read nothing for some
// time; on a busy one it costs a little time and harms nothing.
func (c *Conn) ShrinkIdle() {
	c.mu.Lock()
	c.writer.spares = nil
	c.mu.Unlock()
	c.reader.shrink()
}

// Serve runs the connection until it ends and gives the reason. It must be called once.
func (c *Conn) Serve() (cause error) {
	if p := c.reader.pushed; p != nil {
		c.reader.pushed = nil
		c.h.Push(c, p)
	}
	err := errGone // stays when a program's function ends the goroutine
	defer func() {
		c.Close(err)
		c.teardown()
		cause = c.Cause()
	}()
	err = c.read()
	return err
}
