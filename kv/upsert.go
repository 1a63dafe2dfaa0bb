package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Upsert writes a document whether or not it exists. With a CAS it replaces only that version; another one is
// cberr.CASMismatch.
type Upsert struct {
	Common
	Key, Value []byte
	Expiry     Expiry
	CAS        uint64 // 0 means whatever it is
	Flags      uint32
	Datatype   memd.Datatype // memd.DatatypeJSON marks the value as JSON
	Durability memd.DurabilityLevel

	// PreserveExpiry keeps the expiry that the document has. Expiry is then for a document that is not there yet.
	PreserveExpiry bool
}

// encode implements Op.
func (u Upsert) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &u.Common)
	r.Opcode = memd.OpSet
	exp, err := u.Expiry.wire()
	if err != nil {
		return nil, err
	}
	r.Key, r.Value = u.Key, u.Value
	r.Datatype, r.Durability = u.Datatype, u.Durability
	r.CAS = u.CAS
	r.PreserveExpiry = u.PreserveExpiry
	r.SetExtras64(u.Flags, exp)
	return mutationResult, nil
}
