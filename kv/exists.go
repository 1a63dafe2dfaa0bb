package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/internal/call"
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

// encode implements Op.
func (e Exists) encode(r *call.Request) error {
	setCommon(r, &e.Common)
	r.Opcode, r.Key, r.AbsentOK = memd.OpGetMeta, e.Key, true
	r.SetExtras([]byte{2})
	return nil
}

// decode implements Op. The first four bytes of the extras tell a tombstone.
func (e Exists) decode(r *call.Response) (ExistsResult, error) {
	if len(r.Extras()) < 4 {
		return ExistsResult{}, call.Malformed(r, "extras", 4)
	}
	deleted := binary.BigEndian.Uint32(r.Extras())&1 != 0
	res := ExistsResult{Result: resultOf(r), Exists: !deleted}
	if deleted {
		res.CAS = 0
	}
	return res, nil
}

// absent implements absentDecoder.
func (e Exists) absent(r *call.Response) (ExistsResult, error) {
	return ExistsResult{Result: resultOf(r)}, nil
}

// absentDecoder is an operation for which a missing document is an answer.
type absentDecoder[R any] interface {
	absent(r *call.Response) (R, error)
}

// decodeAbsent turns a missing document into a result when op says that it is one.
//
//go:noinline
func decodeAbsent[R any, O Op[R]](c *call.Call, op *O, r *R, err error) error {
	a, ok := any(*op).(absentDecoder[R])
	if answer, is := c.Absent(err); ok && is {
		*r, err = a.absent(answer)
	}
	return err
}
