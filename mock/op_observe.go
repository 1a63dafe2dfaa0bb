package mock

import (
	"encoding/binary"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// OBSERVE_SEQNO and GET_FAILOVER_LOG. Every copy of a vbucket has the same newest sequence number, in memory and on
// disk: replication and persistence take no time here. An id of the vbucket from before a failover gets the second
// format, with the last sequence number of that time.

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
	history, seqno := rq.b.store.vbucket(rq.p.VBucket)
	asked := binary.BigEndian.Uint64(rq.p.Value)
	at := slices.IndexFunc(history, func(b branch) bool { return b.uuid == asked })
	if at < 0 {
		return reply{status: memd.StatusKeyNotFound}
	}
	numbers := []uint64{history[0].uuid, seqno, seqno}
	if at > 0 {
		numbers = append(numbers, asked, history[at-1].begin)
	}
	v := binary.BigEndian.AppendUint16([]byte{byte(min(at, 1))}, rq.p.VBucket)
	for _, n := range numbers {
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
	history, _ := rq.b.store.vbucket(rq.p.VBucket)
	var v []byte
	for _, b := range history {
		v = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, b.uuid), b.begin)
	}
	return reply{value: v}
}
