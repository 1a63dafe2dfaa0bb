package mock

import (
	"cmp"
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// SET_WITH_META, ADD_WITH_META, DEL_WITH_META: documents with the metadata that another cluster has given them. The
// document here and the one that comes are compared by revision, or by CAS in a bucket that resolves by time; the one
// that loses is refused as an existing key. RETURN_META stores a document and answers its new metadata. Left out:
// extended metadata, which is cut off and forgotten.

// Options of writes with metadata.
const (
	metaSkipConflict  = 0x01
	metaForceAccept   = 0x02
	metaRegenerateCAS = 0x04
	metaIsExpiration  = 0x10
	metaOptions       = metaSkipConflict | metaForceAccept | metaRegenerateCAS | 0x08 | metaIsExpiration
)

// withMeta is what a request with metadata brings.
type withMeta struct {
	flags, expiry, options uint32
	rev, cas               uint64
	xattrs                 xattrs
}

func runWithMeta(rq *request) reply {
	x := rq.p.Extras
	m := &withMeta{
		flags: binary.BigEndian.Uint32(x), expiry: binary.BigEndian.Uint32(x[4:]),
		rev: binary.BigEndian.Uint64(x[8:]), cas: binary.BigEndian.Uint64(x[16:]),
	}
	x, body := x[24:], rq.value
	if len(x) >= 4 {
		m.options, x = binary.BigEndian.Uint32(x), x[4:]
	}
	if len(x) == 2 {
		n := int(binary.BigEndian.Uint16(x))
		if n > len(body) {
			return fail(memd.StatusInvalid, "Extended metadata is longer than the value")
		}
		body = body[:len(body)-n]
	}
	switch forced := m.options&metaForceAccept != 0; {
	case m.options&^metaOptions != 0:
		return fail(memd.StatusInvalid, "Unknown options 0x%x", m.options)
	case m.options&metaRegenerateCAS != 0 && m.options&metaSkipConflict == 0:
		return fail(memd.StatusInvalid, "A new CAS needs that conflicts are not resolved")
	case forced != rq.b.lww:
		return fail(memd.StatusInvalid, "The bucket resolves conflicts in the other way")
	case m.cas == 0 && m.options&metaRegenerateCAS == 0:
		return fail(memd.StatusInvalid, "CAS of the document must not be 0")
	}
	if rq.p.Datatype&memd.DatatypeXattr != 0 {
		var ok bool
		if m.xattrs, body, ok = parseXattrs(body); !ok {
			return fail(memd.StatusXattrInvalid, "Extended attributes are malformed")
		}
	}
	return rq.runDoc(docOp{value: body, datatype: valueType(body), packed: rq.packed, meta: m}, nil)
}

// applyMeta is the version of a document that a write with metadata brings. Conflicts are resolved before the CAS and a
// lock are looked at. A removal compares its CAS with a tombstone's, or with 0 where there never was a document.
func (s *store) applyMeta(o *docOp, old doc, found, locked bool) (doc, memd.Status) {
	m, removes := o.meta, o.op == memd.OpDelWithMeta
	next := doc{
		value: o.value, datatype: o.datatype, packed: o.packed, xattrs: m.xattrs, flags: m.flags, expiry: int64(m.expiry),
		rev: m.rev, cas: m.cas, deleted: removes,
	}
	skip, there := m.options&metaSkipConflict != 0, found && !old.deleted
	switch {
	case found && !skip && !next.wins(&old, m.options&metaForceAccept != 0):
		return old, memd.StatusKeyExists
	case o.op == memd.OpAddWithMeta && there:
		return old, memd.StatusKeyExists
	case locked && o.cas != old.cas:
		return old, memd.StatusLocked
	case removes && !found && skip, o.cas == 0, found && o.cas == old.cas: // no other CAS than the request's
	case removes, there:
		return old, memd.StatusKeyExists
	default:
		return old, memd.StatusKeyNotFound
	}
	if removes && len(o.value) > 0 {
		return old, memd.StatusInvalid
	}
	if m.options&metaRegenerateCAS != 0 {
		next.cas = 0
	}
	s.lastCAS = max(s.lastCAS, next.cas)
	return next, memd.StatusSuccess
}

// wins reports whether a version from elsewhere replaces the one that is here. Of a removal only revision and CAS count;
// of equal versions one with attributes wins over one without.
func (d *doc) wins(here *doc, byTime bool) bool {
	order := cmp.Or(cmp.Compare(d.rev, here.rev), cmp.Compare(d.cas, here.cas))
	if byTime {
		order = cmp.Or(cmp.Compare(d.cas, here.cas), cmp.Compare(d.rev, here.rev))
	}
	if d.deleted {
		return order > 0
	}
	order = cmp.Or(order, cmp.Compare(d.expiry, here.expiry), cmp.Compare(d.flags, here.flags))
	return order > 0 || order == 0 && len(d.xattrs) > 0 && len(here.xattrs) == 0
}

// Mutation types of RETURN_META.
const (
	returnSet = 1
	returnAdd = 2
	returnDel = 3
)

func runReturnMeta(rq *request) reply {
	x := rq.p.Extras
	op := memd.OpSet
	o := docOp{
		value: rq.value, datatype: valueType(rq.value), packed: rq.packed,
		flags: binary.BigEndian.Uint32(x[4:]), expiry: binary.BigEndian.Uint32(x[8:]),
	}
	switch binary.BigEndian.Uint32(x) {
	case returnSet:
	case returnAdd:
		op = memd.OpAdd
	case returnDel:
		op = memd.OpDelete
	default:
		return fail(memd.StatusInvalid, "Unknown type of mutation")
	}
	return rq.runDocAs(op, o, func(res docResult) reply {
		x := binary.BigEndian.AppendUint32(nil, res.flags)
		x = binary.BigEndian.AppendUint32(x, res.expiry)
		return reply{cas: res.cas, datatype: res.datatype, extras: binary.BigEndian.AppendUint64(x, res.rev)}
	})
}
