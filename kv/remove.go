package kv

import "github.com/couchcore/couchcore/memd"

// Remove deletes a document. With a CAS it deletes only that version; another one is cberr.CASMismatch.
type Remove struct {
	Common
	Key        []byte
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel
}

// Encode implements Op.
func (d Remove) Encode(r *Request) error {
	r.Common, r.Opcode, r.Key, r.CAS, r.Durability = d.Common, memd.OpDelete, d.Key, d.CAS, d.Durability
	return nil
}

// Decode implements Op.
func (d Remove) Decode(r *Response) (MutationResult, error) { return mutationResult(r) }
