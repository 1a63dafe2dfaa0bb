package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Noop asks a node for a sign of life. Any node answers, or the one with index Node when Pinned is set.
type Noop struct {
	Common
	Pinned bool
	Node   int
	// Connection is the one that must carry the request, as Result.Connection names it; "" means any.
	Connection string
}

// encode implements Op.
func (n Noop) encode(r *call.Request) (decoder[Result], error) {
	setCommon(r, &n.Common)
	r.Opcode, r.Pinned = memd.OpNoop, n.Pinned
	setNode(r, n.Node)
	setConnection(r, n.Connection)
	return onlyResult, nil
}
