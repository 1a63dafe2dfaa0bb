package kv

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
)

// GetReplica reads a document from one replica, which may lag behind the active copy. The node is found anew for each
// attempt. A replica that the bucket does not have is cberr.ReplicaIndexOutOfBounds, one that no node has at present
// cberr.ReplicaIndexCurrentlyUnavailable, and a document that is not there cberr.DocumentNotFoundOnReplica, which is a
// cberr.DocumentNotFound. GetAnyReplica and GetAllReplicas take one, too, and ask all copies.
type GetReplica struct {
	Common
	Key     []byte
	Replica int // which replica, from 1; 0 where all copies are asked
	// Wrap counts on from the first replica beyond the last, and takes the next for one that no node has.
	Wrap        bool
	ServerGroup string // the only group of nodes that may answer, "" for any
	Into        []byte // as in Get
	// KeepCompressed is as in Get.
	KeepCompressed bool
}

// encode implements Op.
func (g GetReplica) encode(r *call.Request) (decoder[GetResult], error) {
	setCommon(r, &g.Common)
	r.Opcode = memd.OpGetReplica
	if g.Replica == 0 {
		return nil, outOfRange("replica", 0, MaxReplicas)
	}
	r.Key, r.Into, r.Wrap, r.KeepCompressed = g.Key, g.Into, g.Wrap, g.KeepCompressed
	return getResult, setReplica(r, g.Replica, g.ServerGroup)
}
