package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetEx reads a document with its extended attributes in one request. With a Replica its errors are those of
// GetReplica.
type GetEx struct {
	Common
	Key         []byte
	Replica     int  // from 1: which replica answers, as in GetReplica; 0 is the active copy
	Wrap        bool // as in GetReplica
	ServerGroup string
}

// GetExResult is the result of GetEx. Its bytes are the caller's.
type GetExResult struct {
	Result
	Value    []byte      // the body
	Xattrs   memd.Xattrs // nil for none
	Flags    uint32
	Datatype memd.Datatype
}

// needsEx are the features without which there are no such answers.
const needsEx = memd.Features(1<<memd.FeatureXattr | 1<<memd.FeatureJSON | 1<<memd.FeatureSnappyEverywhere)

// encode implements Op.
func (g GetEx) encode(r *call.Request) (decoder[GetExResult], error) {
	setCommon(r, &g.Common)
	r.Opcode, r.Key, r.Wrap = memd.OpGetEx, g.Key, g.Wrap
	if g.Replica != 0 {
		r.Opcode = memd.OpGetExReplica
	}
	r.Require(needsEx)
	return getExResult, setReplica(r, g.Replica, g.ServerGroup)
}

func getExResult(r *call.Response) (GetExResult, error) {
	if len(r.Extras()) < 4 {
		return GetExResult{}, call.Malformed(r, "extras", 4)
	}
	res := GetExResult{Result: resultOf(r), Value: r.Value, Flags: r.Flags(), Datatype: r.Datatype}
	if r.Datatype&memd.DatatypeXattr != 0 {
		var err error
		if res.Xattrs, res.Value, err = memd.SplitXattrs(r.Value); err != nil {
			return GetExResult{}, err
		}
	}
	return res, nil
}
