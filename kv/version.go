package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetVersion asks a node for its version. Any node answers, or the one with index Node when Pinned is set.
type GetVersion struct {
	Common
	Pinned bool
	Node   int
}

// VersionResult is the result of GetVersion.
type VersionResult struct {
	Result
	Version string
}

// encode implements Op.
func (v GetVersion) encode(r *call.Request) (decoder[VersionResult], error) {
	setCommon(r, &v.Common)
	r.Opcode, r.Pinned = memd.OpVersion, v.Pinned
	setNode(r, v.Node)
	return decodeGetVersion, nil
}

// decodeGetVersion makes the result of a GetVersion.
func decodeGetVersion(r *call.Response) (VersionResult, error) {
	return VersionResult{Result: resultOf(r), Version: string(r.Value)}, nil
}
