package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Decrement subtracts from a document that holds a decimal number and stops at 0. There is no CAS, because the protocol
// has none for counters.
type Decrement struct {
	Common
	Key   []byte
	Delta uint64
	// Initial is what a missing document is created with; nil leaves it missing, and the error is
	// cberr.DocumentNotFound.
	Initial    *uint64
	Expiry     Expiry // of a document that is created
	Durability memd.DurabilityLevel

	// PreserveExpiry keeps the expiry that the document has.
	PreserveExpiry bool
}

// encode implements Op.
func (d Decrement) encode(r *call.Request) (decoder[CounterResult], error) {
	setCommon(r, &d.Common)
	r.Opcode, r.Key = memd.OpDecrement, d.Key
	r.Durability, r.PreserveExpiry = d.Durability, d.PreserveExpiry
	return counterResult, setCounter(r, d.Delta, d.Initial, d.Expiry)
}
