package call

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
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
	MaxReplicas         = 3        // that a bucket can have
	MaxPaths            = 16       // of a sub-document request
)

// Common are the fields that every operation has, as package kv has and describes them: a kv.Common converts to it.
type Common struct {
	Scope        string
	Collection   string
	Retry        retry.Strategy
	OnBehalfOf   string
	Timeout      time.Duration
	CollectionID uint32
	Block        bool
}

// Request is an operation as data: what the operation fills and what the connection puts on the wire, again for each
// attempt. Key, Value and Into are lent by the caller until the call finishes.
type Request struct {
	Opcode     memd.Opcode
	Datatype   memd.Datatype
	Durability memd.DurabilityLevel
	Wrap       bool
	Pinned     bool
	ByVBucket  bool   // VBucket says where to, not a key
	VBucket    uint16 // with ByVBucket
	AbsentOK   bool   // a missing document is an answer, not a failure

	PreserveExpiry bool
	KeepCompressed bool // a compressed value of the answer is left as it is

	extrasLen uint8
	packTried bool
	paths     uint8 // of a sub-document mutation: how many
	simple    bool  // see Simple

	// Into receives a value that fits the read buffer, appended; nil allocates.
	Into       []byte
	Key, Value []byte
	CAS        uint64
	extras     [maxReqExtras]byte
	Common
	Hedge *Hedge // reads only; nil inherits

	Replica    int           // which replica answers, from 1; 0 is the active
	Needs      memd.Features // without which a connection cannot carry the request
	Capability string        // what the bucket must be able to do, "" for nothing
	// Connection is the connection that must carry the request, as Result.Connection names it; "" means any.
	Connection string

	// ServerGroup is the only group of nodes that may answer a request to a replica; "" means any.
	ServerGroup string
	Node        int             // with Pinned: the node's index that must answer
	Verb        string          // what errors call the operation; "" means its opcode's name
	order       [MaxPaths]uint8 // the caller's index of each path
	packed      []byte          // the value, compressed; nil when it is sent as it is
}

// ValueLen is how long Value is.
func (r *Request) ValueLen() int { return len(r.Value) }

// Simple reports whether the request is for a key of the default collection, on the vbucket's active copy, and is on
// the wire no more than a header, extras, the key and the value, on every connection.
func (r *Request) Simple() bool { return r.simple }

// NotSimple has the request routed and written like those that are not Simple.
func (r *Request) NotSimple() { r.simple = false }

// isSimple says what Simple is to report, of a valid request with that row.
func (r *Request) isSimple(s *Spec) bool {
	return s.Has(Keyed) && s.Has(CollectionAware) && r.Opcode != memd.OpObserve && r.Datatype&^memd.DatatypeJSON == 0 &&
		r.Durability == 0 && !r.PreserveExpiry && r.OnBehalfOf == "" && r.InDefaultCollection() &&
		r.Replica == 0 && !r.Pinned && !r.ByVBucket && r.Needs == 0 && r.Capability == "" && r.Connection == ""
}

// maxReqExtras is more than any row of the table allows.
const maxReqExtras = 32

// SetExtras copies up to 32 bytes as the request's extras. A length that the opcode's row does not name fails the call.
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

// SetPaths says which of the caller's paths each of the n places of a sub-document mutation has.
func (r *Request) SetPaths(order [MaxPaths]uint8, n int) { r.order, r.paths = order, uint8(n) }

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

// BadArgument refuses an argument for another reason than its size.
func BadArgument(field, reason string) error {
	return &ArgumentError{Field: field, Reason: reason, Kind: cberr.InvalidArgument}
}

// InDefaultCollection reports whether the request names the default collection, and no other by its id.
func (r *Request) InDefaultCollection() bool {
	return r.CollectionID == 0 && (r.Scope == "" || r.Scope == "_default") && (r.Collection == "" ||
		r.Collection == "_default")
}

// hedgesAndRetries reports whether the request names both, of which only one can govern it.
func (r *Request) hedgesAndRetries() bool {
	return r.Hedge != nil && r.Hedge.MaxAttempts > 1 && r.Retry != nil
}

// Validate checks what no server needs to be asked about.
func (r *Request) Validate(s *Spec) error {
	if s.Has(Keyed) {
		limit := MaxKeyLen
		if !r.InDefaultCollection() {
			limit = MaxKeyLenCollection
		}
		switch {
		case len(r.Key) == 0:
			return &ArgumentError{
				Field: "key", Limit: int64(limit),
				Reason: fmt.Sprintf("is empty, 1 to %d bytes allowed", limit), Kind: cberr.InvalidArgument,
			}
		case len(r.Key) > limit:
			return &ArgumentError{
				Field: "key length", Value: int64(len(r.Key)), Limit: int64(limit),
				Kind: cberr.InvalidArgument,
			}
		}
	}
	switch {
	case !slices.Contains(s.ReqExtras, int(r.extrasLen)): // only an operation from elsewhere can have that
		return BadArgument("extras", fmt.Sprintf("have %d bytes, %s takes %v", r.extrasLen, s.Name, s.ReqExtras))
	case r.Datatype&^s.Datatypes != 0:
		return BadArgument("datatype", fmt.Sprintf("is %v, %s takes %v", r.Datatype, s.Name, s.Datatypes))
	case len(r.Value) > MaxValueLen:
		return &ArgumentError{
			Field: "value length", Value: int64(len(r.Value)), Limit: MaxValueLen,
			Kind: cberr.ValueTooLarge,
		}
	case r.Timeout < 0:
		return BadArgument("timeout", "is negative")
	case r.hedgesAndRetries():
		return BadArgument("hedge", "given together with a strategy (Retry): a call is hedged or retried, not both")
	case r.Durability > memd.DurabilityPersistToMajority:
		return &ArgumentError{
			Field: "durability level", Value: int64(r.Durability),
			Limit: int64(memd.DurabilityPersistToMajority), Kind: cberr.InvalidArgument,
		}
	case r.Durability != 0 && !s.Has(Durable):
		return BadArgument("durability level", "not accepted by "+s.Name)
	case r.PreserveExpiry && !s.Has(PreservesExpiry):
		return BadArgument("preserve expiry", "not accepted by "+s.Name)
	case s.Has(WantsCAS) && r.CAS == 0:
		return BadArgument("cas", s.Name+" needs the CAS of the lock")
	case len(r.OnBehalfOf) > MaxUserLen:
		return &ArgumentError{
			Field: "on behalf of length", Value: int64(len(r.OnBehalfOf)), Limit: MaxUserLen,
			Kind: cberr.InvalidArgument,
		}
	}
	return validateNames(&r.Common)
}

func validateNames(in *Common) error {
	if in.Scope == "" && in.Collection == "" {
		return nil
	}
	for _, n := range [...]struct{ field, name string }{{"scope", in.Scope}, {"collection", in.Collection}} {
		if len(n.name) > 251 {
			return &ArgumentError{
				Field: n.field + " name length", Value: int64(len(n.name)), Limit: 251,
				Kind: cberr.InvalidArgument,
			}
		}
		for i := 0; i < len(n.name); i++ {
			c := n.name[i]
			if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' ||
				c == '%') {
				return BadArgument(n.field+" name", fmt.Sprintf("byte %d is not one of A-Z a-z 0-9 _ - %%", i))
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

	Via *Via // the connection, for the call's errors
}

// FeatureError means that the chosen connection has not negotiated what a request needs. It unwraps to
// cberr.FeatureNotAvailable.
type FeatureError struct{ Feature memd.Feature }

func (e *FeatureError) Error() string {
	return "the node does not grant the feature " + e.Feature.String()
}

func (e *FeatureError) Unwrap() error { return cberr.FeatureNotAvailable }

// ConnectionGoneError means that a request is bound to a connection which has ended, or whose node no longer has the
// vbucket. It unwraps to cberr.RequestCanceled. The request was not sent.
type ConnectionGoneError struct{ Connection string }

func (e *ConnectionGoneError) Error() string {
	return "the connection " + e.Connection + " that the request belongs to is gone"
}

func (e *ConnectionGoneError) Unwrap() error { return cberr.RequestCanceled }

// AppendTo appends the request's wire form to dst. It is repeatable, runs no code of a user's, and gives dst back
// unchanged with an error when the connection lacks a feature or a length does not fit.
func (r *Request) AppendTo(dst []byte, w *Wire) ([]byte, error) {
	dst, value, err := r.appendHead(dst, w)
	return append(dst, value...), err
}

// appendHead is AppendTo but for the value, which is what must follow; nil with an error. It may be r's own.
func (r *Request) appendHead(dst []byte, w *Wire) (head, value []byte, err error) {
	if missing := r.Needs &^ w.Features; missing != 0 {
		return dst, nil, &FeatureError{memd.Feature(bits.TrailingZeros64(uint64(missing)))}
	}
	if r.Connection != "" && (w.Via == nil || r.Connection != w.Via.Local) {
		return dst, nil, &ConnectionGoneError{r.Connection}
	}
	var frames []byte
	if r.Durability != 0 || r.PreserveExpiry || r.OnBehalfOf != "" {
		var buf [280]byte
		if frames, err = r.appendFrames(buf[:0], w); err != nil {
			return dst, nil, err
		}
	}
	var prefix [5]byte
	pre, key, extras := prefix[:0], r.Key, r.extras[:r.extrasLen]
	s := specs[r.Opcode]
	if s != nil && s.Has(CollectionAware) {
		switch {
		case w.Features.Has(memd.FeatureCollections):
			if s.Has(Keyed) {
				pre = memd.AppendLEB128(pre, w.CollectionID)
			}
		case w.CollectionID != 0:
			return dst, nil, &FeatureError{memd.FeatureCollections}
		}
	}
	dt, err := r.wireDatatype(w)
	if err != nil {
		return dst, nil, err
	}
	value = r.Value
	if dt&^r.Datatype&memd.DatatypeSnappy != 0 {
		value = r.packed
	}
	var place [8]byte
	switch r.Opcode {
	case memd.OpGetClusterConfig:
		if !w.Features.Has(memd.FeatureGetClusterConfigWithVersion) {
			extras = nil // the version we know is only a hint, and this node would refuse it
		}
	case memd.OpGetRandomKey:
		extras = append(place[:0], extras...)
		if binary.BigEndian.PutUint32(extras, w.CollectionID); !w.Features.Has(memd.FeatureCollections) {
			extras = nil
		}
	case memd.OpObserve:
		value = appendObserved(make([]byte, 0, 4+len(pre)+len(key)), w.VBucket, pre, key)
		pre, key = nil, nil
	case memd.OpRangeScanCreate:
		value = appendScanCreate(nil, value, w.CollectionID)
	}
	h := memd.Header{
		Magic: memd.MagicReq, Opcode: r.Opcode, Datatype: dt, VBucketOrStatus: w.VBucket,
		Opaque: w.Opaque, CAS: r.CAS, FramesLen: len(frames), ExtrasLen: len(extras),
		KeyLen: len(pre) + len(key),
	}
	if h.FramesLen > 0 {
		h.Magic = memd.MagicReqExt
	}
	if h.KeyLen > 255 || h.FramesLen > 255 {
		return dst, nil, &ArgumentError{
			Field: "encoded key length", Value: int64(h.KeyLen), Limit: 255,
			Kind: cberr.InvalidArgument,
		}
	}
	h.BodyLen = h.FramesLen + h.ExtrasLen + h.KeyLen + len(value)
	dst = memd.AppendHeader(dst, h)
	dst = append(dst, frames...)
	dst = append(dst, extras...)
	dst = append(dst, pre...)
	return append(dst, key...), value, nil
}

// simpleLen is how long a Simple request is on a connection with w's features.
func (r *Request) simpleLen(w *Wire) int {
	n := memd.HeaderLen + int(r.extrasLen) + len(r.Key) + len(r.Value)
	if w.Features.Has(memd.FeatureCollections) {
		n++
	}
	return n
}

// PutSimple writes a request to b, whose length is what Call.BeginSimple has said.
func (r *Request) PutSimple(b []byte, w *Wire) {
	head, dt := (*[memd.HeaderLen]byte)(b), r.Datatype
	if !w.Features.Has(memd.FeatureJSON) {
		dt = 0
	}
	body, key := len(b)-memd.HeaderLen, len(r.Key)
	b = b[memd.HeaderLen:]
	b = b[copy(b, r.extras[:r.extrasLen]):]
	if w.Features.Has(memd.FeatureCollections) {
		b[0] = 0 // the default collection's id
		b = b[1:]
		key++
	}
	memd.PutRequest(head, r.Opcode, uint16(key), r.extrasLen, dt, w.VBucket, uint32(body), w.Opaque, r.CAS)
	b = b[copy(b, r.Key):]
	copy(b, r.Value)
}

// wireDatatype is the datatype on a connection with w's features. The mark of JSON is only a hint, so it is left out
// where it is not known.
func (r *Request) wireDatatype(w *Wire) (memd.Datatype, error) {
	dt := r.Datatype
	if !w.Features.Has(memd.FeatureJSON) {
		dt &^= memd.DatatypeJSON
	}
	switch {
	case dt&memd.DatatypeSnappy != 0 && !w.Features.Has(memd.FeatureSnappy) &&
		!w.Features.Has(memd.FeatureSnappyEverywhere):
		return 0, &FeatureError{memd.FeatureSnappy}
	case dt&memd.DatatypeXattr != 0 && !w.Features.Has(memd.FeatureXattr):
		return 0, &FeatureError{memd.FeatureXattr}
	}
	if r.packed != nil && w.Features.Has(memd.FeatureSnappy) {
		dt |= memd.DatatypeSnappy
	}
	return dt, nil
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
		if frames, err = memd.AppendFrame(frames, memd.FrameImpersonateUser,
			user[:copy(user[:], r.OnBehalfOf)]); err != nil {
			return frames, err
		}
	}
	return frames, nil
}

// wireSize is an upper bound of the request's wire form.
func (r *Request) wireSize() int {
	return memd.HeaderLen + maxReqExtras + 32 + 16 + len(r.OnBehalfOf) + len(r.Key) + len(r.Value)
}

// appendObserved appends the value of an OBSERVE: vbucket, length, key.
func appendObserved(dst []byte, vb uint16, prefix, key []byte) []byte {
	dst = binary.BigEndian.AppendUint16(dst, vb)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(prefix)+len(key)))
	return append(append(dst, prefix...), key...)
}

// appendScanCreate appends the value of a RANGE_SCAN_CREATE with the collection's id, which may change between
// attempts.
func appendScanCreate(dst, value []byte, id uint32) []byte {
	if id == 0 || len(value) == 0 {
		return append(dst, value...)
	}
	dst = append(dst, `{"collection":"`...)
	dst = strconv.AppendUint(dst, uint64(id), 16)
	dst = append(dst, `",`...)
	return append(dst, value[1:]...)
}
