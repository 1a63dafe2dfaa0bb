package kv

import "github.com/couchcore/couchcore/memd"

// NewPathResult makes a PathResult with the caller's index of its spec.
func NewPathResult(i int, path string, st memd.Status, value []byte) PathResult {
	return PathResult{Path: path, Status: st, Value: value, index: uint8(i)}
}
