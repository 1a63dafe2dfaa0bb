package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/internal/call"
)

// CounterResult is the result of a counter operation.
type CounterResult struct {
	MutationResult
	Value uint64 // the new value
}

// noCreate is the expiry that tells the server not to create the document.
const noCreate = 0xffffffff

func setCounter(r *call.Request, delta uint64, initial *uint64, expiry Expiry) error {
	exp, err := expiry.wire()
	if err != nil {
		return err
	}
	var first uint64
	if initial == nil {
		exp = noCreate
	} else {
		first = *initial
	}
	var extras [20]byte
	binary.BigEndian.PutUint64(extras[0:], delta)
	binary.BigEndian.PutUint64(extras[8:], first)
	binary.BigEndian.PutUint32(extras[16:], exp)
	r.SetExtras(extras[:])
	return nil
}

func counterResult(r *call.Response) (CounterResult, error) {
	if len(r.Value) != 8 {
		return CounterResult{}, call.Malformed(r, "value", 8)
	}
	m, err := mutationResult(r)
	return CounterResult{MutationResult: m, Value: binary.BigEndian.Uint64(r.Value)}, err
}
