package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Verb is what errors, spans and retry policies call the operation with that opcode: "get-and-touch". It is "" for an
// opcode that no operation uses. Idempotent says that sending it twice does no harm (SDK RFC 0049, and the reads that
// it does not mention).
func Verb(op memd.Opcode) (verb string, idempotent bool) {
	s := call.SpecOf(op)
	if s == nil {
		return "", false
	}
	return s.Name, s.Has(call.Idempotent)
}
