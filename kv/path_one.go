package kv

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// LookupPath reads one path of a document in the oldest form of the protocol, one command a request. A path that is
// missing fails the call. LookupIn does the same for up to 16 paths.
type LookupPath struct {
	Common
	Key           []byte
	Spec          LookupSpec // not for the whole document
	AccessDeleted bool       // as in LookupIn
}

// encode implements Op.
func (l LookupPath) encode(r *call.Request) (decoder[LookupInResult], error) {
	setCommon(r, &l.Common)
	r.Opcode, r.Key = l.Spec.Op, l.Key
	var doc uint8
	if l.AccessDeleted {
		doc |= docAccessDeleted
	}
	return lookupPathResult(l.Spec.Path), setPath(r, l.Spec.Path, l.Spec.flags(), nil, doc, 0, false)
}

// onePath is the result of the only path of a request that has succeeded.
func onePath(path string, r *call.Response) []PathResult {
	return []PathResult{{Path: path, Value: r.Value}}
}

func lookupPathResult(path string) decoder[LookupInResult] {
	return func(r *call.Response) (LookupInResult, error) {
		return LookupInResult{Result: resultOf(r), Paths: onePath(path, r), Deleted: isDeleted(r.Status)}, nil
	}
}

// MutatePath changes one path of a document in the oldest form of the protocol, one command a request. MutateIn does
// the same for up to 16 paths, all or none; the fields mean what they mean there. CreateAsDeleted needs StoreUpsert or
// StoreInsert, and a path of an extended attribute.
type MutatePath struct {
	Common
	Key             []byte
	Spec            MutateSpec // not for the whole document
	Store           StoreSemantics
	Expiry          Expiry
	CAS             uint64 // 0 means whatever it is
	Durability      memd.DurabilityLevel
	PreserveExpiry  bool
	AccessDeleted   bool
	CreateAsDeleted bool
	Revive          bool
}

// encode implements Op.
func (m MutatePath) encode(r *call.Request) (decoder[MutateInResult], error) {
	setCommon(r, &m.Common)
	r.Opcode, r.Key = m.Spec.Op, m.Key
	exp, err := m.Expiry.wire()
	if err != nil {
		return nil, err
	}
	if m.PreserveExpiry && exp != 0 && m.Store != StoreUpsert {
		return nil, badArgument("preserve expiry", "given together with an expiry")
	}
	all := MutateIn{
		Store: m.Store, CAS: m.CAS, AccessDeleted: m.AccessDeleted, CreateAsDeleted: m.CreateAsDeleted,
		Revive: m.Revive,
	}
	doc, err := all.docFlags()
	if err != nil {
		return nil, err
	}
	if m.CreateAsDeleted { // with one path a server is stricter than with several
		switch {
		case m.Store == StoreReplace:
			return nil, badArgument("create as deleted", "needs upsert or insert semantics")
		case !m.Spec.Xattr:
			return nil, badArgument("create as deleted",
				"gives a document without a body, but the path is one of the body")
		}
		r.Require(memd.Features(0).With(memd.FeatureSubdocCreateAsDeleted))
	}
	if m.Revive {
		r.Own().Capability = call.CapabilityReviveDocument
	}
	r.CAS, r.Durability, r.PreserveExpiry = m.CAS, m.Durability, m.PreserveExpiry
	return mutatePathResult(m.Spec.Path), setPath(r, m.Spec.Path, m.Spec.flags(), m.Spec.Value, doc, exp, true)
}

// setPath loads one command: the path's length and flags, the expiry and the document's flags where there are some, and
// the path and the value behind each other.
func setPath(r *call.Request, path string, flags uint8, value []byte, doc uint8, expiry uint32, mutates bool,
) error {
	if !call.IsOnePath(r.Opcode) {
		return badArgument("path 0", r.Opcode.String()+" is not a request of its own")
	}
	if err := checkPath(0, r.Opcode, path, flags, value, mutates); err != nil {
		return err
	}
	if extra := doc &^ pathOps[r.Opcode].docs; extra != 0 {
		return &ArgumentError{
			Field: "flags of the document", Reason: r.Opcode.String() + " does not take them all", Value: int64(extra),
			Kind: cberr.InvalidArgument,
		}
	}
	r.Require(pathNeeds(r.Opcode, flags, value))
	r.Value = append(append(make([]byte, 0, len(path)+len(value)), path...), value...)
	head := [3]byte{2: flags}
	binary.BigEndian.PutUint16(head[:], uint16(len(path)))
	setExpiryAndDoc(r, len(head), head[:], expiry, doc)
	return nil
}

func mutatePathResult(path string) decoder[MutateInResult] {
	return func(r *call.Response) (MutateInResult, error) {
		m, err := mutationResult(r)
		return MutateInResult{MutationResult: m, Paths: onePath(path, r), Deleted: isDeleted(r.Status)}, err
	}
}
