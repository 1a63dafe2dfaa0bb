package kv

import (
	"context"
	"encoding/binary"
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
	// DispatchReads takes the reads over as DispatchAll does calls.
	DispatchReads(r *Reads)
	// AdmitRead gives c, which is to stand for one of r, what DispatchAll would have given it, and does not send it.
	AdmitRead(c *Call, r *Reads)
	// ReleaseReads takes back reads that have all finished.
	ReleaseReads(r *Reads)
}

// Reads is a portion of a batch that reads whole documents of one collection. What their calls would have in common is
// here once, and a read is no more than its place on the connection that carries it, until something else happens to it
// than a good answer: then it becomes a call of its own, see Call. Whoever has taken a read's place owns the read, so it
// is either answered or becomes a call, and once.
type Reads struct {
	group group

	// These are the dispatcher's, which does not change them once the first read is on its way. Started and Deadline are in
	// nanoseconds since its base; InflateLimit is a Limiter's; Map is the number of the cluster map that the reads are routed
	// by, and VBuckets how many that has.
	Started, Deadline int64
	InflateLimit      int
	Map, VBuckets     uint32
	collection        uint32 // its id
	prefix            [5]byte
	prefixLen         uint8
	keyMax            uint8
	Second            bool // they go over a node's second connection if it has one, as a call's SetSecond says; stays

	ctx    context.Context
	done   <-chan struct{} // of ctx, which is the caller's code and not asked under a lock
	d      ReadsDispatcher
	common Common
	keys   [][]byte // or ops
	ops    []Get
	out    []Outcome[GetResult]
	packed atomic.Bool // values have come compressed

	mu    sync.Mutex
	calls []*Call // of the reads that have become calls, nil where there is none; nil as long as no read has
}

// ReadAt is one of many reads and where it goes.
type ReadAt struct {
	I       uint32
	VBucket uint16
}

// reads gives the outcomes of reads that need no calls of their own, of keys or of ops; false when there is one that does,
// or d wants calls.
func reads(ctx context.Context, d Dispatcher, common *Common, keys [][]byte, ops []Get, inFlight int) ([]Outcome[GetResult], bool) {
	rd, ok := d.(ReadsDispatcher)
	if !ok || common.OnBehalfOf != "" || common.Timeout < 0 || validateNames(common) != nil || !alike(ops) {
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
		r.ctx, r.done, r.d, r.common = ctx, ctx.Done(), rd, *common
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
		r.ctx, r.done, r.d, r.common, r.keys, r.ops, r.out = nil, nil, nil, Common{}, nil, nil, nil
		rd.ReleaseReads(r)
	}
	return out, true
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

// finish waits for the reads that are under way, and keeps the outcomes of those that have become calls.
func (r *Reads) finish() {
	r.group.Wait()
	if r.packed.Load() {
		r.packed.Store(false)
		for i := range r.out {
			r.inflate(i)
		}
	}
	if r.calls == nil {
		return
	}
	for i, c := range r.calls {
		if c != nil {
			op, o := r.op(i), &r.out[i]
			o.Err = outcome(c, &op, &o.Result)
			r.d.Release(c) // to where Call gets them from
		}
	}
	r.calls = nil
}

// inflate makes the value of a read that was answered a plain one, if it came compressed. A read whose value cannot be
// inflated becomes a call that was answered so, and that call says why.
func (r *Reads) inflate(i int) {
	g := &r.out[i].Result
	if g.Datatype&memd.DatatypeSnappy == 0 {
		return
	}
	opaque := g.expiry // see Win
	g.expiry = 0
	var into []byte
	if r.ops != nil {
		if r.ops[i].KeepCompressed {
			return
		}
		into = r.ops[i].Into
	}
	v, err := inflate(into, g.Value, inflateLimit(r.InflateLimit))
	if err == nil {
		g.Value, g.Datatype = v, g.Datatype&^memd.DatatypeSnappy
		return
	}
	p := memd.Packet{Opcode: memd.OpGet, Opaque: opaque, CAS: g.CAS, Datatype: g.Datatype, Value: g.Value}
	p.Extras = binary.BigEndian.AppendUint32(nil, g.Flags)
	r.group.Add(1)
	c := r.Call(i, true)
	c.Carry(&Wire{Opaque: opaque, VBucket: c.Route.VBucket, Via: g.via}, 0)
	epoch, _ := c.State.Sent()
	*g = GetResult{}
	var w Wakes
	c.Win(epoch, &p, true, &w)
	w.Flush()
}

func (r *Reads) op(i int) Get {
	if r.ops != nil {
		return r.ops[i]
	}
	return Get{Common: r.common, Key: r.keys[i]}
}

// Len is how many reads there are.
func (r *Reads) Len() int { return len(r.out) }

// Key is the key of a read; empty when it is not valid, and Call has the read fail.
func (r *Reads) Key(i int) []byte {
	var k []byte
	if r.ops != nil {
		k = r.ops[i].Key
	} else {
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

// SetCollection says what the id of the reads' collection is. It must be called before Key is.
func (r *Reads) SetCollection(id uint32) {
	r.collection, r.prefixLen, r.keyMax = id, uint8(len(memd.AppendLEB128(r.prefix[:0], id))), MaxKeyLen
	if id != 0 {
		r.keyMax = MaxKeyLenCollection
	}
}

// Timeout is how long the caller lets the reads take; 0 is the dispatcher's.
func (r *Reads) Timeout() time.Duration { return r.common.Timeout }

// Context is the context that the caller gave.
func (r *Reads) Context() context.Context { return r.ctx }

// Cancelable reports whether the caller's context can end before the reads' deadline.
func (r *Reads) Cancelable() bool { return r.done != nil }

// Over reports whether the caller's context has ended.
func (r *Reads) Over() bool {
	select {
	case <-r.done:
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
	c.form, c.group = formBatch, &r.group
	err := load[GetResult](c, &op)
	if err == nil {
		err = c.prepare(r.ctx, placed)
	}
	if r.Cancelable() {
		c.has |= hasContext
	}
	if err != nil && !placed { // one that is placed was valid
		r.out[i].Err = c.unprepared(r.ctx, err)
		r.d.Release(c)
		r.group.Done()
		return nil
	}
	r.d.AdmitRead(c, r)
	c.Started, c.Deadline = r.Started, r.Deadline
	c.Route.Map, c.Route.CollectionID = r.Map, r.collection
	r.mu.Lock()
	if r.calls == nil {
		r.calls = make([]*Call, len(r.out))
	}
	r.calls[i] = c
	r.mu.Unlock()
	return c
}

// Win gives a read its good answer, for a reader that has taken the read's place. It copies what it needs of p; owned says
// that p's value is memory of its own. The read has finished for whoever waits for it when w is flushed. False means that
// there is more to the answer, and nothing was done: a call can take it.
func (r *Reads) Win(i int, p *memd.Packet, owned bool, via *Via, w *Wakes) bool {
	if p.Opcode != memd.OpGet || len(p.Extras) < 4 {
		return false
	}
	g := &r.out[i].Result
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
	case !packed && r.ops != nil && r.ops[i].Into != nil:
		into := append(r.ops[i].Into, p.Value...) //nolint:gocritic // the caller's slice stays as it is
		g.Value = into
	case len(p.Value) > 0:
		g.Value = exact(p.Value)
	}
	if len(p.Frames) > 0 {
		g.setFrames(p.Frames)
	}
	w.add(&r.group)
	return true
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

// Put writes the request of a read of key to b, which is as long as that is. before is what BeforeKey has said.
func (r *Reads) Put(b []byte, before int, key []byte, w *Wire) {
	body := uint32(len(b) - memd.HeaderLen)
	memd.PutRequest((*[memd.HeaderLen]byte)(b), memd.OpGet, uint16(body), 0, 0, w.VBucket, body, w.Opaque, 0)
	if before > memd.HeaderLen {
		if b[memd.HeaderLen] = r.prefix[0]; before > memd.HeaderLen+1 {
			copy(b[memd.HeaderLen:before], r.prefix[:])
		}
	}
	copy(b[before:], key)
}

// Carry notes on which connection c, a call that stands for one of many reads, is, or is to be once it is written. reads
// is what Route has of that name.
func (c *Call) Carry(w *Wire, reads uint32) {
	c.appended(w)
	c.Route.Reads = reads
}
