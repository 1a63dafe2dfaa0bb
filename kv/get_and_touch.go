package kv

import "github.com/couchcore/couchcore/memd"

// GetAndTouch reads a document and sets its expiry; the zero Expiry removes it. It is not idempotent: once it may have
// reached a server it is never sent again.
type GetAndTouch struct {
	Common
	Key        []byte
	Expiry     Expiry
	Durability memd.DurabilityLevel
	Into       []byte // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// Encode implements Op.
func (g GetAndTouch) Encode(r *Request) error {
	r.Common, r.Opcode = g.Common, memd.OpGAT
	exp, err := g.Expiry.wire()
	if err != nil {
		return err
	}
	r.Key, r.Into, r.Durability = g.Key, g.Into, g.Durability
	r.KeepCompressed = g.KeepCompressed
	r.SetExtras32(exp)
	return nil
}

// Decode implements Op.
func (g GetAndTouch) Decode(r *Response) (GetResult, error) { return getResult(r) }
