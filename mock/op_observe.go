package mock

import (
	"encoding/binary"
	"slices"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// OBSERVE, OBSERVE_SEQNO and GET_FAILOVER_LOG. What a copy has in memory and what it has on disk differ by the lags
// that tests set (Cluster.SetReplicaLag, SetPersistLag), which are 0 at first. An id of the vbucket from before a
// failover gets the second format of OBSERVE_SEQNO, with the last sequence number of that time.

// holds reports whether the node has the request's vbucket. The caller holds the mutex.
func (rq *request) holds() bool {
	vb := int(rq.p.VBucket)
	return vb < len(rq.b.rows) && slices.Contains(rq.b.rows[vb], rq.k.n.index)
}

func observeSeqno(rq *request) reply {
	if len(rq.p.Value) != 8 {
		return fail(memd.StatusInvalid, "Request value must be of length 8")
	}
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	if !rq.holds() {
		return rq.notMine()
	}
	history, _ := rq.b.store.History(rq.p.VBucket)
	current, persisted := rq.b.store.Seqnos(rq.p.VBucket, rq.k.n.index, rq.k.c.now())
	if rq.b.ephemeral {
		persisted = 0
	}
	asked := binary.BigEndian.Uint64(rq.p.Value)
	at := slices.IndexFunc(history, func(b store.Branch) bool { return b.UUID == asked })
	if at < 0 {
		return reply{status: memd.StatusKeyNotFound}
	}
	numbers := []uint64{history[0].UUID, persisted, current}
	if at > 0 {
		numbers = append(numbers, asked, history[at-1].Begin)
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
	history, _ := rq.b.store.History(rq.p.VBucket)
	var v []byte
	for _, b := range history {
		v = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(v, b.UUID), b.Begin)
	}
	return reply{value: v}
}

func observe(rq *request) reply {
	if rq.b.ephemeral {
		return reply{status: memd.StatusNotSupported}
	}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	var out []byte
	for b := rq.p.Value; len(b) > 0; {
		if len(b) < 4 {
			return fail(memd.StatusInvalid, "Requires vbid and keylen.")
		}
		vb, n := binary.BigEndian.Uint16(b), int(binary.BigEndian.Uint16(b[2:]))
		if n > len(b)-4 {
			return fail(memd.StatusInvalid, "Incorrect keylen")
		}
		field := b[4 : 4+n]
		cid, key, why := documentKey(field, rq.features.Has(memd.FeatureCollections))
		switch {
		case why != "":
			return fail(memd.StatusInvalid, "%s", why)
		case !rq.manifest().Has(cid):
			return unknown(memd.StatusUnknownCollection, rq.manifest())
		case int(vb) >= len(rq.b.rows) || !slices.Contains(rq.b.rows[vb], rq.k.n.index):
			return rq.notMine()
		}
		state, cas := rq.b.store.Observe(vb, rq.k.n.index, cid, string(key), now)
		out = append(append(out, b[:4+n]...), state)
		out = binary.BigEndian.AppendUint64(out, cas)
		b = b[4+n:]
	}
	return reply{value: out, cas: uint64(rq.b.store.DiskLag().Milliseconds()) << 32}
}
