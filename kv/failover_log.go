package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetFailoverLog asks for the histories of a vbucket: each failover begins a new one.
type GetFailoverLog struct {
	Common
	VBucket uint16
	Replica int // from 1; 0 is the active copy
}

// FailoverLog is the result of GetFailoverLog: the first mutation of each history, the newest history first.
type FailoverLog struct {
	Result
	Entries []MutationToken
}

// encode implements Op.
func (g GetFailoverLog) encode(r *call.Request) (decoder[FailoverLog], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.ByVBucket, r.VBucket = memd.OpGetFailoverLog, true, g.VBucket
	return decodeGetFailoverLog, setReplica(r, g.Replica, "")
}

// decodeGetFailoverLog makes the result of a GetFailoverLog.
func decodeGetFailoverLog(r *call.Response) (FailoverLog, error) {
	n := len(r.Value) / 16
	if len(r.Value) != 16*n {
		return FailoverLog{}, call.Malformed(r, "value", 16*(n+1))
	}
	log := FailoverLog{Result: resultOf(r), Entries: make([]MutationToken, n)}
	for i := range log.Entries {
		log.Entries[i] = tokenAt(r, r.Value[16*i:])
	}
	return log, nil
}
