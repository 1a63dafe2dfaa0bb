package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// PathResult is what became of one path of a sub-document request.
type PathResult struct {
	Path   string
	Status memd.Status
	// Value is what the path holds, as JSON; nothing for a command without a result. It is the caller's, and shares
	// memory with the other results of its request.
	Value []byte

	index uint8
}

// Err is why there is no value: nil, or a *PathError.
func (p PathResult) Err() error {
	if p.Status == memd.StatusSuccess {
		return nil
	}
	return &PathError{Index: int(p.index), Path: p.Path, Status: p.Status, Kind: call.PathKind(p.Status)}
}

// Exists reports whether the path is there. The error is that of a document in which nothing can be looked up.
func (p PathResult) Exists() (bool, error) {
	if p.Status == memd.StatusSubdocPathNotFound {
		return false, nil
	}
	return p.Status == memd.StatusSuccess, p.Err()
}

// isDeleted reports a success on a tombstone.
func isDeleted(st memd.Status) bool {
	return st == memd.StatusSubdocSuccessDeleted || st == memd.StatusSubdocMultiPathFailureDeleted
}
