package call

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Owner is what a call needs of the dispatcher that runs it.
type Owner interface {
	// Redispatch routes and sends c again. It never blocks.
	Redispatch(c *Call)
	// Cancel ends c with cause unless it has ended, and says whether it did. context.DeadlineExceeded as the cause ends
	// it as timed out.
	Cancel(c *Call, cause error) bool
	// Complete runs f, which calls a user's function, where it can't hold up anything else.
	Complete(f func())
}

// Route is where a call's current attempt goes. The dispatcher writes it before it hands the call to a connection.
type Route struct {
	Hash         uint32 // of the key; taken once, because the key is lent
	CollectionID uint32
	Opaque       uint32
	Map          uint32 // the number, among those that the dispatcher has had, of the cluster map that the way is of
	VBucket      uint16
	Prefixed     bool   // keys on the connection have their collection's id before them
	Forward      bool   // the node is that of the forward map, which is of the call's ForwardRev
	Reads        uint32 // how often the connection had read something when the request was appended
}

// Call is one operation on its way: the request, the attempt's route, the retry state and the outcome. Its starter
// owns it until Dispatch, then the dispatcher does until the call finishes; it finishes exactly once. A Call is made
// by a Dispatcher's NewCall. Its methods are for dispatchers.
type Call struct {
	State retry.State
	wake  chan struct{} // of a call that is waited for; nil before it has been one
	spare []byte        // memory for a compressed value, the request's or the answer's

	use
}

// use is what one use of a call's memory has: Reset makes it zero. State counts attempts on, and wake and spare stay.
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
	observed bool        // watcher is set
	inDoubt  bool
	refused  bool // err is what the server has answered, and only the waiter knows of it
	// LostRaces counts connections that died between the pick and the write.
	LostRaces uint8
	via       *Via  // the connection of the current attempt, nil while there is none
	home      *Home // nil before the call is dispatched
	err       error

	// ForwardRev is the cluster map's whose forward map Route.Forward is about.
	ForwardRev uint64
	// policyHedge is asked for the hedges of calls that name none.
	policyHedge func(op memd.Opcode) (h *Hedge, pinned bool)
	ownSpec     *Spec // of an operation that has no row in the table

	unwatch atomic.Pointer[func() bool] // set only when the call is shared
	watcher *watching                   // is told what becomes of the call, when calls are observed

	// DuePlace is the dispatcher's: where it keeps the call's deadline.
	DuePlace int32
	watched  atomic.Bool // this and the next two change only when the call is shared, as do units
	held     atomic.Bool
	stage    atomic.Uint32
	// that attempts without success were metered: read units in the upper half, write units below
	units atomic.Uint64
	// DurabilityMS is the timeout that a durable write tells the server.
	DurabilityMS uint32

	async *async // future and callback form

	Req Request
	Res Response
}

// async is what a call has that its starter does not wait for.
type async struct {
	finish    func()        // callback form
	done      chan struct{} // future form: closed when the call has finished
	taken     chan struct{} // closed when the call is on its way or has ended; nil unless it waits for its turn
	takenOnce atomic.Bool
	outcome   sync.Once // future form: its outcome is made once
	err       error     // the outcome
}

// Via is a connection as results and errors name it. It does not change.
type Via struct {
	Endpoint string // the node's address
	Local    string // the connection's own id
	Bucket   string // that it is for
}

// SetVia says which connection carries the call's current attempt.
func (c *Call) SetVia(v *Via) { c.via = v }

// Endpoint is the address of the current attempt's node, "" while there is none.
func (c *Call) Endpoint() string {
	if c.via == nil {
		return ""
	}
	return c.via.Endpoint
}

// Home is what all calls of one dispatcher have in common. It does not change.
type Home struct {
	Owner  Owner
	Bucket string
	Base   time.Time // what Started and Deadline count from
}

// Who else than one connection's slot knows a call.
const (
	sharedNone   = iota
	sharedLent   // until Release
	sharedLeaked // for who knows how long: never pooled again
)

// has is what a call has that most have not.
type has uint8

const (
	hasContext  has = 1 << iota // a context that can end
	hasTurn                     // the starter waits for the call to be on its way
	hasStrategy                 // State.Strategy is set
	hasSpec                     // ownSpec is set
	hasPolicy                   // policyHedge is set
)

type form uint8

const (
	formBlocking form = iota
	formFuture
	formCallback
	formBatch
)

// NewCall makes a call that no dispatcher has seen. A Dispatcher may pool calls that Pooled says may be.
func NewCall() *Call { return &Call{} }

// In names the collection of an operation that names none. It is for a Dispatcher's NewCall.
func (c *Call) In(scope, collection string) { c.Req.Scope, c.Req.Collection = scope, collection }

// Reset makes a pooled call ready for its next use: it is as NewCall makes one, but that attempts go on counting and
// that it keeps its channel and its spare memory.
func (c *Call) Reset() {
	c.State.Reset()
	c.use = use{}
}

// Pooled reports whether the finished call may be used again: no other goroutine can hold it any more.
func (c *Call) Pooled() bool {
	return (c.form == formBlocking || c.form == formBatch) && (!c.failed || c.refused) &&
		c.shares.Load() != sharedLeaked
}

// Share marks that c is known outside of one connection's slot from now on, for who knows how long, so that it is never
// pooled.
func (c *Call) Share() { c.shares.Store(sharedLeaked) }

// Lend marks that c is known outside of one connection's slot from now on, but not beyond Release.
func (c *Call) Lend() { c.shares.CompareAndSwap(sharedNone, sharedLent) }

func (c *Call) shared() bool { return c.shares.Load() != sharedNone }

// Bind gives c to its dispatcher.
func (c *Call) Bind(h *Home) { c.home = h }

// began is when the call was dispatched; zero before.
func (c *Call) began() time.Time {
	if c.home == nil || c.home.Base.IsZero() {
		return time.Time{}
	}
	return c.home.Base.Add(time.Duration(c.Started))
}

// bucket is the name of the bucket that the call is for, "" before it was dispatched.
func (c *Call) bucket() string {
	if c.home == nil {
		return ""
	}
	return c.home.Bucket
}

// Spec is the row of c's opcode; nil for an opcode without one.
func (c *Call) Spec() *Spec {
	if c.has&hasSpec != 0 {
		return c.ownSpec
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

// Cancelable reports whether the caller's context can end before its deadline does.
func (c *Call) Cancelable() bool { return c.has&hasContext != 0 }

// Watch makes the end of the caller's context end the call. It may be called more than once, from anywhere.
func (c *Call) Watch() {
	if !c.Cancelable() || !c.watched.CompareAndSwap(false, true) {
		return
	}
	c.Share()
	stop := context.AfterFunc(c.ctx, func() {
		cause := context.Cause(c.ctx)
		if errors.Is(c.ctx.Err(), context.DeadlineExceeded) {
			cause = context.DeadlineExceeded // the owner makes a timeout of it
		}
		c.home.Owner.Cancel(c, cause)
	})
	c.unwatch.Store(&stop)
	if c.State.Phase() == retry.PhaseDone {
		stop()
	}
}

// AppendTo appends the request of the current attempt to dst under the caller's lock. ended is true when the call has
// finished meanwhile; then nothing is appended, because its key and value may be the caller's again.
func (c *Call) AppendTo(dst []byte, w *Wire) (out []byte, ended bool, err error) {
	out, value, watch, ended, err := c.beginAppend(dst, w)
	if ended {
		return dst, true, nil
	}
	out = append(out, value...)
	if watch {
		c.guard.Store(0)
	}
	return out, false, err
}

// AppendHead is AppendTo for a request whose value is copied later: Copy must follow, with the value. That is lent
// until then, too.
func (c *Call) AppendHead(dst []byte, w *Wire) (out, value []byte, ended bool, err error) {
	out, value, watch, ended, err := c.beginAppend(dst, w)
	if watch {
		c.guard.Store(0)
	}
	return out, value, ended, err
}

// beginAppend appends all but the value. With watch the guard is held.
func (c *Call) beginAppend(dst []byte, w *Wire) (out, value []byte, watch, ended bool, err error) {
	watch = c.shared() // otherwise no other goroutine knows the call and can end it meanwhile
	if watch && !c.guard.CompareAndSwap(0, 1) || c.guard.Load() == 2 {
		return dst, nil, false, true, nil
	}
	w.VBucket, w.CollectionID = c.Route.VBucket, c.Route.CollectionID
	if c.Req.Durability != 0 {
		w.DurabilityMS = c.DurabilityMS
	}
	if out, value, err = c.Req.appendHead(dst, w); err == nil {
		c.appended(w)
	}
	return out, value, watch, false, err
}

// Copy appends the value that AppendHead has given. It appends nothing when the call has ended: the value may be the
// caller's again.
func (c *Call) Copy(dst, value []byte) []byte {
	if !c.guard.CompareAndSwap(0, 1) {
		return dst
	}
	dst = append(dst, value...)
	c.guard.Store(0)
	return dst
}

// BeginSimple is the first half of AppendTo for a Simple request that no other goroutine can end meanwhile, and says
// how long that is; Req.PutSimple must follow. 0 means that AppendTo is to be used, and that nothing was begun.
func (c *Call) BeginSimple(w *Wire) int {
	if !c.Req.simple || c.shared() || c.guard.Load() != 0 {
		return 0
	}
	w.VBucket = c.Route.VBucket
	c.appended(w)
	return c.Req.simpleLen(w)
}

// appended notes what is on its way.
func (c *Call) appended(w *Wire) {
	c.via = w.Via
	c.Route.Opaque = w.Opaque
	c.Route.Prefixed = w.Features.Has(memd.FeatureCollections)
	c.sent = c.Req.Opcode
	if c.observed {
		c.watcher.Sent(w.Via, w.Opaque)
	}
}

// MarkHeld says once whether the call still needs a deadline outside of a connection.
func (c *Call) MarkHeld() bool { return c.held.CompareAndSwap(false, true) }

// Held reports whether MarkHeld has said so, and the call's owner still keeps its deadline.
func (c *Call) Held() bool { return c.shared() && c.held.Load() }

// Holder is an Owner that keeps the deadlines of calls outside of connections.
type Holder interface {
	// LetGo forgets the deadline of a call that has ended. False means that it is being looked at.
	LetGo(c *Call) bool
}

// letGo has the owner forget an ended call, which would otherwise stay in memory until its deadline.
func (c *Call) letGo() {
	if h, ok := c.Owner().(Holder); ok && h.LetGo(c) {
		c.held.Store(false)
	}
}

// OwnedBy reports whether o runs the call.
func (c *Call) OwnedBy(o Owner) bool { return c.Owner() == o }

// Owner is who runs the call, nil before it was dispatched.
func (c *Call) Owner() Owner {
	if c.home == nil {
		return nil
	}
	return c.home.Owner
}

// Stage is what a call waits for, or waited for when it ended.
type Stage uint32

// Stages of a call. StageReply is a call on the wire, StageBackoff one that is parked between attempts.
const (
	StageNone Stage = iota
	StageConfig
	StageCollection
	StageConnection
	StageRoom
	StageReply
	StageBackoff
)

func (s Stage) String() string {
	switch s {
	case StageNone:
	case StageConfig:
		return "waiting for the first cluster map"
	case StageCollection:
		return "waiting for the collection's id"
	case StageConnection:
		return "waiting for a connection to its node"
	case StageRoom:
		return "waiting for its turn on a full connection"
	case StageReply:
		return "waiting for the answer"
	case StageBackoff:
		return "waiting for a retry"
	}
	return ""
}

// SetStage records what the call waits for outside of a connection.
func (c *Call) SetStage(s Stage) { c.stage.Store(uint32(s)) }

// Ended reports whether the call has finished.
func (c *Call) Ended() bool { return c.State.Phase() == retry.PhaseDone }

// Unwatched reports whether the caller's context can end the call and Watch has not been called yet.
func (c *Call) Unwatched() bool { return c.Cancelable() && !c.watched.Load() }

// Succeed finishes c with a successful answer that p holds; the caller has claimed the attempt. It copies what it
// needs of p. False means that the call had ended: the answer is an orphan.
// owned says that p's value is memory of its own that the call may keep.
func (c *Call) Succeed(p *memd.Packet, owned bool) bool {
	won, _ := c.State.Finish()
	if won {
		c.State.Settle(nil)
		c.set(p, owned)
		c.deliver()
	}
	return won
}

// Win is Succeed for a reader that has not claimed the attempt, whose number is epoch.
func (c *Call) Win(epoch uint32, p *memd.Packet, owned bool) bool {
	if !c.State.Succeeded(epoch) {
		return false
	}
	c.set(p, owned)
	c.deliver()
	return true
}

// left has those forget the ended call who know of it, but for its waiter.
func (c *Call) left() {
	if !c.shared() {
		return
	}
	if c.held.Load() {
		c.letGo()
	}
	c.unwatched()
}

func (c *Call) set(p *memd.Packet, owned bool) {
	into := c.Req.Into
	if p.Datatype&memd.DatatypeSnappy != 0 {
		into = nil
		if !c.Req.KeepCompressed { // it is inflated into other memory before anybody sees it
			c.Res.set(p, c.spare[:0], owned)
			if cap(c.Res.Value) <= maxSparePacked {
				c.spare = c.Res.Value
			}
			return
		}
	}
	c.Res.set(p, into, owned)
}

// Sent is the opcode of the request that is on the wire.
func (c *Call) Sent() memd.Opcode { return c.sent }

// TakePart keeps one packet of an answer that has several; Continues says which those are. epoch is the attempt's
// number, and the caller is the reader of the connection that carries it. It copies what it needs of p.
func (c *Call) TakePart(p *memd.Packet, epoch uint32) { c.Res.part(p, epoch) }

// Fail finishes c with err unless it has ended, and says whether it did.
func (c *Call) Fail(err error) bool { return c.fail(err, false) }

// Refuse is Fail with what the server has answered, for a reader that has claimed the attempt and has told no other
// goroutine of it. A missing document is a frequent outcome: such a call may be used again.
func (c *Call) Refuse(err error) { c.fail(err, true) }

func (c *Call) fail(err error, refused bool) bool {
	won, inDoubt := c.State.Finish()
	if !won {
		return false
	}
	c.State.Settle(err)
	c.refused = refused
	c.Done(err, inDoubt)
	return true
}

// Done finishes c for the goroutine that has won State.Finish. It implements retry.Op.
func (c *Call) Done(err error, inDoubt bool) {
	c.err, c.inDoubt, c.failed = err, inDoubt, true
	for !c.guard.CompareAndSwap(0, 2) {
		runtime.Gosched() // an encoder is copying the caller's bytes: some microseconds at most
	}
	c.deliver()
}

// unwatched lets go of the caller's context.
func (c *Call) unwatched() {
	if stop := c.unwatch.Load(); stop != nil {
		(*stop)()
	}
}

// Taken says that a call which has waited for its turn is on its way.
func (c *Call) Taken() {
	if c.has&hasTurn != 0 && c.async.takenOnce.CompareAndSwap(false, true) {
		close(c.async.taken)
	}
}

// AwaitTurn blocks while the call waits for its turn. Its deadline and the end of its context end that too.
func (c *Call) AwaitTurn() {
	if c.has&hasTurn != 0 && Stage(c.stage.Load()) == StageRoom {
		<-c.async.taken
	}
}

func (c *Call) deliver() {
	c.left()
	c.Taken()
	switch c.form {
	case formBlocking:
		c.wake <- struct{}{}
	case formBatch:
		c.group.Done()
	case formFuture:
		close(c.async.done)
		if c.observed { // it may never be waited for
			c.home.Owner.Complete(func() { _ = c.Outcome() })
		}
	case formCallback:
		if c.home == nil {
			c.async.finish()
			return
		}
		c.home.Owner.Complete(c.async.finish)
	}
}

// Watcher is told what becomes of a call. Its methods must not block; all but Done are called on connections' readers
// and writers, and under their locks.
type Watcher interface {
	// Sent says that an attempt begins: its request was appended to what a connection writes.
	Sent(v *Via, opaque uint32)
	// Unsent says that nothing of the attempt has left.
	Unsent()
	// Failed says that the attempt which was out, if one was, has failed. The call may go on. cause is not to be kept.
	Failed(cause error)
	// Done gives the outcome, once, on a goroutine that is no connection's.
	Done(err error)
}

// ObserveAttempts has w told what becomes of the call and of its attempts.
func (c *Call) ObserveAttempts(w Watcher) { c.watcher, c.observed = &watching{w}, true }

// watching is behind a pointer, because calls that are not observed need no room for it.
type watching struct{ Watcher }

// Observe has f told the call's outcome, once, on a goroutine that is no connection's.
func (c *Call) Observe(f func(err error)) {
	if c.watcher, c.observed = nil, false; f != nil {
		c.ObserveAttempts(outcomeWatcher(f))
	}
}

// outcomeWatcher is a Watcher of outcomes alone.
type outcomeWatcher func(err error)

// Sent implements Watcher.
func (outcomeWatcher) Sent(*Via, uint32) {}

// Unsent implements Watcher.
func (outcomeWatcher) Unsent() {}

// Failed implements Watcher.
func (outcomeWatcher) Failed(error) {}

// Done implements Watcher.
func (f outcomeWatcher) Done(err error) { f(err) }

// AttemptFailed implements retry.Attempter.
func (c *Call) AttemptFailed(cause error) {
	if c.observed {
		c.watcher.Failed(cause)
	}
}

// NotSent says that nothing of the call's attempt has left.
func (c *Call) NotSent() {
	if c.observed {
		c.watcher.Unsent()
	}
}

// Outcome gives the finished call's error, translated: nil, or a *Error.
func (c *Call) Outcome() error {
	if c.form == formFuture {
		c.async.outcome.Do(func() { c.async.err = c.settle() })
		return c.async.err
	}
	return c.settle()
}

func (c *Call) settle() error {
	err := c.result()
	if c.observed {
		if c.Req.AbsentOK && IsAbsent(err) { // an answer, to the observer too
			c.watcher.Done(nil)
		} else {
			c.watcher.Done(err)
		}
	}
	return err
}

func (c *Call) result() error {
	if !c.failed {
		if c.shared() { // only such a call can have a history
			c.Res.Facts.Retry = c.State.Kept()
			c.Res.Facts.addUnits(c.units.Load())
		}
		return nil
	}
	return c.Translate(c.err, c.inDoubt)
}

// Retry implements retry.Op.
func (c *Call) Retry() *retry.State { return &c.State }

// Size implements retry.Op: the bytes a parked call keeps alive.
func (c *Call) Size() int { return c.Req.wireSize() }

// Dispatch implements retry.Op.
func (c *Call) Dispatch() { c.home.Owner.Redispatch(c) }

// Describe implements retry.Op.
func (c *Call) Describe(r *retry.Request) {
	r.Context = c.ctx
	r.Service = "kv"
	r.Operation = c.name()
	r.Endpoint = c.Endpoint()
	r.Bucket, r.Scope, r.Collection = c.bucket(), c.Req.Scope, c.Req.Collection
	r.Started = c.began()
	if !r.Started.IsZero() {
		r.Deadline = c.home.Base.Add(time.Duration(c.Deadline))
	}
}

// Explain implements retry.Explainer: the owner knows more.
func (c *Call) Explain(cause error) error {
	if x, ok := c.Owner().(retry.Explainer); ok {
		return x.Explain(cause)
	}
	return cause
}

// Identify implements retry.Identifier.
func (c *Call) Identify() string { return opaqueID(c.Route.Opaque) }

func (c *Call) name() string {
	if c.Req.Verb != "" {
		return c.Req.Verb
	}
	if s := c.Spec(); s != nil {
		return s.Name
	}
	return c.Req.Opcode.String()
}

func opaqueID(o uint32) string {
	const hex = "0123456789abcdef"
	b := [10]byte{'0', 'x'}
	for i := range 8 {
		b[2+i] = hex[o>>(28-4*i)&15]
	}
	return string(b[:])
}

// Prepare loads what the call needs besides the operation's fields. A context that has ended already ends the call
// here, before anything is sent.
func (c *Call) Prepare(ctx context.Context) error {
	spec := c.Spec()
	c.State.Idempotent = spec != nil && spec.Has(Idempotent)
	if c.Req.Retry != nil {
		c.SetStrategy(c.Req.Retry)
	}
	c.ctx = ctx
	if spec == nil {
		return BadArgument("opcode", c.Req.Opcode.String()+" is no operation of this client")
	}
	if err := c.Req.Validate(spec); err != nil {
		return err
	}
	if c.Req.Durability != 0 && c.Req.Capability == "" {
		c.Req.Capability = CapabilityDurableWrite
	}
	c.Req.simple = c.Req.isSimple(spec)
	if c.Req.Block && (c.form == formFuture || c.form == formCallback) {
		c.has |= hasTurn
		c.async.taken = make(chan struct{})
	}
	if ctx.Done() != nil {
		c.has |= hasContext
		if err := ctx.Err(); err != nil {
			return &contextError{cause: context.Cause(ctx), deadline: errors.Is(err, context.DeadlineExceeded)}
		}
	}
	return nil
}

// contextError is a context that had ended before the call began.
type contextError struct {
	cause    error
	deadline bool
}

func (e *contextError) Error() string { return e.cause.Error() }
func (e *contextError) Unwrap() error { return e.cause }

// ContextEnded is the failure of a call whose context has ended with cause; deadline says that its time was over.
func ContextEnded(cause error, deadline bool) error {
	return &contextError{cause: cause, deadline: deadline}
}
