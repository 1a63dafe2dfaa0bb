package call

import (
	"encoding/binary"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
)

// mutateHead is a mutation's opcode, flags and lengths of path and value on the wire.
const mutateHead = 1 + 1 + 2 + 4

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

// PathKind is what a status means for one path.
func PathKind(st memd.Status) *cberr.Kind {
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
		if len(body) < 3 || int(body[0]) >= r.Own().paths {
			return nil
		}
		st = memd.Status(binary.BigEndian.Uint16(body[1:]))
		i := int(body[0])
		if order := r.Own().order; order != nil {
			i = int(order[i])
		}
		return &PathError{Index: i, Status: st, Kind: PathKind(st), Path: r.wirePath(int(body[0]))}
	case IsOnePath(r.Opcode) && r.extrasLen >= 3 && r.Opcode != memd.OpSubdocMultiLookup &&
		st >= memd.StatusSubdocPathNotFound && st <= memd.StatusSubdocFieldNotBinary:
		n := int(binary.BigEndian.Uint16(r.extras[:]))
		return &PathError{Status: st, Kind: PathKind(st), Path: string(r.Value[:min(n, len(r.Value))])}
	}
	return nil
}

// wirePath is the path in a certain place of an encoded mutation.
func (r *Request) wirePath(place int) string {
	for tail := r.Value; len(tail) >= mutateHead; place-- {
		n, v := int(binary.BigEndian.Uint16(tail[2:])), int(binary.BigEndian.Uint32(tail[4:]))
		if mutateHead+n+v > len(tail) {
			return ""
		}
		if place == 0 {
			return string(tail[mutateHead : mutateHead+n])
		}
		tail = tail[mutateHead+n+v:]
	}
	return ""
}

func multiPathFailure(st memd.Status) bool {
	return st == memd.StatusSubdocMultiPathFailure || st == memd.StatusSubdocMultiPathFailureDeleted
}

// IsOnePath reports the sub-document opcodes that are requests of their own.
func IsOnePath(op memd.Opcode) bool {
	return op >= memd.OpSubdocGet && op <= memd.OpSubdocReplaceBodyWithXattr &&
		op != memd.OpSubdocMultiLookup && op != memd.OpSubdocMultiMutation
}
