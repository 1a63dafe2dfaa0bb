package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Insert writes a document that must not exist yet: otherwise the error is cberr.DocumentExists. After an ambiguous
// failure that error may mean the own first attempt.
type Insert struct {
	Common
	Key, Value []byte
	Flags      uint32
	Datatype   memd.Datatype // memd.DatatypeJSON marks the value as JSON
	Expiry     Expiry
	Durability memd.DurabilityLevel
}

// encode implements Op.
func (i Insert) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &i.Common)
	r.Opcode = memd.OpAdd
	exp, err := i.Expiry.wire()
	if err != nil {
		return nil, err
	}
	r.Key, r.Value = i.Key, i.Value
	r.Datatype, r.Durability = i.Datatype, i.Durability
	r.SetExtras64(i.Flags, exp)
	return mutationResult, nil
}
