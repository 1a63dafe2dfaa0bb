package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetOrNull reads a document that may be missing: that is a result with Absent, not an error.
type GetOrNull struct {
	Common
	Key  []byte
	Into []byte // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// encode implements Op.
func (g GetOrNull) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Key, r.Into, r.KeepCompressed = memd.OpGet, g.Key, g.Into, g.KeepCompressed
	r.AbsentOK = true
	r.Own().Verb = "get-or-null"
	return getOrNullResult, nil
}

func getOrNullResult(r *call.Response) (GetResult, error) {
	if r.Absent() {
		return GetResult{Result: resultOf(r), Absent: true}, nil
	}
	return getResult(r)
}
