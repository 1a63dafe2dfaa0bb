package mock

import (
	"encoding/binary"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// OBSERVE_SEQNO and GET_FAILOVER_LOG. Every copy of a vbucket has the same newest sequence number, in memory and on
// disk: replication and persistence take no time here. Left out: the second format of OBSERVE_SEQNO, for a history that
// was cut by a failover; an id of a vbucket that is not its newest is unknown (0x01).

// holds reports whether the node has the request's vbucket. The caller holds the mutex.
func (rq *request) holds() bool {
	vb := int(rq.p.VBucket)
	return vb < len(rq.b.rows) && slices.Contains(rq.b.rows[vb], rq.k.n.index)
}

func observeSeqno(rq *request) reply {
	if len(rq.p.Value) != 8 {
		return fail(memd.StatusInvalid, "OBSERVE_SEQNO needs the id of a vbucket")
	}
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	if !rq.holds() {
		return rq.notMine()
	}
	uuid, seqno := rq.b.store.vbucket(rq.p.VBucket)
	if binary.BigEndian.Uint64(rq.p.Value) != uuid {
		return reply{status: memd.StatusKeyNotFound}
	}
	v := binary.BigEndian.AppendUint16([]byte{0}, rq.p.VBucket)
	for _, n := range []uint64{uuid, seqno, seqno} {
		v = binary.BigEndian.AppendUint64(v, n)
	}
	return reply{value: v}
}

func failoverLog(rq *request) reply {
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	if !rq.holds() {
		return rq.notMine()
	}
	uuid, _ := rq.b.store.vbucket(rq.p.VBucket)
	return reply{value: binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uuid), 0)}
}
