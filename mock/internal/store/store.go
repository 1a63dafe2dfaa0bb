package store

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// Limits of documents.
const (
	MaxKey         = 250
	MaxPrefixedKey = 251 // with the id of its collection
	MaxValue       = 20 << 20
)

// DefaultCollection is the id of the collection that every bucket begins with.
const DefaultCollection = 0

// Store is one bucket's documents on the whole cluster: each node that holds a vbucket has a copy of its own. It is
// plain data: its caller has a lock.
type Store struct {
	vbs     []vbucketData
	lag     time.Duration // how long replicas are behind; 0: not at all
	diskLag time.Duration // how long disks are behind
	lastCAS uint64
	applied []Applied
	keep    int // how many of applied are wanted; 0: all

	// Journal makes TakeUnwritten return each entry of the log once.
	Journal   bool
	unwritten []Applied
}

type docID struct {
	cid uint32
	key string
}

// doc is one version of a document. Neither it nor its value is changed in place once a copy has it, so the copies of a
// vbucket share it. A million documents take a million of these: 80 bytes are a size of the allocator.
type doc struct {
	value    []byte
	attrs    *Xattrs // nil without any
	cas      uint64
	seqno    uint64
	rev      uint64 // counts the document's versions, tombstones included
	lock     *lock  // the newest one, nil for none
	expiry   uint32 // unix seconds, 0 for none
	modified uint32 // unix seconds
	flags    uint32
	datatype memd.Datatype // JSON or nothing: what else there is of it is told by the fields around
	packed   bool          // came compressed; the value here is not
	deleted  bool
}

// lock is a client's lock on a version. A pointer to it keeps versions at their size.
type lock struct {
	until int64  // unix nanoseconds
	cas   uint64 // which the client has to name
}

// lockedCAS stands for the CAS of a locked document, which only the holder of the lock knows.
const lockedCAS = math.MaxUint64

// xattrs are the version's extended attributes.
func (d *doc) xattrs() Xattrs {
	if d.attrs == nil {
		return nil
	}
	return *d.attrs
}

// types are all datatype bits of the version.
func (d *doc) types() memd.Datatype {
	dt := d.datatype
	if d.packed {
		dt |= memd.DatatypeSnappy
	}
	if d.attrs != nil {
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
	d.attrs, d.deleted, d.lock = d.xattrs().system().kept(), true, nil
	return d
}

// live reports whether the version is of a document that exists. The second that its expiry names is the last one in
// which it does (kv_engine, StoredValue::isExpired), so no document has less time than it was given.
func (d *doc) live(now time.Time) bool {
	return !d.deleted && (d.expiry == 0 || now.Unix() <= int64(d.expiry))
}

// isLocked reports whether a client holds a lock on the version.
func (d *doc) isLocked(now time.Time) bool { return d.lock != nil && now.UnixNano() < d.lock.until }

// writeCAS is the CAS that a write has to name, if it names one.
func (d *doc) writeCAS(now time.Time) uint64 {
	if d.isLocked(now) {
		return d.lock.cas
	}
	return d.cas
}

// readCAS is the CAS that a read tells.
func (d *doc) readCAS(now time.Time) uint64 {
	if d.isLocked(now) {
		return lockedCAS
	}
	return d.cas
}

// Op is an operation on one document, on the copy that node has.
type Op struct {
	Opcode              memd.Opcode
	VBucket             uint16
	Collection          uint32
	Key, Value          []byte
	Flags, Expiry, Lock uint32
	CAS, Delta, Initial uint64
	Datatype            memd.Datatype
	PreserveTTL         bool
	Durability          memd.DurabilityLevel
	Node                int
	Packed              bool            // the value came compressed
	Paths               *subdoc.Request // of a sub-document request
	Meta                *Meta           // of a write with metadata
	MaxTTL              int32           // of the collection: 0 for none, -1 for documents that never expire
	Unlogged            bool            // the log of mutations does not get it
	LockStays           bool            // the CAS of a lock stays the document's when the lock ends
}

// Result is what became of an Op.
type Result struct {
	Status   memd.Status
	CAS      uint64
	Flags    uint32
	Value    []byte
	Datatype memd.Datatype
	UUID     uint64
	Seqno    uint64
	Number   uint64
	Rev      uint64
	Expiry   uint32
	Deleted  bool
	Packed   bool
	Shaped   bool // status and value are the answer's, although the status is not success
	Xattrs   Xattrs
}

// New returns an empty store. No node has a vbucket until Assign.
func New(vbuckets int) *Store {
	s := &Store{vbs: make([]vbucketData, vbuckets)}
	for i := range s.vbs {
		s.vbs[i].copies = map[int]*docCopy{}
		s.Fork(i)
	}
	return s
}

// NewMemcached is the store of a memcached bucket: each of so many nodes has a vbucket of its own, with its number.
func NewMemcached(nodes int) *Store {
	s := New(nodes)
	for i := range s.vbs {
		s.Assign(i, []int{i})
	}
	return s
}

// DropCollection removes the documents of a collection.
func (s *Store) DropCollection(cid uint32) {
	for i := range s.vbs {
		v := &s.vbs[i]
		v.queue = slices.DeleteFunc(v.queue, func(e unsent) bool { return e.id.cid == cid })
		for _, c := range v.copies {
			maps.DeleteFunc(c.docs, func(id docID, _ *doc) bool { return id.cid == cid })
		}
	}
}

// nextCAS is larger than every CAS before it and follows the clock.
func (s *Store) nextCAS(now time.Time) uint64 {
	s.lastCAS = max(s.lastCAS+1, uint64(now.UnixNano())&^0xffff)
	return s.lastCAS
}

// absolute turns an expiry of the protocol into unix seconds: up to 30 days it counts from now.
func absolute(expiry uint32, now time.Time) uint32 {
	if expiry == 0 || expiry > 30*24*3600 {
		return expiry
	}
	return uint32(now.Unix()) + expiry
}

// expires is when a document expires that the request writes: as it wants, but not later than its collection lets.
func (o *Op) expires(now time.Time) uint32 {
	at := absolute(o.Expiry, now)
	switch latest := uint32(min(now.Unix()+int64(o.MaxTTL), math.MaxUint32)); {
	case o.MaxTTL < 0:
		return 0
	case o.MaxTTL > 0 && (at == 0 || at > latest):
		return latest
	}
	return at
}

func failure(st memd.Status) Result { return Result{Status: st} }

// Types are all datatype bits of the document.
func (r *Result) Types() memd.Datatype {
	d := doc{datatype: r.Datatype, packed: r.Packed, attrs: r.Xattrs.kept()}
	return d.types()
}

func (d *doc) result(v *vbucketData) Result {
	return Result{
		CAS: d.cas, Flags: d.flags, Value: d.value, Datatype: d.datatype, UUID: v.history[0].UUID, Seqno: d.seqno,
		Expiry: d.expiry, Deleted: d.deleted, Rev: d.rev, Packed: d.packed, Xattrs: d.xattrs(),
	}
}

// Apply executes one operation.
func (s *Store) Apply(o *Op, now time.Time) Result {
	v := &s.vbs[o.VBucket]
	v.deliver(now)
	held := v.copies[o.Node]
	if held == nil {
		return failure(memd.StatusNotMyVBucket)
	}
	if o.Paths != nil {
		return s.subdoc(o, v, held, now)
	}
	id := docID{o.Collection, string(o.Key)}
	old, found := held.get(id)
	live := found && old.live(now)
	locked := live && old.isLocked(now)
	switch o.Opcode {
	case memd.OpGet, memd.OpGetReplica, memd.OpGetEx, memd.OpGetExReplica:
		if !live {
			return failure(memd.StatusKeyNotFound)
		}
		res := old.result(v)
		res.CAS = old.readCAS(now)
		return res
	case memd.OpGetMeta:
		if !found {
			return failure(memd.StatusKeyNotFound)
		}
		res := old.result(v)
		res.CAS, res.Deleted = old.readCAS(now), !live
		return res
	case memd.OpGetLocked:
		if !live {
			return failure(memd.StatusKeyNotFound)
		}
		if locked {
			return failure(memd.StatusLocked)
		}
		old.lock = &lock{until: now.Add(lockTime(o.Lock)).UnixNano(), cas: s.nextCAS(now)}
		if o.LockStays {
			old.cas = old.lock.cas
		}
		held.set(id, old) // the lock is the node's own: replicas do not know of it
		res := old.result(v)
		res.CAS = old.lock.cas
		return res
	case memd.OpUnlockKey:
		switch {
		case !live:
			return failure(memd.StatusKeyNotFound)
		case !locked:
			return failure(memd.StatusNotLocked)
		case o.CAS != old.lock.cas:
			return failure(memd.StatusLocked)
		}
		old.lock = nil
		held.set(id, old)
		return Result{}
	case memd.OpTouch, memd.OpGAT:
		if live && !locked && o.expires(now) == old.expiry { // kv_engine, VBucket::processGetAndUpdateTtl
			return old.result(v)
		}
	}
	if o.Meta != nil {
		next, st := s.applyMeta(o, old, found, now)
		if st != memd.StatusSuccess {
			return failure(st)
		}
		return s.commit(o, v, id, old, next, now)
	}
	next, res := s.mutate(o, old, live, now)
	if res.Status != memd.StatusSuccess {
		return res
	}
	number := res.Number
	res = s.commit(o, v, id, old, next, now)
	res.Number = number
	return res
}

// commit stores the next version of a document. One that has no CAS yet gets it here.
func (s *Store) commit(o *Op, v *vbucketData, id docID, old, next doc, now time.Time) Result {
	before := old.writeCAS(now)
	if !old.live(now) {
		before = 0
	}
	v.seqno++
	next.seqno, next.modified, next.lock = v.seqno, uint32(now.Unix()), nil
	if o.Meta == nil {
		next.rev = 1 + cmp.Or(old.rev, v.goneRev)
	}
	if next.deleted {
		v.goneRev = max(v.goneRev, next.rev)
	}
	if next.cas == 0 {
		next.cas = s.nextCAS(now)
	}
	s.put(v, o, id, &next, now)
	if !o.Unlogged {
		s.record(o, before, next.cas, now)
	}
	return next.result(v)
}

// lockTime is how long a document is locked for a client that asks for a number of seconds.
func lockTime(seconds uint32) time.Duration {
	if seconds == 0 || seconds > 30 {
		seconds = 15
	}
	return time.Duration(seconds) * time.Second
}

// ValueType is the datatype that a node stores a value under: it looks for JSON itself.
func ValueType(value []byte) memd.Datatype {
	if json.Valid(value) {
		return memd.DatatypeJSON
	}
	return 0
}
