package store

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// target is the document that a sub-document request works on.
type target struct {
	v     *vbucketData
	id    docID
	old   doc  // as it is, a tombstone without what does not outlive a document
	found bool // there is one, or its tombstone and the request may see that
	live  bool
	now   time.Time
}

// subdoc executes a sub-document request on one copy of a vbucket.
func (s *Store) subdoc(o *Op, v *vbucketData, held *docCopy, now time.Time) Result {
	id := docID{o.Collection, string(o.Key)}
	t := &target{v: v, id: id, now: now}
	t.old, t.found = held.get(id)
	t.live = t.found && t.old.live(now)
	if t.found && !t.live {
		t.old = t.old.tombstone()
		t.found = o.Paths.Flags&subdoc.AccessDeleted != 0
	}
	if !o.Paths.Mutates {
		return t.lookup(o.Paths, o.CAS)
	}
	return s.subdocMutation(o, t)
}

// lookup executes the paths of a request that reads. One that names a CAS reads that version only.
func (t *target) lookup(ps *subdoc.Request, cas uint64) Result {
	if !t.found {
		return failure(memd.StatusKeyNotFound)
	}
	res := t.old.result(t.v)
	res.CAS = t.old.readCAS(t.now)
	if cas != 0 && cas != res.CAS {
		return failure(memd.StatusKeyExists)
	}
	done, failed := memd.StatusSuccess, memd.StatusSubdocMultiPathFailure
	if !t.live {
		done, failed = memd.StatusSubdocSuccessDeleted, memd.StatusSubdocMultiPathFailureDeleted
	}
	res.Status, res.Value, res.Shaped = done, nil, true
	for i := range ps.Specs {
		spec := &ps.Specs[i]
		result, st := t.look(spec)
		if !ps.Multi {
			if st != memd.StatusSuccess {
				return failure(st)
			}
			res.Value, res.Datatype = result, 0
			if spec.HasResult() && spec.Flags&subdoc.Binary == 0 {
				res.Datatype = memd.DatatypeJSON
			}
			return res
		}
		if st != memd.StatusSuccess {
			res.Status, result = failed, nil
		}
		res.Value = binary.BigEndian.AppendUint16(res.Value, uint16(st))
		res.Value = append(binary.BigEndian.AppendUint32(res.Value, uint32(len(result))), result...)
	}
	res.Datatype = 0
	return res
}

// look executes one path of a request that reads.
func (t *target) look(s *subdoc.Spec) ([]byte, memd.Status) {
	switch {
	case s.Flags&subdoc.Xattr != 0:
		return t.lookAttribute(s)
	case s.Whole() && len(t.old.value) == 0:
		return nil, memd.StatusSubdocPathNotFound
	case s.Whole():
		return t.old.value, memd.StatusSuccess
	}
	if st := subdoc.Searchable(t.old.value, t.old.datatype); st != memd.StatusSuccess {
		return nil, st
	}
	return s.Read(t.old.value)
}

func (t *target) lookAttribute(s *subdoc.Spec) ([]byte, memd.Status) {
	name := s.Attribute()
	value := t.old.xattrs().Value(name)
	if strings.HasPrefix(name, "$") {
		if value = t.old.virtual(name, t.v.history[0].UUID, t.now, !t.live); value == nil {
			return nil, memd.StatusSubdocXattrUnknownVattr
		}
	}
	result, st := s.Read(subdoc.AttributeDoc(name, value))
	if st == memd.StatusSuccess && s.Flags&subdoc.Binary != 0 {
		var ok bool
		if result, ok = subdoc.DecodeBinary(result); !ok {
			return nil, memd.StatusSubdocFieldNotBinary
		}
	}
	return result, st
}

// subdocMutation executes the paths of a request that changes a document: all of them, or none. A lock with another CAS
// than the request's is noticed when the document is stored, so a path that fails comes first; a document that is not
// there yet is made whatever CAS the request names.
func (s *Store) subdocMutation(o *Op, t *target) Result {
	ps := o.Paths
	locked := t.live && t.old.isLocked(t.now)
	switch {
	case t.found && ps.Flags&subdoc.Add != 0:
		return failure(memd.StatusKeyExists)
	case !t.found && ps.Flags&(subdoc.Add|subdoc.Upsert) == 0:
		return failure(memd.StatusKeyNotFound)
	case locked && (o.CAS == 0 || o.CAS == lockedCAS):
		return failure(memd.StatusLocked)
	case t.found && !locked && o.CAS != 0 && o.CAS != t.old.cas:
		return failure(memd.StatusKeyExists)
	case t.live && ps.Flags&subdoc.Revive != 0:
		return failure(memd.StatusSubdocCanOnlyReviveDeleted)
	}
	m := &mutation{cas: s.nextCAS(t.now), seqno: t.v.seqno + 1, uuid: t.v.history[0].UUID, old: &t.old, now: t.now}
	w := t.change(ps, m)
	if w.status == memd.StatusSuccess && w.wantsCRC {
		m.crc = crcText(w.body)
		w = t.change(ps, m)
	}
	switch {
	case w.status != memd.StatusSuccess && ps.Multi:
		v := binary.BigEndian.AppendUint16([]byte{byte(w.at)}, uint16(w.status))
		return Result{Status: memd.StatusSubdocMultiPathFailure, Value: v, Shaped: true}
	case w.status != memd.StatusSuccess:
		return failure(w.status)
	case locked && o.CAS != t.old.lock.cas:
		return failure(memd.StatusLocked)
	}
	next, st := w.next(o, t)
	if st != memd.StatusSuccess {
		return failure(st)
	}
	next.cas = m.cas
	res := s.commit(o, t.v, t.id, t.old, next, t.now)
	res.Value, res.Datatype, res.Shaped, res.Xattrs = w.answer(ps.Multi), 0, true, nil
	if !ps.Multi && res.Value != nil {
		res.Datatype = memd.DatatypeJSON
	}
	if next.deleted && !w.removed {
		res.Status = memd.StatusSubdocSuccessDeleted
	}
	return res
}

// work is a document while the paths of a request change it.
type work struct {
	body     []byte
	datatype memd.Datatype
	xattrs   Xattrs
	removed  bool // the document as a whole
	wantsCRC bool
	results  [][]byte
	status   memd.Status
	at       int // the spec that failed
}

// change executes the paths on what the document has, without storing anything.
func (t *target) change(ps *subdoc.Request, m *mutation) *work {
	w := &work{}
	if t.found {
		w.body, w.datatype, w.xattrs = t.old.value, t.old.datatype, t.old.xattrs()
	} else if ps.Flags&subdoc.CreateAsDeleted == 0 {
		w.body = ps.EmptyBody()
		w.datatype = ValueType(w.body)
	}
	for i := range ps.Specs {
		s := &ps.Specs[i]
		result, st := w.apply(s, m, ps.Flags&(subdoc.Add|subdoc.Upsert) != 0)
		if st != memd.StatusSuccess {
			w.status, w.at = st, i
			return w
		}
		if !s.HasResult() {
			result = nil
		}
		w.results = append(w.results, result)
	}
	if ps.Specs[0].Flags&subdoc.Xattr != 0 {
		w.xattrs = w.xattrs.rewritten()
	}
	return w
}

// apply executes one path.
func (w *work) apply(s *subdoc.Spec, m *mutation, mkdir bool) (result []byte, st memd.Status) {
	switch {
	case s.Op == memd.OpSet:
		w.body, w.datatype = s.Value, ValueType(s.Value)
		return nil, memd.StatusSuccess
	case s.Op == memd.OpDelete:
		w.body, w.datatype, w.removed = nil, 0, true
		return nil, memd.StatusSuccess
	case s.Op == memd.OpSubdocReplaceBodyWithXattr:
		return nil, w.takeBody(s)
	}
	if s.Flags&subdoc.Xattr == 0 {
		if st := subdoc.Searchable(w.body, w.datatype); st != memd.StatusSuccess {
			return nil, st
		}
		w.body, result, st = s.Write(w.body, s.Value, mkdir)
		return result, st
	}
	value := s.Value
	switch {
	case s.Flags&subdoc.Macros != 0:
		w.wantsCRC = w.wantsCRC || string(s.Value) == subdoc.MacroCRC
		if value = m.expand(value); value == nil {
			return nil, memd.StatusSubdocXattrUnknownVattrMacro
		}
	case s.Flags&subdoc.Binary != 0:
		value = subdoc.EncodeBinary(value)
	}
	name := s.Attribute()
	next, result, st := s.Write(subdoc.AttributeDoc(name, w.xattrs.Value(name)), value, mkdir)
	if st != memd.StatusSuccess {
		return nil, st
	}
	w.xattrs = w.xattrs.with(name, subdoc.OnlyMember(next))
	if w.xattrs.size() > maxXattrBytes {
		return nil, memd.StatusTooBig
	}
	return result, st
}

// takeBody makes an attribute's value the document's body.
func (w *work) takeBody(s *subdoc.Spec) memd.Status {
	name := s.Attribute()
	value, st := s.Find(subdoc.AttributeDoc(name, w.xattrs.Value(name)))
	if st != memd.StatusSuccess {
		return st
	}
	if s.Flags&subdoc.Binary != 0 {
		var ok bool
		if value, ok = subdoc.DecodeBinary(value); !ok {
			return memd.StatusSubdocFieldNotBinary
		}
	}
	w.body, w.datatype = slices.Clone(value), ValueType(value)
	return memd.StatusSuccess
}

// next is the document's version after the request.
func (w *work) next(o *Op, t *target) (doc, memd.Status) {
	flags := o.Paths.Flags
	next := doc{value: w.body, datatype: w.datatype, attrs: w.xattrs.kept(), expiry: o.expires(t.now)}
	if t.found {
		next.flags = t.old.flags
	}
	if o.Paths.UserFlags != nil {
		next.flags = *o.Paths.UserFlags
	}
	if o.PreserveTTL && t.live {
		next.expiry = t.old.expiry
	}
	switch {
	case w.removed:
		next = doc{deleted: true, attrs: w.xattrs.system().kept()}
	case t.found && !t.live && flags&subdoc.Revive == 0, !t.found && flags&subdoc.CreateAsDeleted != 0:
		next.deleted, next.expiry = true, 0
		if len(next.value) > 0 {
			return next, memd.StatusSubdocDeletedCantHaveValue
		}
	}
	if len(next.value) > MaxValue {
		return next, memd.StatusTooBig
	}
	return next, memd.StatusSuccess
}

// answer is the body of a success: the result of the one path, or those that there are with their indexes.
func (w *work) answer(multi bool) []byte {
	if !multi {
		return w.results[0]
	}
	var out []byte
	for i, r := range w.results {
		if r == nil {
			continue
		}
		out = binary.BigEndian.AppendUint16(append(out, byte(i)), 0)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(r))), r...)
	}
	return out
}
