package kv

import "github.com/couchcore/couchcore/memd"

// Noop asks a node for a sign of life. Any node answers, or the one with index Node when Pinned is set.
type Noop struct {
	Common
	Pinned bool
	Node   int
	// Connection is the one that must carry the request, as Result.Connection names it; "" means any.
	Connection string
}

// Encode implements Op.
func (n Noop) Encode(r *Request) error {
	r.Common, r.Opcode, r.Pinned, r.Node, r.Connection = n.Common, memd.OpNoop, n.Pinned, n.Node, n.Connection
	return nil
}

// Decode implements Op.
func (n Noop) Decode(r *Response) (Result, error) { return r.Result, nil }
