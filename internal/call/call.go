package call

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Route is where a call's current attempt goes. The dispatcher writes it before it hands the call to a connection.
type Route struct {
	Hash         uint32 // of the key; taken once, because the key is lent
	CollectionID uint32
	Opaque       uint32
	Map          uint32 // the number, among those that the dispatcher has had, of the cluster map that the way is of
	VBucket      uint16
	Prefixed     bool   // keys on the connection have their collection's id before them
	Forward      bool   // the node is that of the forward map, which is of Slow's ForwardRev
	Reads        uint32 // how often the connection had read something when the request was appended
}

// Call is one operation on its way: the request, the attempt's route, the retry state and the outcome. Its starter
// owns it until Dispatch, then the dispatcher does until the call finishes; it finishes exactly once. A Call is made
// by a Dispatcher's NewCall. Its methods are for dispatchers.
type Call struct {
	State retry.State
	wake  chan struct{}        // of a call that is waited for; nil before it has been one
	slow  atomic.Pointer[Slow] // nil until it is needed
	place *tasks.Place         // where it is counted; nil before it has been

	use
}

// Slow is what a call has beside its request that a good answer at the first attempt does not need. It is made by the
// first that needs it, on whatever goroutine.
type Slow struct {
	// ForwardRev is the cluster map's whose forward map Route.Forward is about.
	ForwardRev uint64
	// DuePlace is the dispatcher's: where it keeps the call's deadline.
	DuePlace int32
	// LostRaces counts connections that died between the pick and the write.
	LostRaces uint8

	watched atomic.Bool
	held    atomic.Bool
	stage   atomic.Uint32
	unwatch atomic.Pointer[func() bool]
	watcher Watcher // is told what becomes of the call, when the call is observed; kept for its memory otherwise
	// that attempts without success were metered: read units in the upper half, write units below
	units atomic.Uint64
	began atomic.Int64 // as Begin and Spend say; 0 before
	// What earlier attempts have taken, and their servers of that, in nanoseconds.
	spent, last, served, lastServed atomic.Int64
}

// Format prints that it is a call, whatever the verb: the client may be changing it meanwhile.
func (c *Call) Format(s fmt.State, _ rune) { _, _ = fmt.Fprint(s, "call") }

// Slow gives what the call has on the slow path.
func (c *Call) Slow() *Slow {
	if s := c.slow.Load(); s != nil {
		return s
	}
	c.slow.CompareAndSwap(nil, &Slow{})
	return c.slow.Load()
}

// use is what one use of a call's memory has: Reset makes it zero. State counts attempts on, and wake stays.
type use struct {
	Route Route
	// Started and Deadline are in nanoseconds since the home's base.
	Started, Deadline int64
	ctx               context.Context
	group             *sync.WaitGroup // batch form

	shares   atomic.Uint32 // whether more than one connection's slot knows the call: a constant below
	guard    atomic.Uint32 // 0 free, 1 being encoded, 2 ended
	form     form
	sent     memd.Opcode // of the request that was encoded last
	has      has         // does not change while the call is on its way
	failed   bool        // err is set
	observed bool        // Slow's watcher is set
	inDoubt  bool
	refused  bool  // err is what the server has answered, and only the waiter knows of it
	via      *Via  // the connection of the current attempt, nil without one
	home     *Home // nil before the call is dispatched
	err      error

	started *Started // future and callback form

	Req Request
	Res Response
}

// Via is a connection as results and errors name it. It does not change.
type Via struct {
	Endpoint  string // the node's address
	Local     string // the connection's own id
	LocalAddr string // this end's address
	Bucket    string // that it is for
}

// SetVia says which connection carries the call's current attempt.
func (c *Call) SetVia(v *Via) { c.via = v }

// Endpoint is the address of the current attempt's node, "" without one.
func (c *Call) Endpoint() string {
	if c.via == nil {
		return ""
	}
	return c.via.Endpoint
}

// The values of shares: who knows a call beside its starter and the slot of one connection.
const (
	sharedNone   = iota
	sharedLent   // other goroutines, until Release at the latest
	sharedLeaked // other goroutines, perhaps beyond Release: the call is never pooled again
)

// has is a set of what few calls have.
type has uint8

const (
	hasContext  has = 1 << iota // a context that can end
	hasTurn                     // the starter waits for the call to be on its way
	hasStrategy                 // State.Strategy is set
	hasSpec                     // Req.spec is set
	hasPolicy                   // the runner may have hedges for calls that name none
	hasEntered                  // it is counted as an operation
	hasRefused                  // the client shuts down
)

type form uint8

const (
	formBlocking form = iota
	formFuture
	formCallback
	formBatch
	formInline
)

// NewCall makes a call that no dispatcher has seen. A Dispatcher may pool calls that Pooled says may be.
func NewCall() *Call { return &Call{} }

// In names the collection of an operation that names none. It is for a Dispatcher's NewCall.
func (c *Call) In(scope, collection string) {
	if scope != "" || collection != "" {
		o := c.Req.Own()
		o.Scope, o.Collection = scope, collection
	}
}

// Reset makes a pooled call ready for its next use: it is as NewCall makes one, but that attempts go on counting and
// that it keeps its channel and other memory: Slow, and what few requests have, both zero, and that of values.
func (c *Call) Reset() {
	c.State.Reset()
	if s := c.slow.Load(); s != nil {
		*s = Slow{watcher: s.watcher}
	}
	own := c.Req.own
	if c.Req.cold != nil {
		own.cold = Cold{}
	}
	if own != nil {
		own.packed = nil
	}
	c.use = use{}
	c.Req.own = own
}

// Pooled reports whether the finished call may be used again: no other goroutine can hold it any more.
func (c *Call) Pooled() bool {
	return c.form != formFuture && c.form != formCallback && (!c.failed || c.refused) &&
		c.shares.Load() != sharedLeaked
}

// Share marks that other goroutines know c from now on, perhaps beyond Release, so that it is never pooled.
func (c *Call) Share() { c.shares.Store(sharedLeaked) }

// Lend marks that other goroutines know c from now on, but not beyond Release.
func (c *Call) Lend() { c.shares.CompareAndSwap(sharedNone, sharedLent) }

func (c *Call) shared() bool { return c.shares.Load() != sharedNone }

// Spec is the row of c's opcode; nil for an opcode without one.
func (c *Call) Spec() *Spec {
	if c.has&hasSpec != 0 {
		return c.Req.cold.spec
	}
	return specs[c.Req.Opcode]
}

// Is reports whether the call's opcode has a row, and that the trait.
func (c *Call) Is(t Traits) bool {
	s := c.Spec()
	return s != nil && s.Has(t)
}

// SetStrategy makes s the strategy of the call, whatever its request says. A dispatcher may call it before anything is
// sent.
func (c *Call) SetStrategy(s retry.Strategy) {
	c.State.Strategy = s
	c.has |= hasStrategy
}

// Context is the context the caller gave.
func (c *Call) Context() context.Context { return c.ctx }

// Sent is the opcode of the request that is on the wire.
func (c *Call) Sent() memd.Opcode { return c.sent }
