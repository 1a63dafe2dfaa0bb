package call

import (
	"encoding/binary"
	"time"

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

// InDefaultCollection reports whether the request names the default collection, and no other by its id.
func (r *Request) InDefaultCollection() bool {
	return r.CollectionID == 0 && (r.Scope == "" || r.Scope == "_default") && (r.Collection == "" ||
		r.Collection == "_default")
}
