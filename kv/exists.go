package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// Exists asks whether a document exists. A missing document is a result, not an error.
type Exists struct {
	Common
	Key []byte
}

// ExistsResult is the result of Exists. CAS is 0 when the document does not exist.
type ExistsResult struct {
	Result
	Exists bool
}

// Encode implements Op.
func (e Exists) Encode(r *Request) error {
	r.Common, r.Opcode, r.Key, r.AbsentOK = e.Common, memd.OpGetMeta, e.Key, true
	r.SetExtras([]byte{2})
	return nil
}

// Decode implements Op. The first four bytes of the extras tell a tombstone.
func (e Exists) Decode(r *Response) (ExistsResult, error) {
	if r.extrasLen < 4 {
		return ExistsResult{}, malformed(r, "extras", 4)
	}
	deleted := binary.BigEndian.Uint32(r.extras[:])&1 != 0
	res := ExistsResult{Result: r.Result, Exists: !deleted}
	if deleted {
		res.CAS = 0
	}
	return res, nil
}

// absent implements absentDecoder.
func (e Exists) absent(r *Response) (ExistsResult, error) {
	return ExistsResult{Result: r.Result}, nil
}

// absentDecoder is an operation for which a missing document is an answer.
type absentDecoder[R any] interface {
	absent(r *Response) (R, error)
}

// decodeAbsent turns a missing document into a result when op says that it is one.
//
//go:noinline
func decodeAbsent[R any, O Op[R]](c *Call, op *O, r *R, err error) error {
	a, ok := any(*op).(absentDecoder[R])
	if e, is := err.(*Error); ok && is { //nolint:errorlint // made by this call
		c.Res.Result = e.Result()
		*r, err = a.absent(&c.Res)
	}
	return err
}

// isAbsent reports that the failure of a call is a missing document.
func isAbsent(err error) bool {
	e, ok := err.(*Error) //nolint:errorlint // made by the call itself
	return ok && e.Err == error(cberr.DocumentNotFound)
}
