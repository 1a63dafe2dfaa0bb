package kv

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// MutateSpec changes one path of a document. InsertPath and its like make them.
type MutateSpec struct {
	Op    memd.Opcode // a sub-document command, or OpSet or OpDelete for the document itself
	Path  string
	Value []byte // JSON; for the array commands one or more values with commas between; lent until the call finishes
	Xattr bool   // the path is one of an extended attribute
	// CreateParents creates the objects that lead to the path.
	CreateParents bool
	ExpandMacros  bool // a value that is a macro is replaced by what it stands for
	Binary        bool // the value of an attribute is bytes, not JSON
}

func (s MutateSpec) attribute() bool { return s.Xattr }

func (s MutateSpec) flags() (f uint8) {
	for _, b := range [...]struct {
		set bool
		bit uint8
	}{{s.CreateParents, pathMkdir}, {s.Xattr, pathXattr}, {s.ExpandMacros, pathMacros}, {s.Binary, pathBinary}} {
		if b.set {
			f |= b.bit
		}
	}
	return f
}

// InsertPath sets a path that must not be there.
func InsertPath(path string, value []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocDictAdd, Path: path, Value: value}
}

// UpsertPath sets a path whether or not it is there.
func UpsertPath(path string, value []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocDictUpsert, Path: path, Value: value}
}

// ReplacePath sets a path that must be there. The empty path is the whole document.
func ReplacePath(path string, value []byte) MutateSpec {
	if path == "" {
		return MutateSpec{Op: memd.OpSet, Value: value}
	}
	return MutateSpec{Op: memd.OpSubdocReplace, Path: path, Value: value}
}

// RemovePath removes a path that must be there. The empty path is the whole document; no other spec for its body may
// stand beside it.
func RemovePath(path string) MutateSpec {
	if path == "" {
		return MutateSpec{Op: memd.OpDelete}
	}
	return MutateSpec{Op: memd.OpSubdocDelete, Path: path}
}

// ArrayAppend adds values at the end of an array. The empty path is the document itself.
func ArrayAppend(path string, values []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocArrayPushLast, Path: path, Value: values}
}

// ArrayPrepend adds values at the start of an array. The empty path is the document itself.
func ArrayPrepend(path string, values []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocArrayPushFirst, Path: path, Value: values}
}

// ArrayInsert adds values before the element that the path names.
func ArrayInsert(path string, values []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocArrayInsert, Path: path, Value: values}
}

// ArrayAddUnique adds a value to an array of primitive values that must not have it. The empty path is the document
// itself.
func ArrayAddUnique(path string, value []byte) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocArrayAddUnique, Path: path, Value: value}
}

// IncrementPath adds to a number, which is created when it is missing. The path's result is the new number.
func IncrementPath(path string, delta int64) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocCounter, Path: path, Value: strconv.AppendInt(nil, delta, 10)}
}

// ReplaceBody makes the value of an extended attribute the document's body. The attribute stays; another spec can
// remove it behind.
func ReplaceBody(xattr string) MutateSpec {
	return MutateSpec{Op: memd.OpSubdocReplaceBodyWithXattr, Path: xattr, Xattr: true}
}

// StoreSemantics says what MutateIn does about the document as a whole.
type StoreSemantics uint8

// What MutateIn does about the document as a whole.
const (
	StoreReplace StoreSemantics = iota // it must exist
	StoreUpsert                        // it is created when it does not
	StoreInsert                        // it must not exist
)

// MutateIn changes 1 to 16 paths of a document at once, or as many as core.Config.KV.MaxPaths allows, all or none. The
// first that fails fails the call: the error wraps a *PathError with the caller's index and path. Another version than
// CAS names is cberr.CASMismatch.
type MutateIn struct {
	Common
	Key        []byte
	Specs      []MutateSpec // in any order; extended attributes are written first; lent until the call finishes
	Store      StoreSemantics
	Expiry     Expiry
	CAS        uint64 // 0 means whatever it is
	Durability memd.DurabilityLevel

	// Flags are the document's afterwards; nil keeps those that it has. A server that does not know that refuses the
	// request as an invalid argument.
	Flags *uint32
	// PreserveExpiry keeps the expiry that the document has. With StoreUpsert, Expiry is then for a document that is
	// not there yet; otherwise it excludes Expiry.
	PreserveExpiry bool
	// AccessDeleted works on the tombstone of a deleted document, too.
	AccessDeleted bool
	// CreateAsDeleted makes a document that StoreUpsert or StoreInsert creates a tombstone, which has extended
	// attributes alone: a path in its body fails.
	CreateAsDeleted bool
	// Revive makes a document of a tombstone. It needs AccessDeleted.
	Revive bool
}

// MutateInResult is the result of MutateIn.
type MutateInResult struct {
	MutationResult
	Paths   []PathResult // in the order of the specs; those of counters have a value
	Deleted bool         // the document is a tombstone
}

// docFlags are the flags of the document, or why they do not go together.
func (m *MutateIn) docFlags() (f uint8, err error) {
	switch m.Store {
	case StoreReplace:
	case StoreUpsert:
		f = docMake
	case StoreInsert:
		f = docAdd
	default:
		return 0, badArgument("store semantics", "are unknown")
	}
	if m.AccessDeleted {
		f |= docAccessDeleted
	}
	if m.CreateAsDeleted {
		f |= docCreateAsDeleted
	}
	if m.Revive {
		f |= docRevive
	}
	return f, checkDocFlags(f, m.CAS)
}

func checkDocFlags(f uint8, cas uint64) error {
	switch {
	case f&docAdd != 0 && cas != 0:
		return badArgument("cas", "given for a document that must not exist")
	case f&docRevive != 0 && f&docAccessDeleted == 0:
		return badArgument("revive", "needs access to deleted documents")
	case f&docRevive != 0 && f&docCreateAsDeleted != 0:
		return badArgument("revive", "given together with create as deleted")
	}
	return nil
}

// checkBodies refuses what only all specs together show.
func (m *MutateIn) checkBodies() error {
	bodies, removes := 0, false
	for _, s := range m.Specs {
		if !s.Xattr {
			bodies++
			removes = removes || s.Op == memd.OpDelete
		}
	}
	if removes && bodies > 1 {
		return badArgument("paths", "change the body beside its removal")
	}
	return nil
}

// mutateHead is a mutation's opcode, flags and lengths of path and value on the wire.
const mutateHead = 1 + 1 + 2 + 4

// encode implements Op.
func (m MutateIn) encode(r *call.Request) (decoder[MutateInResult], error) {
	setCommon(r, &m.Common)
	r.Opcode = memd.OpSubdocMultiMutation
	exp, err := m.Expiry.wire()
	if err != nil {
		return nil, err
	}
	if m.PreserveExpiry && exp != 0 && m.Store != StoreUpsert {
		return nil, badArgument("preserve expiry", "given together with an expiry")
	}
	doc, err := m.docFlags()
	if err != nil {
		return nil, err
	}
	if err := checkPathCount(r, len(m.Specs)); err != nil {
		return nil, err
	}
	size := 0
	for i, s := range m.Specs {
		if err := checkPath(i, s.Op, s.Path, s.flags(), s.Value, true); err != nil {
			return nil, err
		}
		if size += mutateHead + len(s.Path) + len(s.Value); len(s.Value) > MaxValueLen {
			return nil, &ArgumentError{
				Field: "value length", Value: int64(len(s.Value)), Limit: MaxValueLen, Kind: cberr.ValueTooLarge,
			}
		}
	}
	if err := m.checkBodies(); err != nil {
		return nil, err
	}
	r.Value = r.Body(size)
	order := wireOrder(m.Specs)
	r.SetPaths(len(m.Specs), order)
	for place := range m.Specs {
		s := &m.Specs[at(order, place)]
		r.Require(pathNeeds(s.Op, s.flags(), s.Value))
		r.Value = append(r.Value, byte(s.Op), s.flags())
		r.Value = binary.BigEndian.AppendUint16(r.Value, uint16(len(s.Path)))
		r.Value = binary.BigEndian.AppendUint32(r.Value, uint32(len(s.Value)))
		r.Value = append(r.Value, s.Path...)
		r.Value = append(r.Value, s.Value...)
	}
	r.Key, r.CAS, r.Durability, r.PreserveExpiry = m.Key, m.CAS, m.Durability, m.PreserveExpiry
	if m.CreateAsDeleted {
		r.Require(memd.Features(0).With(memd.FeatureSubdocCreateAsDeleted))
	}
	if m.Revive {
		r.Own().Capability = call.CapabilityReviveDocument
	}
	var head [8]byte
	n := 0
	if m.Flags != nil { // they come behind an expiry, 0 or not
		binary.BigEndian.PutUint32(head[4:], *m.Flags)
		n = len(head)
	}
	setExpiryAndDoc(r, 0, head[:n], exp, doc)
	return mutateInResult(m.Specs), nil
}

// setExpiryAndDoc makes head the extras, with an expiry, unless it is 0, at the place at of them, and behind both the
// flags for the document, unless they are 0.
func setExpiryAndDoc(r *call.Request, at int, head []byte, expiry uint32, doc uint8) {
	var extras [16]byte
	n := copy(extras[:], head)
	if expiry != 0 {
		binary.BigEndian.PutUint32(extras[at:], expiry)
		n = max(n, at+4)
	}
	if doc != 0 {
		extras[n] = doc
		n++
	}
	r.SetExtras(extras[:n])
}

// mutateInResult gives what makes the result of a mutation of specs. Only commands that return something are in the
// answer: index, status, length and value each.
func mutateInResult(specs []MutateSpec) decoder[MutateInResult] {
	return func(r *call.Response) (MutateInResult, error) {
		res := MutateInResult{Paths: make([]PathResult, len(specs)), Deleted: isDeleted(r.Status)}
		for i := range specs {
			res.Paths[i].Path, res.Paths[i].index = specs[i].Path, uint8(i)
		}
		order := wireOrder(specs)
		for tail := r.Value; len(tail) > 0; {
			if len(tail) < 7 {
				return MutateInResult{}, call.Malformed(r, "value", len(r.Value)-len(tail)+7)
			}
			place, n := int(tail[0]), int64(binary.BigEndian.Uint32(tail[3:]))
			if n > int64(len(tail)-7) {
				return MutateInResult{}, call.Malformed(r, "value", clampInt(int64(len(r.Value)-len(tail)+7)+n))
			}
			if place >= len(specs) {
				return MutateInResult{}, &ResponseError{
					Opcode: r.Opcode, Reason: fmt.Sprintf("names path %d of %d", place, len(specs)),
				}
			}
			p := &res.Paths[at(order, place)]
			p.Status = memd.Status(binary.BigEndian.Uint16(tail[1:]))
			p.Value = tail[7 : 7+n : 7+n]
			tail = tail[7+n:]
		}
		var err error
		res.MutationResult, err = mutationResult(r)
		return res, err
	}
}

func clampInt(n int64) int { return int(min(n, math.MaxInt32)) }
