package kv

import "encoding/binary"

// CounterResult is the result of a counter operation.
type CounterResult struct {
	MutationResult
	Value uint64 // the new value
}

// noCreate is the expiry that tells the server not to create the document.
const noCreate = 0xffffffff

func (r *Request) setCounter(delta uint64, initial *uint64, expiry Expiry) error {
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
	binary.BigEndian.PutUint64(r.extras[0:], delta)
	binary.BigEndian.PutUint64(r.extras[8:], first)
	binary.BigEndian.PutUint32(r.extras[16:], exp)
	r.extrasLen = 20
	return nil
}

func counterResult(r *Response) (CounterResult, error) {
	if len(r.Value) != 8 {
		return CounterResult{}, malformed(r, "value", 8)
	}
	m, err := mutationResult(r)
	return CounterResult{MutationResult: m, Value: binary.BigEndian.Uint64(r.Value)}, err
}
