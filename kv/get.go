package kv

import (
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Get reads a document. A locked document can be read; its CAS is then all ones.
type Get struct {
	Common
	Key []byte
	// Into receives the value, appended, when it fits the connection's read buffer; nil allocates exactly.
	Into []byte
	// Paths are the parts of a JSON document that are wanted: the value is a document of them alone, without those that
	// are missing. With more than 16, or one fewer for each of the next two, the document is read as a whole and cut down
	// here. Arrays have the elements that were asked for and nothing in between.
	Paths []string
	// Hedge reads from replicas too when the active copy is slow; nil inherits what a policy says. It excludes Retry, Paths and
	// WithExpiry, and a policy's does not hold for those.
	Hedge      *Hedge
	WithExpiry bool // the result says when the document expires
	WithFlags  bool // the result has the document's flags also when Paths are given
	// KeepCompressed leaves a compressed value as it is; the result's datatype says whether it is one. What is read with Paths
	// or WithExpiry never is.
	KeepCompressed bool
}

// GetResult is the result of a read. Value is the caller's.
type GetResult struct {
	Result
	Value       []byte
	Flags       uint32
	Datatype    memd.Datatype
	FromReplica bool // a replica has answered, which may lag
}

// Expiry is when the document expires, after a read with WithExpiry; zero for one that does not expire.
func (g GetResult) Expiry() time.Time { return unixTime(g.expiry) }

// Encode implements Op.
func (g Get) Encode(r *Request) error {
	if g.projects() {
		return g.encodeProjection(r)
	}
	g.encodeWhole(r)
	return nil
}

// encodeWhole asks for the document as it is.
func (g *Get) encodeWhole(r *Request) {
	r.Common, r.Hedge = g.Common, g.Hedge
	g.encodeBare(r)
}

// encodeBare is encodeWhole without what hardly any Get has.
func (g *Get) encodeBare(r *Request) {
	r.Opcode, r.Key, r.Into, r.KeepCompressed = memd.OpGet, g.Key, g.Into, g.KeepCompressed
}

// Decode implements Op.
func (g Get) Decode(r *Response) (GetResult, error) {
	if g.projects() {
		return g.decodeProjection(r)
	}
	return getResult(r)
}

func getResult(r *Response) (res GetResult, err error) {
	if err = r.document(&res); err == nil {
		res.Result = r.Result
	}
	return res, err
}

// document makes g what the answer to a read says, but for how it came.
func (r *Response) document(g *GetResult) error {
	if r.extrasLen < 4 {
		return malformed(r, "extras", 4)
	}
	g.Value, g.Flags, g.Datatype = r.Value, r.Flags(), r.Datatype
	g.FromReplica = r.Opcode == memd.OpGetReplica
	return nil
}
