package kv

import (
	"encoding/binary"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
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
	return &PathError{Index: int(p.index), Path: p.Path, Status: p.Status, Kind: pathKind(p.Status)}
}

// Exists reports whether the path is there. The error is that of a document in which nothing can be looked up.
func (p PathResult) Exists() (bool, error) {
	if p.Status == memd.StatusSubdocPathNotFound {
		return false, nil
	}
	return p.Status == memd.StatusSuccess, p.Err()
}

// PathError is a sub-document command that failed: which of the caller's specs it was, and why. It unwraps to its kind.
// Its text holds the path.
type PathError struct {
	Index  int // of the spec, as the caller gave them
	Path   string
	Status memd.Status
	Kind   *cberr.Kind
}

func (e *PathError) Error() string {
	return fmt.Sprintf("path %d %q: %v (status 0x%02x %v)", e.Index, e.Path, e.Kind, uint16(e.Status), e.Status)
}

func (e *PathError) Unwrap() error { return e.Kind }

// pathKind is what a status means for one path.
func pathKind(st memd.Status) *cberr.Kind {
	if st == memd.StatusAccess {
		return cberr.XattrNoAccess
	}
	if r := rowOf(st); r != nil && r.kind != nil {
		return r.kind
	}
	return cberr.Couchbase
}

// pathError finds which command of a sub-document request failed, from the answer's body and the request itself; nil
// when the answer does not say.
func (r *Request) pathError(st memd.Status, body []byte) *PathError {
	switch {
	case r.Opcode == memd.OpSubdocMultiMutation && multiPathFailure(st):
		if len(body) < 3 || int(body[0]) >= int(r.paths) {
			return nil
		}
		st = memd.Status(binary.BigEndian.Uint16(body[1:]))
		return &PathError{Index: int(r.order[body[0]]), Status: st, Kind: pathKind(st), Path: r.wirePath(int(body[0]))}
	case isOnePath(r.Opcode) && r.extrasLen >= 3 && r.Opcode != memd.OpSubdocMultiLookup &&
		st >= memd.StatusSubdocPathNotFound && st <= memd.StatusSubdocFieldNotBinary:
		n := int(binary.BigEndian.Uint16(r.extras[:]))
		return &PathError{Status: st, Kind: pathKind(st), Path: string(r.Value[:min(n, len(r.Value))])}
	}
	return nil
}

// wirePath is the path in a certain place of an encoded mutation.
func (r *Request) wirePath(place int) string {
	for rest := r.Value; len(rest) >= mutateHead; place-- {
		n, v := int(binary.BigEndian.Uint16(rest[2:])), int(binary.BigEndian.Uint32(rest[4:]))
		if mutateHead+n+v > len(rest) {
			return ""
		}
		if place == 0 {
			return string(rest[mutateHead : mutateHead+n])
		}
		rest = rest[mutateHead+n+v:]
	}
	return ""
}

func multiPathFailure(st memd.Status) bool {
	return st == memd.StatusSubdocMultiPathFailure || st == memd.StatusSubdocMultiPathFailureDeleted
}

// isDeleted reports a success on a tombstone.
func isDeleted(st memd.Status) bool {
	return st == memd.StatusSubdocSuccessDeleted || st == memd.StatusSubdocMultiPathFailureDeleted
}

// isOnePath reports the sub-document opcodes that are requests of their own.
func isOnePath(op memd.Opcode) bool {
	return op >= memd.OpSubdocGet && op <= memd.OpSubdocReplaceBodyWithXattr &&
		op != memd.OpSubdocMultiLookup && op != memd.OpSubdocMultiMutation
}
