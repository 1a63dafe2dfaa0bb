package kv

import (
	"encoding/binary"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetMeta reads what a server keeps about a document beside its value. It finds tombstones, too.
type GetMeta struct {
	Common
	Key []byte
	// V1 asks for the older form of the answer, which has no datatype.
	V1 bool
}

// MetaResult is the result of GetMeta and of Exists.
type MetaResult struct {
	Result
	Exists      bool      // there is a document, and it is no tombstone
	Deleted     bool      // the document is a tombstone
	Flags       uint32    // of the document
	Expiry      time.Time // zero for none; of a tombstone the time of its deletion
	RevSeqno    uint64    // how often it was changed
	Datatype    memd.Datatype
	HasDatatype bool // the answer had one
}

// encode implements Op.
func (g GetMeta) encode(r *call.Request) (decoder[MetaResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Key = memd.OpGetMeta, g.Key
	r.Own().Verb = "get-meta"
	if g.V1 {
		r.SetExtras([]byte{1})
	} else {
		r.SetExtras([]byte{2})
	}
	return decodeGetMeta, nil
}

// decodeGetMeta makes the result of a GetMeta.
func decodeGetMeta(r *call.Response) (MetaResult, error) {
	if len(r.Extras()) < 20 {
		return MetaResult{}, call.Malformed(r, "extras", 20)
	}
	e := r.Extras()
	deleted := binary.BigEndian.Uint32(e)&1 != 0
	m := MetaResult{
		Result: resultOf(r), Exists: !deleted, Deleted: deleted, Flags: binary.BigEndian.Uint32(e[4:]),
		Expiry: unixTime(binary.BigEndian.Uint32(e[8:])), RevSeqno: binary.BigEndian.Uint64(e[12:]),
	}
	if len(e) > 20 {
		m.Datatype, m.HasDatatype = memd.Datatype(e[20]), true
	}
	return m, nil
}

// unixTime is the time of an absolute expiry; 0 means none.
func unixTime(seconds uint32) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(int64(seconds), 0)
}
