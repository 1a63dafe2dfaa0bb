package mock

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
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
func (s *store) subdoc(o *docOp, v *vbucketData, held *docCopy, now time.Time) docResult {
	id := docID{o.cid, string(o.key)}
	t := &target{v: v, id: id, now: now}
	t.old, t.found = held.docs[id]
	t.live = t.found && t.old.live(now)
	if t.found && !t.live {
		t.old = t.old.tombstone()
		t.found = o.paths.flags&docAccessDeleted != 0
	}
	if !o.paths.mutates {
		return o.paths.lookup(t, o.cas)
	}
	return s.subdocMutation(o, t)
}

// lookup executes the paths of a request that reads. One that names a CAS reads that version only.
func (ps *paths) lookup(t *target, cas uint64) docResult {
	if !t.found {
		return failure(memd.StatusKeyNotFound)
	}
	res := t.old.result(t.v)
	if t.now.Before(t.old.locked) {
		res.cas = lockedCAS
	}
	if cas != 0 && cas != res.cas {
		return failure(memd.StatusKeyExists)
	}
	done, failed := memd.StatusSuccess, memd.StatusSubdocMultiPathFailure
	if !t.live {
		done, failed = memd.StatusSubdocSuccessDeleted, memd.StatusSubdocMultiPathFailureDeleted
	}
	res.status, res.value, res.shaped = done, nil, true
	for i := range ps.specs {
		spec := &ps.specs[i]
		result, st := spec.look(t)
		if !ps.multi {
			if st != memd.StatusSuccess {
				return failure(st)
			}
			res.value, res.datatype = result, 0
			if spec.row.result && spec.flags&pathBinary == 0 {
				res.datatype = memd.DatatypeJSON
			}
			return res
		}
		if st != memd.StatusSuccess {
			res.status, result = failed, nil
		}
		res.value = binary.BigEndian.AppendUint16(res.value, uint16(st))
		res.value = append(binary.BigEndian.AppendUint32(res.value, uint32(len(result))), result...)
	}
	res.datatype = 0
	return res
}

// look executes one path of a request that reads.
func (s *pathSpec) look(t *target) ([]byte, memd.Status) {
	switch {
	case s.bad != memd.StatusSuccess:
		return nil, s.bad
	case s.flags&pathXattr != 0:
		return s.lookAttribute(t)
	case s.row.whole && len(t.old.value) == 0:
		return nil, memd.StatusSubdocPathNotFound
	case s.row.whole:
		return t.old.value, memd.StatusSuccess
	}
	if st := searchable(t.old.value, t.old.datatype); st != memd.StatusSuccess {
		return nil, st
	}
	return s.row.read(t.old.value, s.parts)
}

// searchable says whether a document's body is one that paths can lead through.
func searchable(body []byte, dt memd.Datatype) memd.Status {
	switch {
	case dt&memd.DatatypeJSON == 0:
		return memd.StatusSubdocNotJSON
	case nesting(body) > maxDepth:
		return memd.StatusSubdocDocTooDeep
	}
	return memd.StatusSuccess
}

func (s *pathSpec) lookAttribute(t *target) ([]byte, memd.Status) {
	name := s.attribute()
	value := t.old.xattrs.get(name)
	if strings.HasPrefix(name, "$") {
		if value = t.old.virtual(name, t.v.history[0].uuid, t.now, !t.live); value == nil {
			return nil, memd.StatusSubdocXattrUnknownVattr
		}
	}
	result, st := s.row.read(attributeDoc(name, value), s.parts)
	if st == memd.StatusSuccess && s.flags&pathBinary != 0 {
		var ok bool
		if result, ok = decodeBinary(result); !ok {
			return nil, memd.StatusSubdocFieldNotBinary
		}
	}
	return result, st
}

// attributeDoc is a document that has one attribute as its only member, so that paths lead through it as through any
// other; none when value is nil.
func attributeDoc(name string, value []byte) []byte {
	if value == nil {
		return []byte("{}")
	}
	return slices.Concat([]byte(`{"`), []byte(name), []byte(`":`), value, []byte("}"))
}

// subdocMutation executes the paths of a request that changes a document: all of them, or none. A lock with another CAS
// than the request's is noticed when the document is stored, so a path that fails comes first; a document that is not
// there yet is made whatever CAS the request names.
func (s *store) subdocMutation(o *docOp, t *target) docResult {
	ps := o.paths
	locked := t.live && t.now.Before(t.old.locked)
	switch {
	case t.found && ps.flags&docAdd != 0:
		return failure(memd.StatusKeyExists)
	case !t.found && ps.flags&(docAdd|docUpsert) == 0:
		return failure(memd.StatusKeyNotFound)
	case locked && (o.cas == 0 || o.cas == lockedCAS):
		return failure(memd.StatusLocked)
	case t.found && !locked && o.cas != 0 && o.cas != t.old.cas:
		return failure(memd.StatusKeyExists)
	case t.live && ps.flags&docRevive != 0:
		return failure(memd.StatusSubdocCanOnlyReviveDeleted)
	}
	m := &mutation{cas: s.nextCAS(t.now), seqno: t.v.seqno + 1, uuid: t.v.history[0].uuid, old: &t.old}
	w := ps.change(t, m)
	if w.status == memd.StatusSuccess && w.wantsCRC {
		m.crc = crcText(w.body)
		w = ps.change(t, m)
	}
	switch {
	case w.status != memd.StatusSuccess && ps.multi:
		v := binary.BigEndian.AppendUint16([]byte{byte(w.at)}, uint16(w.status))
		return docResult{status: memd.StatusSubdocMultiPathFailure, value: v, shaped: true}
	case w.status != memd.StatusSuccess:
		return failure(w.status)
	case locked && o.cas != t.old.cas:
		return failure(memd.StatusLocked)
	}
	next, st := w.next(o, t)
	if st != memd.StatusSuccess {
		return failure(st)
	}
	next.cas = m.cas
	res := s.commit(o, t.v, t.id, t.old, next, t.now)
	res.value, res.datatype, res.shaped, res.xattrs = w.answer(ps.multi), 0, true, nil
	if !ps.multi && res.value != nil {
		res.datatype = memd.DatatypeJSON
	}
	if next.deleted && !w.removed {
		res.status = memd.StatusSubdocSuccessDeleted
	}
	return res
}

// work is a document while the paths of a request change it.
type work struct {
	body     []byte
	datatype memd.Datatype
	xattrs   xattrs
	removed  bool // the document as a whole
	wantsCRC bool
	results  [][]byte
	status   memd.Status
	at       int // the spec that failed
}

// change executes the paths on what the document has, without storing anything.
func (ps *paths) change(t *target, m *mutation) *work {
	w := &work{}
	if t.found {
		w.body, w.datatype, w.xattrs = t.old.value, t.old.datatype, t.old.xattrs
	} else if ps.flags&docCreateAsDeleted == 0 {
		w.body = ps.emptyBody()
		w.datatype = valueType(w.body)
	}
	for i := range ps.specs {
		s := &ps.specs[i]
		result, st := w.apply(s, m, ps.flags&(docAdd|docUpsert) != 0)
		if st != memd.StatusSuccess {
			w.status, w.at = st, i
			return w
		}
		if !s.row.result {
			result = nil
		}
		w.results = append(w.results, result)
	}
	if ps.specs[0].flags&pathXattr != 0 {
		w.xattrs = w.xattrs.rewritten()
	}
	return w
}

// emptyBody is what a new document begins with: what the first path that leads into one wants, be it an attribute's. A
// request with none writes the body as a whole.
func (ps *paths) emptyBody() []byte {
	for i := range ps.specs {
		s := &ps.specs[i]
		switch {
		case s.row.whole, s.row.xattr:
		case s.path == "" || s.path[0] == '[':
			return []byte("[]")
		default:
			return []byte("{}")
		}
	}
	return nil
}

// apply executes one path.
func (w *work) apply(s *pathSpec, m *mutation, mkdir bool) (result []byte, st memd.Status) {
	switch {
	case s.bad != memd.StatusSuccess:
		return nil, s.bad
	case s.op == memd.OpSet:
		w.body, w.datatype = s.value, valueType(s.value)
		return nil, memd.StatusSuccess
	case s.op == memd.OpDelete:
		w.body, w.datatype, w.removed = nil, 0, true
		return nil, memd.StatusSuccess
	case s.op == memd.OpSubdocReplaceBodyWithXattr:
		return nil, w.takeBody(s)
	}
	c := &pathChange{parts: s.parts, value: s.value, mkdir: mkdir || s.flags&pathMkdir != 0}
	if s.flags&pathXattr == 0 {
		if st := searchable(w.body, w.datatype); st != memd.StatusSuccess {
			return nil, st
		}
		w.body, result, st = s.row.write(w.body, c)
		return result, st
	}
	switch {
	case s.flags&pathMacros != 0:
		w.wantsCRC = w.wantsCRC || string(s.value) == macroCRC
		if c.value = m.expand(s.value); c.value == nil {
			return nil, memd.StatusSubdocXattrUnknownVattrMacro
		}
	case s.flags&pathBinary != 0:
		c.value = encodeBinary(s.value)
	}
	name := s.attribute()
	next, result, st := s.row.write(attributeDoc(name, w.xattrs.get(name)), c)
	if st != memd.StatusSuccess {
		return nil, st
	}
	var value []byte
	for _, e := range elements(next, root(next).from) {
		value = next[e.value.from:e.value.to:e.value.to]
	}
	w.xattrs = w.xattrs.with(name, value)
	if w.xattrs.size() > maxXattrBytes {
		return nil, memd.StatusTooBig
	}
	return result, st
}

// takeBody makes an attribute's value the document's body.
func (w *work) takeBody(s *pathSpec) memd.Status {
	name := s.attribute()
	value, st := readPath(attributeDoc(name, w.xattrs.get(name)), s.parts)
	if st != memd.StatusSuccess {
		return st
	}
	if s.flags&pathBinary != 0 {
		var ok bool
		if value, ok = decodeBinary(value); !ok {
			return memd.StatusSubdocFieldNotBinary
		}
	}
	w.body, w.datatype = slices.Clone(value), valueType(value)
	return memd.StatusSuccess
}

// next is the document's version after the request.
func (w *work) next(o *docOp, t *target) (doc, memd.Status) {
	flags := o.paths.flags
	next := doc{value: w.body, datatype: w.datatype, xattrs: w.xattrs, expiry: o.expires(t.now)}
	if t.found {
		next.flags = t.old.flags
	}
	if o.paths.userFlags != nil {
		next.flags = *o.paths.userFlags
	}
	if o.preserveTTL && t.live {
		next.expiry = t.old.expiry
	}
	switch {
	case w.removed:
		next = doc{deleted: true, xattrs: w.xattrs.system()}
	case t.found && !t.live && flags&docRevive == 0, !t.found && flags&docCreateAsDeleted != 0:
		next.deleted, next.expiry = true, 0
		if len(next.value) > 0 {
			return next, memd.StatusSubdocDeletedCantHaveValue
		}
	}
	if len(next.value) > maxValue {
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
