package kv

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// ReadsDispatcher is a BatchDispatcher that can take over many reads without a call for each.
type ReadsDispatcher interface {
	BatchDispatcher
	// NewReads gives reads to fill, or nil when the dispatcher wants calls instead.
	NewReads() *Reads
	// DispatchReads takes the reads over as DispatchAll does calls. One may be alone.
	DispatchReads(r *Reads)
	// AdmitRead gives c, which is to stand for one of r, what DispatchAll would have given it, and does not send it.
	AdmitRead(c *Call, r *Reads)
	// ReleaseReads takes back reads that have all finished.
	ReleaseReads(r *Reads)
}

// Reads is a portion of a batch that reads whole documents of one collection, or a read that Do waits for and that is alone.
// What their calls would have in common is here once, and a read is no more than its place on the connection that carries
// it, until something else happens to it than a good answer: then it becomes a call of its own, see Call. Whoever has taken
// a read's place owns the read, so it is either answered or becomes a call, and once.
type Reads struct {
	// What a read that is alone needs comes first, in whole cache lines: most reads are, and their memory passes to and fro
	// between whoever waits and a connection's reader. That one looks at the first two lines alone.
	wake              chan baton // of whoever waits for a read that is alone
	into              []byte     // of that read
	is                readsAre
	prefixLen, keyMax uint8
	collection        uint32    // its id
	one               GetResult // of that read
	d                 ReadsDispatcher

	key []byte // of that read
	ctx context.Context
	// These are the dispatcher's, which does not change them once the first read is on its way. Started and Deadline are in
	// nanoseconds since its base; Map is the number of the cluster map that the reads are routed by, and VBuckets how many that
	// has.
	// Reads may begin when they are appended, see NotBegun.
	Started, Deadline int64
	Map, VBuckets     uint32

	done         <-chan struct{} // of ctx, which is the caller's code and not asked under a lock
	InflateLimit int32           // a Limiter's: at most 1 GiB
	packed       atomic.Bool     // values have come compressed
	prefix       [5]byte
	common       Common
	out          []Outcome[GetResult]
	keys         [][]byte // or ops
	ops          []Get
	group        group

	mu    sync.Mutex
	calls []*Call // of the reads that have become calls, nil where there is none; nil as long as no read has

	// Of a read that is alone.
	call  [1]*Call
	wakes chan baton // of the call, while that has the read's
	err   error
}

// readsAre says what reads are. It changes before they are dispatched, and with how one that is alone has ended.
type readsAre uint8

const (
	readsAlone      readsAre = 1 << iota // there is one, which is in no batch
	readsNamed                           // common is not zero
	readsCancelable                      // done is not nil
	readsRare                            // a read that is alone has not ended with a plain answer
)

// notBegun is the Started of reads that have not begun.
const notBegun = math.MinInt64

func (r *Reads) alone() bool { return r.is&readsAlone != 0 }

// ReadAt is one of many reads and where it goes.
type ReadAt struct {
	I       uint32
	VBucket uint16
}

// reads gives the outcomes of reads that need no calls of their own, of keys or of ops; false when there is one that does,
// or d wants calls.
func reads(ctx context.Context, d Dispatcher, common *Common, keys [][]byte, ops []Get, inFlight int) ([]Outcome[GetResult], bool) {
	rd, ok := d.(ReadsDispatcher)
	if !ok || !common.shared() || !alike(ops) {
		return nil, false
	}
	n := len(keys) + len(ops)
	size, used := portions(n, inFlight)
	var places [2]*Reads
	for i := range used {
		r := rd.NewReads()
		if r == nil {
			return nil, false
		}
		r.is, r.d, r.ctx, r.common = readsNamed, rd, ctx, *common
		if r.done = ctx.Done(); r.done != nil {
			r.is |= readsCancelable
		}
		places[i] = r
	}
	out := make([]Outcome[GetResult], n)
	turn := 0
	for from := 0; from < n; from += size {
		r, to := places[turn%used], min(from+size, n)
		r.finish()
		if r.out = out[from:to]; ops != nil {
			r.ops = ops[from:to]
		} else {
			r.keys = keys[from:to]
		}
		r.start()
		turn++
	}
	for i := range used {
		r := places[(turn+i)%used]
		r.finish()
		r.release()
	}
	return out, true
}

// release gives the memory of reads that have all finished back.
func (r *Reads) release() {
	if !r.alone() {
		r.keys, r.ops, r.out = nil, nil, nil
	}
	if r.is&readsNamed != 0 {
		r.common = Common{}
		r.SetCollection(0)
	}
	if r.is&readsCancelable != 0 {
		r.done = nil
	}
	d := r.d
	r.is, r.key, r.into, r.d, r.ctx = 0, nil, nil, nil, nil
	d.ReleaseReads(r)
}

// lone gives what reads op without a call, if op asks for no more than a document and d can do that; otherwise it gives nil.
// It is to be dispatched and waited for, and its end must follow.
func lone(ctx context.Context, d Dispatcher, op *Get) *Reads {
	rd, ok := d.(ReadsDispatcher)
	if !ok || op.projects() || op.Hedge != nil || op.KeepCompressed {
		return nil
	}
	is, done := readsAlone, ctx.Done()
	if !op.isZero() {
		if !op.Common.shared() {
			return nil
		}
		is |= readsNamed
	}
	if done != nil {
		if ended(done) {
			return nil // a call says why
		}
		is |= readsCancelable
	}
	r := rd.NewReads()
	if r == nil {
		return nil
	}
	if is&readsNamed != 0 {
		r.common = op.Common
	}
	if done != nil {
		r.done = done
	}
	if r.wake == nil {
		r.wake = make(chan baton, 1)
	}
	r.is, r.key, r.into, r.d, r.ctx = is, op.Key, op.Into, rd, ctx
	return r
}

// shared reports whether c is what reads without calls can have in common.
func (c *Common) shared() bool {
	return c.OnBehalfOf == "" && c.Timeout >= 0 && validateNames(c) == nil
}

// end gives the outcome of a read that is alone and has finished.
func (r *Reads) end(res *GetResult) error {
	if r.is != readsAlone {
		return r.endOther(res)
	}
	*res = r.one
	r.one.Value = nil // the rest is overwritten
	d := r.d
	r.is, r.key, r.into, r.d, r.ctx = 0, nil, nil, nil, nil
	d.ReleaseReads(r)
	return nil
}

// endOther is end for one that has a context that can end, or a collection, or has not ended with a plain answer.
//
//go:noinline
func (r *Reads) endOther(res *GetResult) (err error) {
	if r.is&readsRare != 0 {
		r.settle()
		err = r.err
	}
	*res = r.one
	r.one, r.err = GetResult{}, nil
	r.release()
	return err
}

// alike reports whether the reads have all in common but for keys and buffers, and ask for no more than the document.
func alike(ops []Get) bool {
	for i := range ops {
		o, first := &ops[i], &ops[0]
		if o.projects() || o.Hedge != nil || o.Retry != nil || o.Scope != first.Scope || o.Collection != first.Collection ||
			o.CollectionID != first.CollectionID || o.OnBehalfOf != "" || o.Timeout != first.Timeout || o.Block != first.Block {
			return false
		}
	}
	return true
}

// start dispatches the reads.
func (r *Reads) start() {
	n := len(r.out)
	r.group.Add(n)
	if r.Over() {
		for i := range n {
			if c := r.Call(i, false); c != nil { // a context that does not know that it has ended
				r.d.Dispatch(c)
			}
		}
		return
	}
	r.d.DispatchReads(r)
}

// finish waits for the reads that are under way.
func (r *Reads) finish() {
	r.group.Wait()
	r.settle()
}

// settle inflates what has come compressed, and keeps the outcomes of the reads that have become calls.
func (r *Reads) settle() {
	if r.packed.Load() {
		r.packed.Store(false)
		for i := range r.Len() {
			r.inflate(i)
		}
	}
	if r.calls == nil {
		return
	}
	for i, c := range r.calls {
		if c != nil {
			op := r.op(i)
			r.failed(i, outcome(c, &op, r.result(i)))
			r.forget(c)
		}
	}
	r.calls = nil
}

// inflate makes the value of a read that was answered a plain one, if it came compressed. A read whose value cannot be
// inflated becomes a call that was answered so.
func (r *Reads) inflate(i int) {
	g := r.result(i)
	if g.Datatype&memd.DatatypeSnappy == 0 {
		return
	}
	opaque, via := g.expiry, g.via // see Win
	g.expiry = 0
	op := r.op(i)
	if op.KeepCompressed {
		return
	}
	v, err := inflate(op.Into, g.Value, inflateLimit(int(r.InflateLimit)))
	if err == nil {
		g.Value, g.Datatype = v, g.Datatype&^memd.DatatypeSnappy
		return
	}
	r.uninflatable(i, opaque, via)
}

// uninflatable has a read whose value cannot be inflated become a call, which says why. What it needs of the stack is more than
// what most who wait have.
//
//go:noinline
func (r *Reads) uninflatable(i int, opaque uint32, via *Via) {
	g := r.result(i)
	p := memd.Packet{Opcode: memd.OpGet, Opaque: opaque, CAS: g.CAS, Datatype: g.Datatype, Value: g.Value}
	p.Extras = binary.BigEndian.AppendUint32(nil, g.Flags)
	if !r.alone() {
		r.group.Add(1)
	}
	c := r.Call(i, true)
	c.Carry(&Wire{Opaque: opaque, VBucket: c.Route.VBucket, Via: via}, 0)
	epoch, _ := c.State.Sent()
	*g = GetResult{}
	var w Wakes
	c.Win(epoch, &p, true, &w)
	w.Flush()
	if r.alone() {
		<-r.wake
	}
}

func (r *Reads) op(i int) Get {
	switch {
	case r.alone():
		return Get{Common: r.common, Key: r.key, Into: r.into}
	case r.ops != nil:
		return r.ops[i]
	}
	return Get{Common: r.common, Key: r.keys[i]}
}

func (r *Reads) result(i int) *GetResult {
	if r.alone() {
		return &r.one
	}
	return &r.out[i].Result
}

// failed keeps a read's error, which may be nil.
func (r *Reads) failed(i int, err error) {
	if r.alone() {
		r.err = err
	} else {
		r.out[i].Err = err
	}
}

// Len is how many reads there are.
func (r *Reads) Len() int {
	if r.alone() {
		return 1
	}
	return len(r.out)
}

// Plain reports whether there is a read alone, in the default collection and with a context that cannot end.
func (r *Reads) Plain() bool { return r.is == readsAlone }

// Alone reports whether there is one read, which whoever waits for it has not put into a batch.
func (r *Reads) Alone() bool { return r.alone() }

// Key is the key of a read; empty when it is not valid, and Call has the read fail.
func (r *Reads) Key(i int) []byte {
	var k []byte
	switch {
	case r.alone():
		k = r.key
	case r.ops != nil:
		k = r.ops[i].Key
	default:
		k = r.keys[i]
	}
	if len(k) > int(r.keyMax) {
		return nil
	}
	return k
}

// Collection gives the names of the reads' collection, or its id.
func (r *Reads) Collection() (scope, name string, id uint32) {
	return r.common.Scope, r.common.Collection, r.common.CollectionID
}

// InDefaultCollection reports whether Collection gives nothing, without a look at it; it may give nothing without this, too.
func (r *Reads) InDefaultCollection() bool { return r.is&readsNamed == 0 }

// SetCollection says what the id of the reads' collection is. It must be called before Key is.
func (r *Reads) SetCollection(id uint32) {
	if r.collection, r.prefixLen, r.keyMax = id, 1, MaxKeyLen; id == 0 {
		r.prefix[0] = 0
		return
	}
	r.prefixLen, r.keyMax = uint8(len(memd.AppendLEB128(r.prefix[:0], id))), MaxKeyLenCollection
}

// Timeout is how long the caller lets the reads take; 0 is the dispatcher's.
func (r *Reads) Timeout() time.Duration {
	if r.is&readsNamed == 0 {
		return 0
	}
	return r.common.Timeout
}

// NotBegun says that the reads have not begun, and may take that long from when they do.
func (r *Reads) NotBegun(limit time.Duration) { r.Started, r.Deadline = notBegun, int64(limit) }

// Begun reports whether the reads have begun.
func (r *Reads) Begun() bool { return r.Started != notBegun }

// Begin has reads begin that have not.
func (r *Reads) Begin(now int64) { r.Started, r.Deadline = now, now+min(r.Deadline, math.MaxInt64-now) }

// Context is the context that the caller gave.
func (r *Reads) Context() context.Context { return r.ctx }

// Cancelable reports whether the caller's context can end before the reads' deadline.
func (r *Reads) Cancelable() bool { return r.is&readsCancelable != 0 }

// Over reports whether the caller's context has ended.
func (r *Reads) Over() bool { return ended(r.done) }

func ended(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// Call makes a call of one of the reads. A read that has a place on a connection, where it may have been written, belongs
// to whoever has taken that place, and always becomes a call. One that has none yet fails instead, and the call is nil, if
// something is wrong with it or the context has ended.
func (r *Reads) Call(i int, placed bool) *Call {
	c, op := r.d.NewCall(), r.op(i)
	if r.alone() {
		r.is |= readsRare
		r.one = GetResult{}
		c.form, c.wake, r.wakes = formBlocking, r.wake, c.wake
	} else {
		c.form, c.group = formBatch, &r.group
	}
	err := load[GetResult](c, &op)
	if err == nil {
		err = c.prepare(r.ctx, placed)
	}
	if r.Cancelable() {
		c.has |= hasContext
	}
	if err != nil && !placed { // one that is placed was valid
		r.failed(i, c.unprepared(r.ctx, err))
		r.forget(c)
		if r.alone() {
			r.wake <- baton{}
		} else {
			r.group.Done()
		}
		return nil
	}
	r.d.AdmitRead(c, r)
	c.Started, c.Deadline = r.Started, r.Deadline
	c.Route.Map, c.Route.CollectionID = r.Map, r.collection
	r.mu.Lock()
	switch {
	case r.alone():
		r.calls = r.call[:]
	case r.calls == nil:
		r.calls = make([]*Call, len(r.out))
	}
	r.calls[i] = c
	r.mu.Unlock()
	return c
}

// forget gives a call that Call has made back to where Call gets them from.
func (r *Reads) forget(c *Call) {
	if r.alone() {
		c.wake, r.wakes, r.call[0] = r.wakes, nil, nil
	}
	r.d.Release(c)
}

// Win gives a read its good answer, for a reader that has taken the read's place. p is needed no more, and the read has
// finished for whoever waits for it, when w is flushed; owned says that p's value is memory of its own. False means that
// there is more to the answer, and nothing was done: a call can take it.
func (r *Reads) Win(i int, p *memd.Packet, owned bool, via *Via, w *Wakes) bool {
	if p.Opcode != memd.OpGet || len(p.Extras) < 4 {
		return false
	}
	if owned || len(p.Value) == 0 || len(p.Frames) > 0 || p.Datatype&memd.DatatypeSnappy != 0 {
		r.winRare(i, p, owned, via, w)
	} else {
		w.addRead(r, i, p, via)
	}
	return true
}

// winRare is Win for an answer that is none as most are.
//
//go:noinline
func (r *Reads) winRare(i int, p *memd.Packet, owned bool, via *Via, w *Wakes) {
	if !r.alone() {
		r.won(&r.out[i].Result, r.intoOf(i), p, owned, via)
		w.add(&r.group)
		return
	}
	r.is |= readsRare
	r.won(&r.one, r.into, p, owned, via)
	w.addCall(r.wake)
}

// intoOf is the memory that the caller has given for a read that is not alone; nil if it has given none.
func (r *Reads) intoOf(i int) []byte {
	if r.ops == nil {
		return nil
	}
	return r.ops[i].Into
}

// won makes g what a good answer says.
func (r *Reads) won(g *GetResult, into []byte, p *memd.Packet, owned bool, via *Via) {
	g.CAS, g.via = p.CAS, via
	g.Flags, g.Datatype = binary.BigEndian.Uint32(p.Extras), p.Datatype
	packed := p.Datatype&memd.DatatypeSnappy != 0
	if packed { // whoever waits for the read inflates it, and such a read has no expiry: its place is for what a call would know
		g.expiry = p.Opaque
		if !r.packed.Load() {
			r.packed.Store(true)
		}
	}
	switch {
	case owned:
		g.Value = p.Value
	case !packed && into != nil:
		into = append(into, p.Value...)
		g.Value = into
	case len(p.Value) > 0:
		g.Value = exact(p.Value)
	}
	if len(p.Frames) > 0 {
		g.setFrames(p.Frames)
	}
}

// BeforeKey is how much of a read's request is before its key; 0 when w's connection cannot carry the reads.
func (r *Reads) BeforeKey(w *Wire) int {
	switch {
	case w.Features.Has(memd.FeatureCollections):
		return memd.HeaderLen + int(r.prefixLen)
	case r.collection != 0:
		return 0
	}
	return memd.HeaderLen
}

// PutPrefix writes what is between the header of a read's request and its key, which b is as long as.
func (r *Reads) PutPrefix(b []byte) {
	if b[0] = byte(r.collection); len(b) > 1 { // one byte is the id itself
		copy(b, r.prefix[:])
	}
}

// Carry notes on which connection c, a call that stands for one of many reads, is, or is to be once it is written. reads
// is what Route has of that name.
func (c *Call) Carry(w *Wire, reads uint32) {
	c.appended(w)
	c.Route.Reads = reads
}
