package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Remove deletes a document. With a CAS it deletes only that version; another one is cberr.CASMismatch.
type Remove struct {
	Common
	Key        []byte
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel
}

// encode implements Op.
func (d Remove) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &d.Common)
	r.Opcode, r.Key, r.CAS, r.Durability = memd.OpDelete, d.Key, d.CAS, d.Durability
	return mutationResult, nil
}
