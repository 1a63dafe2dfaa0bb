package kv

import "github.com/couchcore/couchcore/memd"

// Get reads a document. A locked document can be read; its CAS is then all ones.
type Get struct {
	Common
	Key []byte
	// Into receives the value, appended, when it fits the connection's read buffer; nil allocates exactly.
	Into []byte
	// KeepCompressed leaves a compressed value as it is; the result's datatype says whether it is one.
	KeepCompressed bool
	// Hedge reads from replicas too when the active copy is slow; nil inherits what a policy says.
	Hedge *Hedge
}

// GetResult is the result of a read. Value is the caller's.
type GetResult struct {
	Result
	Value       []byte
	Flags       uint32
	Datatype    memd.Datatype
	FromReplica bool // a replica has answered, which may lag
}

// Encode implements Op.
func (g Get) Encode(r *Request) error {
	r.Common, r.Opcode, r.Key, r.Into = g.Common, memd.OpGet, g.Key, g.Into
	r.Hedge, r.KeepCompressed = g.Hedge, g.KeepCompressed
	return nil
}

// Decode implements Op.
func (g Get) Decode(r *Response) (GetResult, error) { return getResult(r) }

func getResult(r *Response) (GetResult, error) {
	if r.extrasLen < 4 {
		return GetResult{}, malformed(r, "extras", 4)
	}
	return GetResult{
		Result: r.Result, Value: r.Value, Flags: r.Flags(), Datatype: r.Datatype, FromReplica: r.Opcode == memd.OpGetReplica,
	}, nil
}
