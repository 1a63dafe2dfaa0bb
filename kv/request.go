package kv

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Limits of a request, checked before anything is sent (spec of the server: BinaryProtocol.md, Collections.md).
const (
	MaxKeyLen           = 250      // in the default collection
	MaxKeyLenCollection = 246      // in any other
	MaxValueLen         = 20 << 20 // of a document
	MaxUserLen          = 255 - 32 // of an impersonated user, so that it fits beside the other framing extras
)

// Common are the fields that every operation has. The zero value means: default collection, the cluster's strategy,
// the cluster's timeout, nobody else's behalf.
type Common struct {
	Scope      string // "" means _default
	Collection string // "" means _default

	// Retry overrides the cluster's strategy for this call; nil inherits. It never overrides what keeps a write from
	// being applied twice.
	Retry retry.Strategy

	// Timeout bounds the call from its start, all retries included; 0 means the cluster's timeout for such a call.
	// A deadline of the context that comes earlier wins.
	Timeout time.Duration

	// OnBehalfOf names the user whose privileges the server is to check.
	OnBehalfOf string
}

// Request is an operation as data: what Op.Encode fills and what the connection puts on the wire, again for each
// attempt. Key, Value and Into are lent by the caller until the call finishes.
type Request struct {
	Common
	Opcode     memd.Opcode
	Key, Value []byte
	CAS        uint64
	Datatype   memd.Datatype
	Durability memd.DurabilityLevel
	Replica    int // which replica answers, from 1; 0 is the active
	Wrap       bool
	Pinned     bool
	Node       int    // with Pinned: the node's index that must answer
	ByVBucket  bool   // VBucket says where to, not a key
	VBucket    uint16 // with ByVBucket
	Capability string // what the bucket must be able to do, "" for nothing
	// ServerGroup is the only group of nodes that may answer a request to a replica; "" means any.
	ServerGroup string
	// Connection is the connection that must carry the request, as Result.Connection names it; "" means any.
	Connection string

	PreserveExpiry bool
	Hedge          *Hedge // reads only; nil inherits

	// Into receives a value that fits the read buffer, appended; nil allocates.
	Into []byte

	extras    [24]byte
	extrasLen uint8
}

// SetExtras copies up to 24 bytes as the request's extras. A length that the opcode's row does not name fails the call.
func (r *Request) SetExtras(b []byte) {
	r.extrasLen = uint8(copy(r.extras[:], b))
}

// SetExtras32 sets extras of four bytes.
func (r *Request) SetExtras32(v uint32) {
	binary.BigEndian.PutUint32(r.extras[:], v)
	r.extrasLen = 4
}

// SetExtras64 sets extras of two 32-bit numbers.
func (r *Request) SetExtras64(a, b uint32) {
	binary.BigEndian.PutUint32(r.extras[:], a)
	binary.BigEndian.PutUint32(r.extras[4:], b)
	r.extrasLen = 8
}

// Extras is the request's extras; it aliases r.
func (r *Request) Extras() []byte { return r.extras[:r.extrasLen] }

// ArgumentError says which argument of an operation is wrong and what its limit is. It unwraps to the kind of the
// failure: invalid argument, value too large, or feature not available.
type ArgumentError struct {
	Field  string
	Value  int64 // its length or number
	Limit  int64
	Reason string // for what is not a matter of size
	Kind   *cberr.Kind
}

func (e *ArgumentError) Error() string {
	if e.Reason != "" {
		return fmt.Sprintf("%s: %s", e.Field, e.Reason)
	}
	return fmt.Sprintf("%s is %d, limit %d", e.Field, e.Value, e.Limit)
}

func (e *ArgumentError) Unwrap() error { return e.Kind }

func badArgument(field, reason string) error {
	return &ArgumentError{Field: field, Reason: reason, Kind: cberr.InvalidArgument}
}

// InDefaultCollection reports whether the request names the default collection.
func (r *Request) InDefaultCollection() bool {
	return (r.Scope == "" || r.Scope == "_default") && (r.Collection == "" || r.Collection == "_default")
}

// validate checks what no server needs to be asked about.
func (r *Request) validate(s *Spec) error {
	if s.Has(Keyed) {
		limit := MaxKeyLen
		if !r.InDefaultCollection() {
			limit = MaxKeyLenCollection
		}
		switch {
		case len(r.Key) == 0:
			return &ArgumentError{Field: "key", Limit: int64(limit), Reason: fmt.Sprintf("is empty, 1 to %d bytes allowed", limit), Kind: cberr.InvalidArgument}
		case len(r.Key) > limit:
			return &ArgumentError{Field: "key length", Value: int64(len(r.Key)), Limit: int64(limit), Kind: cberr.InvalidArgument}
		}
	}
	switch {
	case !slices.Contains(s.ReqExtras, int(r.extrasLen)): // only an operation from elsewhere can have that
		return badArgument("extras", fmt.Sprintf("have %d bytes, %s takes %v", r.extrasLen, s.Name, s.ReqExtras))
	case r.Datatype&^memd.DatatypeJSON != 0:
		return badArgument("datatype", "is "+r.Datatype.String()+", only json can be marked")
	case len(r.Value) > MaxValueLen:
		return &ArgumentError{Field: "value length", Value: int64(len(r.Value)), Limit: MaxValueLen, Kind: cberr.ValueTooLarge}
	case r.Timeout < 0:
		return badArgument("timeout", "is negative")
	case r.Durability > memd.DurabilityPersistToMajority:
		return &ArgumentError{Field: "durability level", Value: int64(r.Durability), Limit: int64(memd.DurabilityPersistToMajority), Kind: cberr.InvalidArgument}
	case r.Durability != 0 && !s.Has(Durable):
		return badArgument("durability level", "not accepted by "+s.Name)
	case r.PreserveExpiry && !s.Has(PreservesExpiry):
		return badArgument("preserve expiry", "not accepted by "+s.Name)
	case s.Has(WantsCAS) && r.CAS == 0:
		return badArgument("cas", s.Name+" needs the CAS of the lock")
	case len(r.OnBehalfOf) > MaxUserLen:
		return &ArgumentError{Field: "on behalf of length", Value: int64(len(r.OnBehalfOf)), Limit: MaxUserLen, Kind: cberr.InvalidArgument}
	}
	return validateNames(r)
}

func validateNames(r *Request) error {
	for _, n := range [...]struct{ field, name string }{{"scope", r.Scope}, {"collection", r.Collection}} {
		if len(n.name) > 251 {
			return &ArgumentError{Field: n.field + " name length", Value: int64(len(n.name)), Limit: 251, Kind: cberr.InvalidArgument}
		}
		for i := 0; i < len(n.name); i++ {
			c := n.name[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '%') {
				return badArgument(n.field+" name", fmt.Sprintf("byte %d is not one of A-Z a-z 0-9 _ - %%", i))
			}
		}
	}
	return nil
}

// Wire is what a request's form depends on besides its own fields: the connection's features and the attempt's route.
type Wire struct {
	Features     memd.Features
	Opaque       uint32
	VBucket      uint16
	CollectionID uint32
	DurabilityMS uint32

	Endpoint, Local string // the connection's node and id, for the call's errors
}

// FeatureError means that the chosen connection has not negotiated what a request needs. It unwraps to
// cberr.FeatureNotAvailable.
type FeatureError struct{ Feature memd.Feature }

func (e *FeatureError) Error() string {
	return "the node does not grant the feature " + e.Feature.String()
}

func (e *FeatureError) Unwrap() error { return cberr.FeatureNotAvailable }

// AppendTo appends the request's wire form to dst. It is repeatable, runs no code of a user's, and gives dst back
// unchanged with an error when the connection lacks a feature or a length does not fit.
func (r *Request) AppendTo(dst []byte, w *Wire) ([]byte, error) {
	var frames []byte
	if r.Durability != 0 || r.PreserveExpiry || r.OnBehalfOf != "" {
		var buf [280]byte
		var err error
		if frames, err = r.appendFrames(buf[:0], w); err != nil {
			return dst, err
		}
	}
	var prefix [5]byte
	pre := prefix[:0]
	keyed := len(r.Key) > 0 && specs[r.Opcode] != nil && specs[r.Opcode].Traits&CollectionAware != 0
	if keyed {
		switch {
		case w.Features.Has(memd.FeatureCollections):
			pre = memd.AppendLEB128(pre, w.CollectionID)
		case w.CollectionID != 0:
			return dst, &FeatureError{memd.FeatureCollections}
		}
	}
	extras := r.extras[:r.extrasLen]
	if r.Opcode == memd.OpGetClusterConfig && !w.Features.Has(memd.FeatureGetClusterConfigWithVersion) {
		extras = nil // the version we know is only a hint, and this node would refuse it
	}
	h := memd.Header{
		Magic: memd.MagicReq, Opcode: r.Opcode, Datatype: r.Datatype & memd.DatatypeJSON, VBucketOrStatus: w.VBucket,
		Opaque: w.Opaque, CAS: r.CAS, FramesLen: len(frames), ExtrasLen: len(extras),
		KeyLen: len(pre) + len(r.Key),
	}
	if !w.Features.Has(memd.FeatureJSON) {
		h.Datatype = 0
	}
	if h.FramesLen > 0 {
		h.Magic = memd.MagicReqExt
	}
	if h.KeyLen > 255 || h.FramesLen > 255 {
		return dst, &ArgumentError{Field: "encoded key length", Value: int64(h.KeyLen), Limit: 255, Kind: cberr.InvalidArgument}
	}
	h.BodyLen = h.FramesLen + h.ExtrasLen + h.KeyLen + len(r.Value)
	dst = memd.AppendHeader(dst, h)
	dst = append(dst, frames...)
	dst = append(dst, extras...)
	dst = append(dst, pre...)
	dst = append(dst, r.Key...)
	return append(dst, r.Value...), nil
}

func (r *Request) appendFrames(frames []byte, w *Wire) ([]byte, error) {
	if !w.Features.Has(memd.FeatureAltRequest) {
		return frames, &FeatureError{memd.FeatureAltRequest}
	}
	if r.Durability != 0 {
		if !w.Features.Has(memd.FeatureSyncReplication) {
			return frames, &FeatureError{memd.FeatureSyncReplication}
		}
		frames = memd.AppendDurability(frames, r.Durability, w.DurabilityMS)
	}
	if r.PreserveExpiry {
		if !w.Features.Has(memd.FeaturePreserveTTL) {
			return frames, &FeatureError{memd.FeaturePreserveTTL}
		}
		frames, _ = memd.AppendFrame(frames, memd.FramePreserveTTL, nil)
	}
	if r.OnBehalfOf != "" {
		var err error
		var user [MaxUserLen]byte
		if frames, err = memd.AppendFrame(frames, memd.FrameImpersonateUser, user[:copy(user[:], r.OnBehalfOf)]); err != nil {
			return frames, err
		}
	}
	return frames, nil
}

// wireSize is an upper bound of the request's wire form.
func (r *Request) wireSize() int {
	return memd.HeaderLen + 24 + 5 + 16 + len(r.OnBehalfOf) + len(r.Key) + len(r.Value)
}
