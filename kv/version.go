package kv

import "github.com/couchcore/couchcore/memd"

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

// Encode implements Op.
func (v GetVersion) Encode(r *Request) error {
	r.Common, r.Opcode, r.Pinned, r.Node = v.Common, memd.OpVersion, v.Pinned, v.Node
	return nil
}

// Decode implements Op.
func (v GetVersion) Decode(r *Response) (VersionResult, error) {
	return VersionResult{Result: r.Result, Version: string(r.Value)}, nil
}
