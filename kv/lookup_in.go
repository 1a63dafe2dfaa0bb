package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// LookupSpec asks for one path of a document. GetPath, ExistsPath, CountPath and WholeDocument make them.
type LookupSpec struct {
	Op    memd.Opcode // OpSubdocGet, OpSubdocExists, OpSubdocGetCount, or OpGet for the document itself
	Path  string
	Xattr bool // the path is one of an extended attribute, which may be virtual
	// Binary gives the attribute's bytes instead of a text that encodes them.
	Binary bool
}

// GetPath asks for what a path holds. The empty path is the whole document.
func GetPath(path string) LookupSpec {
	if path == "" {
		return WholeDocument()
	}
	return LookupSpec{Op: memd.OpSubdocGet, Path: path}
}

// ExistsPath asks whether a path is there; PathResult.Exists has the answer.
func ExistsPath(path string) LookupSpec { return LookupSpec{Op: memd.OpSubdocExists, Path: path} }

// CountPath asks for the number of elements of an array or object. The empty path is the document itself.
func CountPath(path string) LookupSpec { return LookupSpec{Op: memd.OpSubdocGetCount, Path: path} }

// WholeDocument asks for the document beside its paths.
func WholeDocument() LookupSpec { return LookupSpec{Op: memd.OpGet} }

// GetXattr asks for a path of an extended attribute, which may be virtual.
func GetXattr(path string) LookupSpec {
	return LookupSpec{Op: memd.OpSubdocGet, Path: path, Xattr: true}
}

func (s LookupSpec) attribute() bool { return s.Xattr }

func (s LookupSpec) flags() (f uint8) {
	if s.Xattr {
		f |= pathXattr
	}
	if s.Binary {
		f |= pathBinary
	}
	return f
}

// LookupIn reads 1 to 16 paths of a document at once, or as many as core.Config.KV.MaxPaths allows. A path that is
// missing fails alone: its PathResult says so, and the call succeeds. It is idempotent.
type LookupIn struct {
	Common
	Key   []byte
	Specs []LookupSpec // in any order; lent until the call finishes
	// AccessDeleted reads the tombstone of a deleted document, too: its extended attributes.
	AccessDeleted bool
	// Replica says which replica answers, from 1, as in GetReplica; 0 is the active copy. LookupInAnyReplica and
	// LookupInAllReplicas ask all copies.
	Replica     int
	Wrap        bool // as in GetReplica
	ServerGroup string
}

// LookupInResult is the result of LookupIn.
type LookupInResult struct {
	Result
	Paths       []PathResult // in the order of the specs
	Deleted     bool         // the document is a tombstone
	FromReplica bool         // a replica has answered, which may lag
}

// encode implements Op.
func (l LookupIn) encode(r *call.Request) (decoder[LookupInResult], error) {
	setCommon(r, &l.Common)
	r.Opcode = memd.OpSubdocMultiLookup
	if err := setReplica(r, l.Replica, l.ServerGroup); err != nil {
		return nil, err
	}
	r.Key, r.Wrap = l.Key, l.Wrap
	var doc uint8
	if l.AccessDeleted {
		doc |= docAccessDeleted
	}
	if l.Replica > 0 {
		doc |= docReplicaRead
		r.Own().Capability = call.CapabilityReplicaLookup
	}
	return lookupResult(l.Specs, l.Replica > 0), setLookup(r, l.Specs, doc)
}

// lookupHead is a lookup's opcode, flags and length of path on the wire.
const lookupHead = 1 + 1 + 2

func setLookup(r *call.Request, specs []LookupSpec, doc uint8) error {
	if err := checkPathCount(r, len(specs)); err != nil {
		return err
	}
	size := 0
	for i, s := range specs {
		if err := checkPath(i, s.Op, s.Path, s.flags(), nil, false); err != nil {
			return err
		}
		size += lookupHead + len(s.Path)
	}
	r.Value = r.Body(size)
	order := wireOrder(specs)
	for place := range specs {
		s := &specs[at(order, place)]
		r.Require(pathNeeds(s.Op, s.flags(), nil))
		r.Value = append(r.Value, byte(s.Op), s.flags())
		r.Value = binary.BigEndian.AppendUint16(r.Value, uint16(len(s.Path)))
		r.Value = append(r.Value, s.Path...)
	}
	if doc != 0 {
		r.SetExtras([]byte{doc})
	}
	return nil
}

// lookupResult gives what makes the result of a lookup of specs.
func lookupResult(specs []LookupSpec, replica bool) decoder[LookupInResult] {
	return func(r *call.Response) (LookupInResult, error) {
		paths, err := lookupPaths(r, specs)
		if err != nil {
			return LookupInResult{}, err
		}
		return LookupInResult{
			Result: resultOf(r), Paths: paths, Deleted: isDeleted(r.Status), FromReplica: replica,
		}, nil
	}
}

// lookupPaths reads an answer: a status, a length and a value for each spec, in the order of the request.
func lookupPaths(r *call.Response, specs []LookupSpec) ([]PathResult, error) {
	paths := make([]PathResult, len(specs))
	order := wireOrder(specs)
	tail := r.Value
	for place := range specs {
		if len(tail) < 6 {
			return nil, call.Malformed(r, "value", len(r.Value)-len(tail)+6)
		}
		n := int64(binary.BigEndian.Uint32(tail[2:]))
		if n > int64(len(tail)-6) {
			return nil, call.Malformed(r, "value", clampInt(int64(len(r.Value)-len(tail)+6)+n))
		}
		i := at(order, place)
		p := &paths[i]
		p.Path, p.index, p.Status = specs[i].Path, uint8(i), memd.Status(binary.BigEndian.Uint16(tail))
		if n > 0 {
			p.Value = tail[6 : 6+n : 6+n]
		}
		tail = tail[6+n:]
	}
	if len(tail) > 0 {
		return nil, call.Malformed(r, "value", len(r.Value)-len(tail))
	}
	return paths, nil
}
