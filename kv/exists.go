package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Exists asks whether a document exists. A missing document is a result, not an error.
type Exists struct {
	Common
	Key []byte
}

// ExistsResult is the result of Exists. CAS is 0 when the document does not exist.
type ExistsResult struct {
	Result
	Exists bool
}

// encode implements Op.
func (e Exists) encode(r *call.Request) (decoder[ExistsResult], error) {
	setCommon(r, &e.Common)
	r.Opcode, r.Key, r.AbsentOK = memd.OpGetMeta, e.Key, true
	r.SetExtras([]byte{2})
	return decodeExists, nil
}

// decodeExists makes the result of an Exists. The first four bytes of the extras tell a tombstone.
func decodeExists(r *call.Response) (ExistsResult, error) {
	if r.Absent() {
		return ExistsResult{Result: resultOf(r)}, nil
	}
	if len(r.Extras()) < 4 {
		return ExistsResult{}, call.Malformed(r, "extras", 4)
	}
	deleted := binary.BigEndian.Uint32(r.Extras())&1 != 0
	res := ExistsResult{Result: resultOf(r), Exists: !deleted}
	if deleted {
		res.CAS = 0
	}
	return res, nil
}
