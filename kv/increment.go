package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Increment adds to a document that holds a decimal number, and wraps at 64 bits as the server does. There is no CAS,
// because the protocol has none for counters.
type Increment struct {
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
func (i Increment) encode(r *call.Request) (decoder[CounterResult], error) {
	setCommon(r, &i.Common)
	r.Opcode, r.Key = memd.OpIncrement, i.Key
	r.Durability, r.PreserveExpiry = i.Durability, i.PreserveExpiry
	return counterResult, setCounter(r, i.Delta, i.Initial, i.Expiry)
}
