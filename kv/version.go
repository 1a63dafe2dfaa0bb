package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetVersion asks a node for its version. Any node answers, or the one with index Node when Pinned is set. The
// result's Value is the version.
type GetVersion struct {
	Common
	Pinned bool
	Node   int
}

// encode implements Op.
func (v GetVersion) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &v.Common)
	r.Opcode, r.Pinned = memd.OpVersion, v.Pinned
	setNode(r, v.Node)
	return valueResult, nil
}
