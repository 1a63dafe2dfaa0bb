package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Replace writes a document that must exist: otherwise the error is cberr.DocumentNotFound, or cberr.CASMismatch when
// it is not the version that CAS names.
type Replace struct {
	Common
	Key, Value []byte
	Flags      uint32
	Datatype   memd.Datatype // memd.DatatypeJSON marks the value as JSON
	Expiry     Expiry
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel

	// PreserveExpiry keeps the expiry that the document has. It excludes Expiry.
	PreserveExpiry bool
}

// encode implements Op.
func (o Replace) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &o.Common)
	r.Opcode = memd.OpReplace
	exp, err := o.Expiry.wire()
	if err != nil {
		return nil, err
	}
	if o.PreserveExpiry && exp != 0 {
		return nil, badArgument("preserve expiry", "given together with an expiry")
	}
	r.Key, r.Value = o.Key, o.Value
	r.Datatype, r.Durability = o.Datatype, o.Durability
	r.CAS = o.CAS
	r.PreserveExpiry = o.PreserveExpiry
	r.SetExtras64(o.Flags, exp)
	return mutationResult, nil
}
