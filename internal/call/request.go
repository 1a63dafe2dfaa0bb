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
	MaxPaths            = 16       // of a sub-document request, where nothing else is configured
	MostPaths           = 256      // of one that is configured: an answer names a path by one byte
)

// Request is an operation as data: what the operation fills and what the connection puts on the wire, again for each
// attempt. Key, Value and Into are lent by the caller until the call finishes. What few requests have is behind a
// pointer: there is a method for each field of Cold, and Own to write them.
type Request struct {
	Opcode     memd.Opcode
	Datatype   memd.Datatype
	Durability memd.DurabilityLevel
	Wrap       bool
	Pinned     bool
	ByVBucket  bool   // VBucket says where to, not a key
	VBucket    uint16 // with ByVBucket
	PathLimit  uint16 // of a sub-document request; 0 means MaxPaths
	AbsentOK   bool   // a missing document is an answer, not a failure

	PreserveExpiry bool
	KeepCompressed bool // a compressed value of the answer is left as it is

	extrasLen uint8
	packTried bool
	simple    bool // see Simple
	looksUp   bool // see LookUp

	// Into receives a value that fits the read buffer, appended; nil allocates.
	Into       []byte
	Key, Value []byte
	CAS        uint64
	Timeout    time.Duration
	extras     [maxReqExtras]byte

	cold *Cold // nil until it is needed
	own  *kept // nil before the first need
}

// kept is memory of a request that the next request in the same place has again.
type kept struct {
	cold  Cold
	body  []byte // of Body
	spare []byte // for a compressed value, the request's or the answer's
	// packed is the value, compressed; nil when it is sent as it is. It is not in Cold, because it is made on the way
	// to a connection, while another goroutine may end the call and look at what it was for.
	packed []byte
}

// Cold is what few requests have.
type Cold struct {
	Scope, Collection string
	CollectionID      uint32
	Block             bool
	paths             int // of a sub-document mutation: how many
	Retry             retry.Strategy
	OnBehalfOf        string
	Hedge             *Hedge // reads only; nil inherits

	Replica    int    // which replica answers, from 1; 0 is the active
	Capability string // what the bucket must be able to do, "" for nothing
	// Connection is the connection that must carry the request, as Result.Connection names it; "" means any.
	Connection string

	// ServerGroup is the only group of nodes that may answer a request to a replica; "" means any.
	ServerGroup string
	Node        int           // with Pinned: the node's index that must answer
	Verb        string        // what errors call the operation; "" means its opcode's name
	order       []uint8       // the caller's index of each path; nil when they are as the caller gave them
	spec        *Spec         // of an operation that has no row in the table
	needs       memd.Features // without which a connection cannot carry the request
	// DurabilityMS is the timeout that a durable write tells the server. It is the dispatcher's.
	DurabilityMS uint32
	// Waits is the time that another request gives the server for something else to happen.
	Waits time.Duration
}

// Own gives the request memory for what few requests have. What is written there lasts until the call is used again.
func (r *Request) Own() *Cold {
	if r.cold == nil {
		r.cold = &r.kept().cold
	}
	return r.cold
}

func (r *Request) kept() *kept {
	if r.own == nil {
		r.own = &kept{}
	}
	return r.own
}

// maxKept bounds what is kept of a value.
const maxKept = 64 << 10

// Body gives memory for a value of n bytes that the operation makes: an empty slice. It stays, as Own's does.
func (r *Request) Body(n int) []byte {
	k := r.kept()
	switch {
	case n > maxKept:
		return make([]byte, 0, n)
	case cap(k.body) < n:
		k.body = make([]byte, 0, n)
	}
	return k.body
}

// Require adds features without which a connection cannot carry the request.
func (r *Request) Require(f memd.Features) {
	if f != 0 {
		r.Own().needs |= f
	}
}

// CopyFrom makes the request one that sends the same.
func (r *Request) CopyFrom(from *Request) {
	own := r.own
	*r = *from
	r.cold, r.own = nil, own
	if from.cold != nil {
		*r.Own() = *from.cold
	}
	if p := from.packed(); p != nil {
		r.kept().packed = p
	}
}

// Outside takes back the collection that a dispatcher has named where it does not hold: for an operation that needs
// none.
func (r *Request) Outside(scope, collection string) {
	s := SpecOf(r.Opcode)
	if (s == nil || !s.Has(CollectionAware)) && r.Scope() == scope && r.Collection() == collection {
		o := r.Own()
		o.Scope, o.Collection = "", ""
	}
}

// ValueLen is how long Value is.
func (r *Request) ValueLen() int { return len(r.Value) }

// MayWait is how long a node may keep the request waiting for something else to happen, and with it what follows on its
// connection, also where it answers out of order: requests for documents pass each other, but not the client's NOOP
// (kv_engine, opcode.cc, Attribute::Reorder). It is 0 for most requests.
func (r *Request) MayWait() time.Duration {
	if r.cold == nil {
		return 0
	}
	if r.Durability != 0 {
		return time.Duration(r.cold.DurabilityMS) * time.Millisecond
	}
	return min(r.cold.Waits, mostWait)
}

// mostWait is the most that a durable write can ask for. A node that waits for longer has its connection replaced, so
// that what follows goes on.
const mostWait = 65534 * time.Millisecond

// Simple reports whether the request is for a key of the default collection, on the vbucket's active copy, and is on
// the wire no more than a header, extras, the key and the value, on every connection.
func (r *Request) Simple() bool { return r.simple }

// LookUp has the collection's id looked up before the request is sent again, also that of the default collection. The
// request is not Simple from then on.
func (r *Request) LookUp() { r.simple, r.looksUp = false, true }

// LooksUp reports whether LookUp was called.
func (r *Request) LooksUp() bool { return r.looksUp }

// isSimple says what Simple is to report, of a valid request with that row.
func (r *Request) isSimple(s *Spec) bool {
	return s.Has(Keyed) && s.Has(CollectionAware) && r.Opcode != memd.OpObserve && r.Datatype&^memd.DatatypeJSON == 0 &&
		r.Durability == 0 && !r.PreserveExpiry && r.OnBehalfOf() == "" && r.InDefaultCollection() &&
		r.Replica() == 0 && !r.Pinned && !r.ByVBucket && r.Needs() == 0 && r.Capability() == "" && r.Connection() == ""
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

// SetPaths says how many paths a sub-document mutation has, and which of the caller's is at each place; nil means that
// they are as the caller gave them.
func (r *Request) SetPaths(n int, order []uint8) {
	o := r.Own()
	o.paths, o.order = n, order
}

// MaxPaths is how many paths the request may have if it is a sub-document request.
func (r *Request) MaxPaths() int {
	if r.PathLimit == 0 {
		return MaxPaths
	}
	return int(r.PathLimit)
}

// Extras is the request's extras; it aliases r.
func (r *Request) Extras() []byte { return r.extras[:r.extrasLen] }

// InDefaultCollection reports whether the request names the default collection, and no other by its id.
func (r *Request) InDefaultCollection() bool {
	return r.CollectionID() == 0 && (r.Scope() == "" || r.Scope() == "_default") && (r.Collection() == "" ||
		r.Collection() == "_default")
}
