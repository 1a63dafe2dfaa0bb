package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Append adds bytes to the end of a document. A missing one is cberr.DocumentNotFound.
type Append struct {
	Common
	Key, Value []byte
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel

	// PreserveExpiry keeps the expiry that the document has.
	PreserveExpiry bool
}

// encode implements Op.
func (a Append) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &a.Common)
	r.Opcode, r.Key, r.Value = memd.OpAppend, a.Key, a.Value
	r.CAS, r.Durability, r.PreserveExpiry = a.CAS, a.Durability, a.PreserveExpiry
	return mutationResult, nil
}
