package mock

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// store is one bucket's documents on the whole cluster: each node that holds a vbucket has a copy of its own. It is
// plain data, guarded by the cluster's mutex.
type store struct {
	vbs     []vbucketData
	lastCAS uint64
	applied []Applied
}

type vbucketData struct {
	history []branch // newest first, never empty
	seqno   uint64
	nodes   []int // the active one, then the replicas
	copies  map[int]map[docID]doc
}

// branch is one stretch of a vbucket's history: a failover ends it and begins the next.
type branch struct {
	uuid  uint64
	begin uint64 // newest sequence number when it began
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
	datatype memd.Datatype
	deleted  bool
	locked   time.Time // until when
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
	expiry   uint32
	deleted  bool
}

func newStore(vbuckets int) *store {
	s := &store{vbs: make([]vbucketData, vbuckets)}
	for i := range s.vbs {
		s.vbs[i].copies = map[int]map[docID]doc{}
		s.fork(i)
	}
	return s
}

// fork begins a new stretch of a vbucket's history, as a failover does.
func (s *store) fork(vb int) {
	var b [8]byte
	rand.Read(b[:]) // never fails
	v := &s.vbs[vb]
	v.history = slices.Insert(v.history, 0, branch{binary.BigEndian.Uint64(b[:]) | 1, v.seqno})
}

// assign gives a vbucket to nodes, -1 for none. Nodes that are new to it get the old active node's documents, or any
// other copy when that one has left; nodes that are no longer named lose theirs.
func (s *store) assign(vb int, nodes []int) {
	v := &s.vbs[vb]
	var source map[docID]doc
	for _, n := range v.nodes {
		if c := v.copies[n]; c != nil && (source == nil || slices.Contains(nodes, n) && !slices.Contains(nodes, v.nodes[0])) {
			source = c
		}
	}
	copies := map[int]map[docID]doc{}
	for _, n := range nodes {
		if n < 0 {
			continue
		}
		copies[n] = v.copies[n]
		if copies[n] == nil {
			copies[n] = map[docID]doc{}
			for id, d := range source {
				copies[n][id] = d
			}
		}
	}
	v.nodes, v.copies = slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return n < 0 }), copies
}

// vbucket returns a vbucket's history and its newest sequence number.
func (s *store) vbucket(vb uint16) (history []branch, seqno uint64) {
	return s.vbs[vb].history, s.vbs[vb].seqno
}

// dropCollection removes the documents of a collection.
func (s *store) dropCollection(cid uint32) {
	for i := range s.vbs {
		for _, c := range s.vbs[i].copies {
			for id := range c {
				if id.cid == cid {
					delete(c, id)
				}
			}
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

func failure(st memd.Status) docResult { return docResult{status: st} }

func (d *doc) result(v *vbucketData) docResult {
	return docResult{
		cas: d.cas, flags: d.flags, value: d.value, datatype: d.datatype, uuid: v.history[0].uuid, seqno: d.seqno,
		expiry: uint32(d.expiry), deleted: d.deleted,
	}
}

// apply executes one operation.
func (s *store) apply(o *docOp, now time.Time) docResult {
	v := &s.vbs[o.vb]
	id := docID{o.cid, string(o.key)}
	old, found := v.copies[o.node][id]
	live := found && !old.deleted && (old.expiry == 0 || now.Unix() < old.expiry)
	locked := live && now.Before(old.locked)
	switch o.op {
	case memd.OpGet, memd.OpGetReplica:
		if !live {
			return failure(memd.StatusKeyNotFound)
		}
		res := old.result(v)
		if locked {
			res.cas = math.MaxUint64
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
		return s.lock(o, id, old, live, locked, now)
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
		s.put(v, id, old)
		return docResult{}
	}
	if !live {
		old = doc{}
	}
	next, res := s.mutate(o, old, live, locked, now)
	if res.status != memd.StatusSuccess {
		return res
	}
	v.seqno++
	next.cas, next.seqno, next.locked = s.nextCAS(now), v.seqno, time.Time{}
	s.put(v, id, next)
	s.record(o, old.cas, next.cas, now)
	number := res.number
	res = next.result(v)
	res.number = number
	return res
}

// put stores a version on every node of the vbucket.
func (s *store) put(v *vbucketData, id docID, d doc) {
	for _, n := range v.nodes {
		v.copies[n][id] = d
	}
}

func (s *store) lock(o *docOp, id docID, old doc, live, locked bool, now time.Time) docResult {
	switch {
	case !live:
		return failure(memd.StatusKeyNotFound)
	case locked:
		return failure(memd.StatusLocked)
	}
	seconds := o.lock
	if seconds == 0 || seconds > 30 {
		seconds = 15
	}
	v := &s.vbs[o.vb]
	old.cas, old.locked = s.nextCAS(now), now.Add(time.Duration(seconds)*time.Second)
	s.put(v, id, old)
	return old.result(v)
}

// mutate is the next version of a document.
func (s *store) mutate(o *docOp, old doc, live, locked bool, now time.Time) (doc, docResult) {
	switch o.op {
	case memd.OpAdd:
		if live {
			return old, failure(memd.StatusKeyExists)
		}
	case memd.OpIncrement, memd.OpDecrement:
		if !live && o.expiry == math.MaxUint32 {
			return old, failure(memd.StatusKeyNotFound)
		}
	case memd.OpAppend, memd.OpPrepend:
		if !live {
			return old, failure(memd.StatusNotStored)
		}
	case memd.OpSet:
		if !live && o.cas != 0 {
			return old, failure(memd.StatusKeyNotFound)
		}
	default:
		if !live {
			return old, failure(memd.StatusKeyNotFound)
		}
	}
	switch {
	case locked && o.cas != old.cas:
		return old, failure(memd.StatusLocked)
	case o.cas != 0 && o.cas != old.cas:
		return old, failure(memd.StatusKeyExists)
	}
	next := old
	var res docResult
	switch o.op {
	case memd.OpSet, memd.OpAdd, memd.OpReplace:
		next = doc{value: o.value, flags: o.flags, datatype: o.datatype, expiry: absolute(o.expiry, now)}
		if o.preserveTTL && live {
			next.expiry = old.expiry
		}
	case memd.OpDelete:
		next = doc{deleted: true}
	case memd.OpAppend:
		next.value = slices.Concat(old.value, o.value)
		next.datatype = valueType(next.value)
	case memd.OpPrepend:
		next.value = slices.Concat(o.value, old.value)
		next.datatype = valueType(next.value)
	case memd.OpTouch, memd.OpGAT:
		next.expiry = absolute(o.expiry, now)
	case memd.OpIncrement, memd.OpDecrement:
		n, ok := count(o, old, live)
		if !ok {
			return old, failure(memd.StatusDeltaBadVal)
		}
		if !live {
			next = doc{expiry: absolute(o.expiry, now)}
		}
		next.value, next.datatype, res.number = strconv.AppendUint(nil, n, 10), memd.DatatypeJSON, n
	}
	return next, res
}

// count is a counter's next number.
func count(o *docOp, old doc, live bool) (uint64, bool) {
	if !live {
		return o.initial, true
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(old.value)), 10, 64)
	switch {
	case err != nil:
		return 0, false
	case o.op == memd.OpIncrement:
		return n + o.delta, true
	}
	return n - min(n, o.delta), true
}
