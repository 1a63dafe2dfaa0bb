package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Exists asks whether a document exists, as the result's Exists says. A missing document is a result, not an error; the
// CAS is then 0.
type Exists struct {
	Common
	Key []byte
}

// encode implements Op.
func (e Exists) encode(r *call.Request) (decoder[MetaResult], error) {
	setCommon(r, &e.Common)
	r.Opcode, r.Key, r.AbsentOK = memd.OpGetMeta, e.Key, true
	r.SetExtras([]byte{2})
	return decodeExists, nil
}

// decodeExists makes the result of an Exists.
func decodeExists(r *call.Response) (MetaResult, error) {
	if r.Absent() {
		return MetaResult{Result: resultOf(r)}, nil
	}
	m, err := decodeGetMeta(r)
	if m.Deleted {
		m.CAS = 0
	}
	return m, err
}
