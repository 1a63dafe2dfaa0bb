package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// SET_WITH_META, ADD_WITH_META, DEL_WITH_META: documents with the metadata that another cluster has given them. The
// document here and the one that comes are compared by revision, or by CAS in a bucket that resolves by time; the one
// that loses is refused as an existing key. RETURN_META stores a document and answers its new metadata. Left out:
// extended metadata, which is cut off and forgotten.

func runWithMeta(rq *request) reply {
	x := rq.p.Extras
	m := &store.Meta{
		Flags: binary.BigEndian.Uint32(x), Expiry: binary.BigEndian.Uint32(x[4:]),
		Rev: binary.BigEndian.Uint64(x[8:]), CAS: binary.BigEndian.Uint64(x[16:]),
	}
	x, body := x[24:], rq.value
	if len(x) >= 4 {
		m.Options, x = binary.BigEndian.Uint32(x), x[4:]
	}
	if len(x) == 2 {
		n := int(binary.BigEndian.Uint16(x))
		if n > len(body) {
			return fail(memd.StatusInvalid, "Extended metadata is longer than the value")
		}
		body = body[:len(body)-n]
	}
	switch forced := m.Options&store.ForceAccept != 0; {
	case m.Options&^store.AllOptions != 0:
		return fail(memd.StatusInvalid, "Unknown options 0x%x", m.Options)
	case m.Options&store.RegenerateCAS != 0 && m.Options&store.SkipConflict == 0:
		return fail(memd.StatusInvalid, "A new CAS needs that conflicts are not resolved")
	case forced != rq.b.lww:
		return fail(memd.StatusInvalid, "The bucket resolves conflicts in the other way")
	case m.CAS == 0 && m.Options&store.RegenerateCAS == 0:
		return fail(memd.StatusInvalid, "CAS of the document must not be 0")
	}
	if rq.p.Datatype&memd.DatatypeXattr != 0 {
		var ok bool
		if m.Xattrs, body, ok = store.ParseXattrs(body); !ok {
			return fail(memd.StatusXattrInvalid, "The provided xattr segment is not valid")
		}
	}
	return rq.runDoc(store.Op{Value: body, Datatype: store.ValueType(body), Packed: rq.packed, Meta: m}, nil)
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
	o := store.Op{
		Value: rq.value, Datatype: store.ValueType(rq.value), Packed: rq.packed,
		Flags: binary.BigEndian.Uint32(x[4:]), Expiry: binary.BigEndian.Uint32(x[8:]),
	}
	switch binary.BigEndian.Uint32(x) {
	case returnSet:
	case returnAdd:
		op = memd.OpAdd
	case returnDel:
		op = memd.OpDelete
	default:
		return fail(memd.StatusInvalid, "Invalid mode")
	}
	return rq.runDocAs(op, o, func(res store.Result) reply {
		x := binary.BigEndian.AppendUint32(nil, res.Flags)
		x = binary.BigEndian.AppendUint32(x, res.Expiry)
		return reply{cas: res.CAS, datatype: res.Datatype, extras: binary.BigEndian.AppendUint64(x, res.Rev)}
	})
}
