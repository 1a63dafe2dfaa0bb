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
	if r.o.Policy != nil || r.o.Instruments != nil || r.o.Breaker != nil {
		return nil
	}
	if rd, ok := r.reads.Get().(*kv.Reads); ok {
		return rd
	}
	return &kv.Reads{Second: nextSide(&r.sides.batches)}
}

// ReleaseReads implements kv.ReadsDispatcher.
func (r *Router) ReleaseReads(rd *kv.Reads) {
	if r.sides.again.Load() {
		rd.Second = nextSide(&r.sides.batches)
	}
	r.reads.Put(rd)
}

// DispatchReads implements kv.ReadsDispatcher.
func (r *Router) DispatchReads(rd *kv.Reads) {
	rd.Started, rd.InflateLimit = r.now(), r.InflateLimit()
	limit := rd.Timeout()
	if limit == 0 {
		limit = r.o.Timeout
	}
	rd.Deadline = deadline(rd.Started, limit)
	if rd.Cancelable() {
		if d, ok := rd.Context().Deadline(); ok {
			rd.Deadline = min(rd.Deadline, int64(d.Sub(r.o.Base)))
		}
	}
	rd.Map, rd.VBuckets = 0, 0
	rd.SetCollection(0)
	pk := r.picker.Load()
	if pk != nil {
		if id, ok := r.collectionOf(rd); ok {
			rd.Map, rd.VBuckets = pk.number, uint32(pk.snap.NumVBuckets())
			rd.SetCollection(id)
		}
	}
	b := byPipelineOf[kv.ReadAt](&r.sortedReads)
	n := rd.VBuckets
	for i := range rd.Len() {
		if key := rd.Key(i); n != 0 && len(key) > 0 {
			vb := vbucket(crc32.ChecksumIEEE(key), n)
			if p := pk.active(vb); p != nil {
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

// collectionOf gives the id of the reads' collection, as far as it is known.
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
	c.Bind(&r.home)
	if len(c.Req.Key) > 0 {
		c.Route.Hash = crc32.ChecksumIEEE(c.Req.Key)
	}
	if rd.VBuckets != 0 {
		c.Route.VBucket = vbucket(c.Route.Hash, rd.VBuckets)
	}
}

// submitReads is submitAll for reads without calls. The pipeline is a node's first.
func (p *pipeline) submitReads(rd *kv.Reads, at []kv.ReadAt) {
	if q := p.second.Load(); q != nil {
		p = p.share(q, rd.Second)
	}
	for len(at) > 0 {
		if cn := p.conn.Load(); cn != nil && rd.Map >= cn.Map {
			if at = at[cn.SubmitReads(rd, at):]; len(at) == 0 {
				return
			}
		}
		if c := rd.Call(int(at[0].I), false); c != nil {
			p.submit(c) // which knows what to do with one that was not taken
		}
		at = at[1:]
	}
}

// deadline is when something that has started at now has taken as long as it may.
func deadline(now int64, limit time.Duration) int64 {
	return now + min(int64(limit), math.MaxInt64-now)
}

// vbucket is that of a key whose hash it is given, of n.
func vbucket(hash, n uint32) uint16 { return uint16(hash >> 16 & 0x7fff % n) }
