package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Prepend adds bytes to the front of a document. A missing one is cberr.DocumentNotFound.
type Prepend struct {
	Common
	Key, Value []byte
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel

	// PreserveExpiry keeps the expiry that the document has.
	PreserveExpiry bool
}

// encode implements Op.
func (p Prepend) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &p.Common)
	r.Opcode, r.Key, r.Value = memd.OpPrepend, p.Key, p.Value
	r.CAS, r.Durability, r.PreserveExpiry = p.CAS, p.Durability, p.PreserveExpiry
	return mutationResult, nil
}
