package mock

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// store is one bucket's documents on the whole cluster: each node that holds a vbucket has a copy of its own. It is
// plain data, guarded by the cluster's mutex.
type store struct {
	vbs     []vbucketData
	lag     time.Duration // how long replicas are behind; 0: not at all
	diskLag time.Duration // how long disks are behind
	lastCAS uint64
	applied []Applied
	keep    int // how many of applied are wanted; 0: all

	journal   bool      // each entry of applied goes to the journal too
	unwritten []Applied // those that have not yet
}

type docID struct {
	cid uint32
	key string
}

// doc is one version of a document. Its value is never changed in place.
type doc struct {
	value    []byte
	flags    uint32
	expiry   int64 // unix seconds, 0 for none
	cas      uint64
	seqno    uint64
	rev      uint64        // counts the document's versions, tombstones included
	modified int64         // unix seconds
	datatype memd.Datatype // JSON or nothing: what else there is of it is told by the fields below
	packed   bool          // came compressed; the value here is not
	xattrs   xattrs
	deleted  bool
	locked   time.Time // until when
}

// lockedCAS stands for the CAS of a locked document, which only the holder of the lock knows.
const lockedCAS = math.MaxUint64

// types are all datatype bits of the version.
func (d *doc) types() memd.Datatype {
	dt := d.datatype
	if d.packed {
		dt |= memd.DatatypeSnappy
	}
	if len(d.xattrs) > 0 {
		dt |= memd.DatatypeXattr
	}
	return dt
}

// tombstone is what is left of a document that is deleted or has expired.
func (d doc) tombstone() doc {
	if d.deleted {
		return d
	}
	d.value, d.datatype, d.packed, d.flags, d.expiry = nil, 0, false, 0, 0
	d.xattrs, d.deleted, d.locked = d.xattrs.system(), true, time.Time{}
	return d
}

// live reports whether the version is of a document that exists.
func (d *doc) live(now time.Time) bool {
	return !d.deleted && (d.expiry == 0 || now.Unix() < d.expiry)
}

// docOp is an operation on one document, on the copy that node has.
type docOp struct {
	op                  memd.Opcode
	vb                  uint16
	cid                 uint32
	key, value          []byte
	flags, expiry, lock uint32
	cas, delta, initial uint64
	datatype            memd.Datatype
	preserveTTL         bool
	durability          memd.DurabilityLevel
	node                int
	packed              bool            // the value came compressed
	paths               *subdoc.Request // of a sub-document request
	meta                *withMeta       // of a write with metadata
	maxTTL              int32           // of the collection: 0 for none, -1 for documents that never expire
}

// docResult is what became of a docOp.
type docResult struct {
	status   memd.Status
	cas      uint64
	flags    uint32
	value    []byte
	datatype memd.Datatype
	uuid     uint64
	seqno    uint64
	number   uint64
	rev      uint64
	expiry   uint32
	deleted  bool
	packed   bool
	shaped   bool // status and value are the answer's, although the status is not success
	xattrs   xattrs
}

func newStore(vbuckets int) *store {
	s := &store{vbs: make([]vbucketData, vbuckets)}
	for i := range s.vbs {
		s.vbs[i].copies = map[int]*docCopy{}
		s.fork(i)
	}
	return s
}

// dropCollection removes the documents of a collection.
func (s *store) dropCollection(cid uint32) {
	for i := range s.vbs {
		v := &s.vbs[i]
		v.queue = slices.DeleteFunc(v.queue, func(e unsent) bool { return e.id.cid == cid })
		for _, c := range v.copies {
			maps.DeleteFunc(c.docs, func(id docID, _ doc) bool { return id.cid == cid })
		}
	}
}

// nextCAS is larger than every CAS before it and follows the clock.
func (s *store) nextCAS(now time.Time) uint64 {
	s.lastCAS = max(s.lastCAS+1, uint64(now.UnixNano())&^0xffff)
	return s.lastCAS
}

// absolute turns an expiry of the protocol into unix seconds: up to 30 days it counts from now.
func absolute(expiry uint32, now time.Time) int64 {
	if expiry == 0 || expiry > 30*24*3600 {
		return int64(expiry)
	}
	return now.Unix() + int64(expiry)
}

// expires is when a document expires that the request writes: as it wants, but not later than its collection lets.
func (o *docOp) expires(now time.Time) int64 {
	at := absolute(o.expiry, now)
	switch latest := now.Unix() + int64(o.maxTTL); {
	case o.maxTTL < 0:
		return 0
	case o.maxTTL > 0 && (at == 0 || at > latest):
		return latest
	}
	return at
}

func failure(st memd.Status) docResult { return docResult{status: st} }

// types are all datatype bits of the document.
func (r *docResult) types() memd.Datatype {
	d := doc{datatype: r.datatype, packed: r.packed, xattrs: r.xattrs}
	return d.types()
}

func (d *doc) result(v *vbucketData) docResult {
	return docResult{
		cas: d.cas, flags: d.flags, value: d.value, datatype: d.datatype, uuid: v.history[0].uuid, seqno: d.seqno,
		expiry: uint32(d.expiry), deleted: d.deleted, rev: d.rev, packed: d.packed, xattrs: d.xattrs,
	}
}

// apply executes one operation.
func (s *store) apply(o *docOp, now time.Time) docResult {
	v := &s.vbs[o.vb]
	v.deliver(now)
	held := v.copies[o.node]
	if held == nil {
		return failure(memd.StatusNotMyVBucket)
	}
	if o.paths != nil {
		return s.subdoc(o, v, held, now)
	}
	id := docID{o.cid, string(o.key)}
	old, found := held.docs[id]
	live := found && old.live(now)
	locked := live && now.Before(old.locked)
	switch o.op {
	case memd.OpGet, memd.OpGetReplica, memd.OpGetEx, memd.OpGetExReplica:
		if !live {
			return failure(memd.StatusKeyNotFound)
		}
		res := old.result(v)
		if locked {
			res.cas = lockedCAS
		}
		return res
	case memd.OpGetMeta:
		if !found {
			return failure(memd.StatusKeyNotFound)
		}
		res := old.result(v)
		res.deleted = !live
		return res
	case memd.OpGetLocked:
		if !live {
			return failure(memd.StatusKeyNotFound)
		}
		if locked {
			return failure(memd.StatusLocked)
		}
		old.cas, old.locked = s.nextCAS(now), now.Add(lockTime(o.lock))
		held.docs[id] = old // the lock is the node's own: replicas do not know of it
		return old.result(v)
	case memd.OpUnlockKey:
		switch {
		case !live:
			return failure(memd.StatusKeyNotFound)
		case !locked:
			return failure(memd.StatusNotLocked)
		case o.cas != old.cas:
			return failure(memd.StatusLocked)
		}
		old.locked = time.Time{}
		held.docs[id] = old
		return docResult{}
	}
	if o.meta != nil {
		next, st := s.applyMeta(o, old, found, locked)
		if st != memd.StatusSuccess {
			return failure(st)
		}
		return s.commit(o, v, id, old, next, now)
	}
	next, res := s.mutate(o, old, live, locked, now)
	if res.status != memd.StatusSuccess {
		return res
	}
	number := res.number
	res = s.commit(o, v, id, old, next, now)
	res.number = number
	return res
}

// commit stores the next version of a document. One that has no CAS yet gets it here.
func (s *store) commit(o *docOp, v *vbucketData, id docID, old, next doc, now time.Time) docResult {
	before := old.cas
	if !old.live(now) {
		before = 0
	}
	v.seqno++
	next.seqno, next.modified, next.locked = v.seqno, now.Unix(), time.Time{}
	if o.meta == nil {
		next.rev = 1 + cmp.Or(old.rev, v.goneRev)
	}
	if next.deleted {
		v.goneRev = max(v.goneRev, next.rev)
	}
	if next.cas == 0 {
		next.cas = s.nextCAS(now)
	}
	s.put(v, o, id, next, now)
	s.record(o, before, next.cas, now)
	return next.result(v)
}

// lockTime is how long a document is locked for a client that asks for a number of seconds.
func lockTime(seconds uint32) time.Duration {
	if seconds == 0 || seconds > 30 {
		seconds = 15
	}
	return time.Duration(seconds) * time.Second
}
