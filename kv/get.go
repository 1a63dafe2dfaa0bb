package kv

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// Get reads a document. A locked document can be read; its CAS is then all ones.
type Get struct {
	Common
	Key []byte
	// Into receives the value, appended, when it fits the connection's read buffer; nil allocates exactly. With an Into
	// that is not nil an empty value is not nil either.
	Into []byte
	// Paths are the parts of a JSON document that are wanted: the value is a document of them alone, without those that
	// are missing. With more than 16, or one fewer for each of the next two, the document is read as a whole and cut
	// down here. Arrays have the elements that were asked for and nothing in between.
	Paths []string
	// Hedge reads from replicas too when the active copy is slow; nil inherits what a policy says. It excludes Retry,
	// Paths and WithExpiry, and a policy's does not hold for those.
	Hedge      *Hedge
	WithExpiry bool // the result says when the document expires
	WithFlags  bool // the result has the document's flags also when Paths are given
	// KeepCompressed leaves a compressed value as it is; the result's datatype says whether it is one. What is read
	// with Paths or WithExpiry never is.
	KeepCompressed bool
}

// GetResult is the result of a read. Value is the caller's.
type GetResult struct {
	Result
	Value       []byte
	Flags       uint32
	Datatype    memd.Datatype
	FromReplica bool // a replica has answered, which may lag
	Absent      bool // there is no such document, which only GetOrNull says in a result
}

// Expiry is when the document expires, after a read with WithExpiry; zero for one that does not expire.
func (g GetResult) Expiry() time.Time {
	return unixTime(g.facts.Expiry())
}

// encode implements Op.
func (g Get) encode(r *call.Request) (decoder[GetResult], error) {
	if g.projects() {
		return g.project(r)
	}
	setCommon(r, &g.Common)
	if g.Hedge != nil {
		r.Own().Hedge = (*call.Hedge)(g.Hedge)
	}
	r.Opcode, r.Key, r.Into, r.KeepCompressed = memd.OpGet, g.Key, g.Into, g.KeepCompressed
	return getResult, nil
}

// valueResult is the result of an answer that is a value and nothing else.
func valueResult(r *call.Response) (GetResult, error) {
	return GetResult{Result: resultOf(r), Value: r.Value}, nil
}

func getResult(r *call.Response) (res GetResult, err error) {
	if len(r.Extras()) < 4 {
		return GetResult{}, call.Malformed(r, "extras", 4)
	}
	res.Result, res.Value, res.Flags, res.Datatype = resultOf(r), r.Value, r.Flags(), r.Datatype
	res.FromReplica = r.Opcode == memd.OpGetReplica
	return res, nil
}
