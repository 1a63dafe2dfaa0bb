package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetOrNull reads a document that may be missing: that is a result, not an error.
type GetOrNull struct {
	Common
	Key  []byte
	Into []byte // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// GetOrNullResult is the result of GetOrNull. Without Found there is nothing else in it.
type GetOrNullResult struct {
	GetResult
	Found bool
}

// encode implements Op.
func (g GetOrNull) encode(r *call.Request) (decoder[GetOrNullResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Key, r.Into, r.KeepCompressed = memd.OpGet, g.Key, g.Into, g.KeepCompressed
	r.AbsentOK = true
	r.Own().Verb = "get-or-null"
	return decodeGetOrNull, nil
}

// decodeGetOrNull makes the result of a GetOrNull.
func decodeGetOrNull(r *call.Response) (GetOrNullResult, error) {
	if r.Absent() {
		return GetOrNullResult{GetResult: GetResult{Result: resultOf(r)}}, nil
	}
	res, err := getResult(r)
	return GetOrNullResult{GetResult: res, Found: err == nil}, err
}
