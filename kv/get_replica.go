package kv

import (
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// GetReplica reads a document from one replica, which may lag behind the active copy. The node is found anew for each
// attempt.
type GetReplica struct {
	Common
	Key     []byte
	Replica int    // which replica, from 1
	Into    []byte // as in Get
}

// Encode implements Op.
func (g GetReplica) Encode(r *Request) error {
	r.Common, r.Opcode = g.Common, memd.OpGetReplica
	if g.Replica < 1 || g.Replica > 3 {
		return &ArgumentError{Field: "replica", Value: int64(g.Replica), Limit: 3, Kind: cberr.InvalidArgument}
	}
	r.Key, r.Into, r.Replica = g.Key, g.Into, g.Replica
	return nil
}

// Decode implements Op.
func (g GetReplica) Decode(r *Response) (GetResult, error) { return getResult(r) }
