package kv

import (
	"encoding/binary"
	"math"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Meta is what a write with metadata says about the document beside its value: another cluster's truth, as a rule.
type Meta struct {
	Flags    uint32
	Expiry   time.Time // zero for none; of a tombstone the time of its deletion
	RevSeqno uint64
	// StoreCAS is the CAS that the document gets.
	StoreCAS uint64
	// Options of the write (kv_engine).
	SkipConflictResolution bool // write whatever the server has
	ForceAccept            bool // although the bucket resolves conflicts by time
	RegenerateCAS          bool // the server makes a CAS; needs SkipConflictResolution
	IsExpiration           bool // the deletion is an expiration
	// Extra is extended metadata, which follows the value.
	Extra []byte
}

// set loads the extras, and puts the extended metadata behind the value.
func (m *Meta) set(r *call.Request, value []byte) error {
	exp, err := m.expiry()
	if err != nil {
		return err
	}
	if m.RegenerateCAS && !m.SkipConflictResolution {
		return badArgument("options", "regenerate the CAS without skipping the resolution of conflicts")
	}
	if len(m.Extra) > math.MaxUint16 {
		return outOfRange("extra metadata length", int64(len(m.Extra)), math.MaxUint16)
	}
	var extras [30]byte
	binary.BigEndian.PutUint32(extras[0:], m.Flags)
	binary.BigEndian.PutUint32(extras[4:], exp)
	binary.BigEndian.PutUint64(extras[8:], m.RevSeqno)
	binary.BigEndian.PutUint64(extras[16:], m.StoreCAS)
	n := 24
	if options := m.options(); options != 0 {
		binary.BigEndian.PutUint32(extras[n:], options)
		n += 4
	}
	r.Value = value
	if len(m.Extra) > 0 {
		binary.BigEndian.PutUint16(extras[n:], uint16(len(m.Extra)))
		n += 2
		r.Value = append(append(make([]byte, 0, len(value)+len(m.Extra)), value...), m.Extra...)
	}
	r.SetExtras(extras[:n])
	return nil
}

// options are the options as the protocol has them.
func (m *Meta) options() (bits uint32) {
	for _, o := range [...]struct {
		set bool
		bit uint32
	}{{m.SkipConflictResolution, 0x01}, {m.ForceAccept, 0x02}, {m.RegenerateCAS, 0x04}, {m.IsExpiration, 0x10}} {
		if o.set {
			bits |= o.bit
		}
	}
	return bits
}

// expiry is a Unix time always: with metadata there is no "from now".
func (m *Meta) expiry() (uint32, error) {
	if m.Expiry.IsZero() {
		return 0, nil
	}
	u := m.Expiry.Unix()
	if u <= 0 || u > math.MaxUint32 {
		return 0, outOfRange("expiry as a Unix time", u, math.MaxUint32)
	}
	return uint32(u), nil
}

// SetWithMeta writes a document with its metadata, as another cluster has it. A server that resolves the conflict with
// its own version against the given one answers cberr.CASMismatch or cberr.DocumentExists.
type SetWithMeta struct {
	Common
	Key, Value []byte
	Datatype   memd.Datatype // of the value as it is given, which may have a section of extended attributes
	Meta       Meta
	CheckCAS   uint64 // replace only this version; 0 means whatever it is
}

// encode implements Op.
func (s SetWithMeta) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &s.Common)
	r.Opcode, r.Key, r.Datatype, r.CAS = memd.OpSetWithMeta, s.Key, s.Datatype, s.CheckCAS
	return mutationResult, s.Meta.set(r, s.Value)
}

// AddWithMeta writes a document that must not exist with its metadata: otherwise the error is cberr.DocumentExists.
type AddWithMeta struct {
	Common
	Key, Value []byte
	Datatype   memd.Datatype // as in SetWithMeta
	Meta       Meta
}

// encode implements Op.
func (a AddWithMeta) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &a.Common)
	r.Opcode, r.Key, r.Datatype = memd.OpAddWithMeta, a.Key, a.Datatype
	return mutationResult, a.Meta.set(r, a.Value)
}

// DeleteWithMeta makes a tombstone with its metadata, as another cluster has it.
type DeleteWithMeta struct {
	Common
	Key      []byte
	Value    []byte        // a section of extended attributes, or nothing
	Datatype memd.Datatype // as in SetWithMeta
	Meta     Meta
	CheckCAS uint64 // delete only this version; 0 means whatever it is
}

// encode implements Op.
func (d DeleteWithMeta) encode(r *call.Request) (decoder[MutationResult], error) {
	setCommon(r, &d.Common)
	r.Opcode, r.Key, r.Datatype, r.CAS = memd.OpDelWithMeta, d.Key, d.Datatype, d.CheckCAS
	return mutationResult, d.Meta.set(r, d.Value)
}
