package dispatch

import (
	"hash/crc32"
	"math"
	"time"

	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/kv"
)

// NewReads implements kv.ReadsDispatcher. What is decided or told for each operation needs calls.
func (r *Router) NewReads() *kv.Reads {
	if r.policies.Load() != nil || r.o.Instruments != nil || r.o.Breaker != nil {
		return nil
	}
	if rd, ok := r.reads.Get().(*kv.Reads); ok {
		return rd
	}
	rd := &kv.Reads{InflateLimit: int32(r.InflateLimit())}
	rd.SetCollection(0)
	return rd
}

// ReleaseReads implements kv.ReadsDispatcher.
func (r *Router) ReleaseReads(rd *kv.Reads) {
	r.reads.Put(rd)
}

// DispatchReads implements kv.ReadsDispatcher.
func (r *Router) DispatchReads(rd *kv.Reads) {
	if rd.Alone() {
		r.dispatchRead(rd)
	} else {
		r.dispatchReads(rd)
	}
}

// exactBelow is the timeout below which a read has its own look at the clock, see conn.Conn's SubmitRead: callers that can run may
// take some milliseconds.
const exactBelow = 500 * time.Millisecond

// dispatchRead is DispatchReads for a read that is alone. Many goroutines wait for such: see Dispatch.
func (r *Router) dispatchRead(rd *kv.Reads) {
	pk := r.picker.Load()
	if pk == nil || !rd.Plain() {
		rd.Started = r.now()
		pk = r.admitReads(rd)
	} else {
		r.mayBegin(rd)
		rd.Map, rd.VBuckets = pk.number, uint32(pk.snap.NumVBuckets())
	}
	if key := rd.Key(0); rd.VBuckets != 0 && len(key) > 0 {
		hash := crc32.ChecksumIEEE(key)
		vb := vbucket(hash, rd.VBuckets)
		if p := pk.active(vb, hash); p != nil {
			p.submitRead(rd, key, vb)
			return
		}
	}
	if c := rd.Call(0, false); c != nil {
		r.route(c)
	}
}

// mayBegin has a plain read begin when it is appended to what waits to be written, or now if its time is short.
func (r *Router) mayBegin(rd *kv.Reads) {
	rd.NotBegun(r.o.Timeout)
	if r.o.Timeout < exactBelow {
		rd.Begin(r.now())
	}
}

func (r *Router) dispatchReads(rd *kv.Reads) {
	rd.Started = r.now()
	pk := r.admitReads(rd)
	b := byPipelineOf[kv.ReadAt](&r.sortedReads)
	n := rd.VBuckets
	for i := range rd.Len() {
		if key := rd.Key(i); n != 0 && len(key) > 0 {
			hash := crc32.ChecksumIEEE(key)
			vb := vbucket(hash, n)
			if p := pk.active(vb, hash); p != nil {
				b.add(p, kv.ReadAt{I: uint32(i), VBucket: vb})
				continue
			}
		}
		if c := rd.Call(i, false); c != nil {
			r.route(c)
		}
	}
	b.submit(func(p *pipeline, at []kv.ReadAt) { p.submitReads(rd, at) })
	r.sortedReads.Put(b)
}

// admitReads gives reads that have started their deadline and their collection, and the picker that they are routed by; nil
// before there is one. Without VBuckets they need calls.
func (r *Router) admitReads(rd *kv.Reads) *picker {
	limit := rd.Timeout()
	if limit == 0 {
		limit = r.o.Timeout
	}
	rd.Deadline = deadline(rd.Started, limit)
	if rd.Cancelable() {
		r.hurry(rd)
	}
	pk := r.picker.Load()
	rd.Map, rd.VBuckets = 0, 0
	id, ok := uint32(0), pk != nil
	if ok && !rd.InDefaultCollection() {
		id, ok = r.collectionOf(rd)
	}
	rd.SetCollection(id)
	if ok {
		rd.Map, rd.VBuckets = pk.number, uint32(pk.snap.NumVBuckets())
	}
	return pk
}

// hurry has reads end with their context.
//
//go:noinline
func (r *Router) hurry(rd *kv.Reads) {
	if d, ok := rd.Context().Deadline(); ok {
		rd.Deadline = min(rd.Deadline, int64(d.Sub(r.o.Base)))
	}
}

// collectionOf gives the id of the reads' collection, as far as it is known.
//
//go:noinline
func (r *Router) collectionOf(rd *kv.Reads) (uint32, bool) {
	scope, name, id := rd.Collection()
	if id != 0 {
		return id, true
	}
	e, ok := r.colls.Get(collections.Path{Scope: scope, Collection: name})
	return e.ID, ok
}

// AdmitRead implements kv.ReadsDispatcher.
func (r *Router) AdmitRead(c *kv.Call, rd *kv.Reads) {
	if !rd.Begun() {
		rd.Begin(r.now())
	}
	c.Bind(&r.home)
	if len(c.Req.Key) > 0 {
		c.Route.Hash = crc32.ChecksumIEEE(c.Req.Key)
	}
	if rd.VBuckets != 0 {
		c.Route.VBucket = vbucket(c.Route.Hash, rd.VBuckets)
	}
}

// submitRead is submitReads for a read that is alone.
func (p *pipeline) submitRead(rd *kv.Reads, key []byte, vb uint16) {
	if cn := p.conn.Load(); cn == nil || rd.Map < cn.Map || !cn.SubmitRead(rd, key, vb) {
		p.submitReadElse(rd, 0)
	}
}

// submitReads is submitAll for reads without calls.
func (p *pipeline) submitReads(rd *kv.Reads, at []kv.ReadAt) {
	for len(at) > 0 {
		if cn := p.conn.Load(); cn != nil && rd.Map >= cn.Map {
			if at = at[cn.SubmitReads(rd, at):]; len(at) == 0 {
				return
			}
		}
		p.submitReadElse(rd, int(at[0].I))
		at = at[1:]
	}
}

// submitReadElse is for a read that no connection has taken.
func (p *pipeline) submitReadElse(rd *kv.Reads, i int) {
	if c := rd.Call(i, false); c != nil {
		p.submit(c) // which knows what to do with one that was not taken
	}
}

// deadline is when something that has started at now has taken as long as it may.
func deadline(now int64, limit time.Duration) int64 {
	return now + min(int64(limit), math.MaxInt64-now)
}

// vbucket is that of a key whose hash it is given, of n.
func vbucket(hash, n uint32) uint16 { return uint16(hash >> 16 & 0x7fff % n) }
