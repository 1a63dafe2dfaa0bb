package kv

import "github.com/couchcore/couchcore/memd"

// Touch sets a document's expiry; the zero Expiry removes it. It is not idempotent.
type Touch struct {
	Common
	Key        []byte
	Expiry     Expiry
	Durability memd.DurabilityLevel
}

// Encode implements Op.
func (t Touch) Encode(r *Request) error {
	r.Common, r.Opcode = t.Common, memd.OpTouch
	exp, err := t.Expiry.wire()
	if err != nil {
		return err
	}
	r.Key, r.Durability = t.Key, t.Durability
	r.SetExtras32(exp)
	return nil
}

// Decode implements Op.
func (t Touch) Decode(r *Response) (MutationResult, error) { return mutationResult(r) }
