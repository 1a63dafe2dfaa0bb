package mock

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// OBSERVE, OBSERVE_SEQNO and GET_FAILOVER_LOG. What a copy has in memory and what it has on disk differ by the lags that
// tests set (Cluster.SetReplicaLag, SetPersistLag), which are none at first. An id of the vbucket from before a failover
// gets the second format of OBSERVE_SEQNO, with the last sequence number of that time.

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
	history, _ := rq.b.store.vbucket(rq.p.VBucket)
	current, persisted := rq.b.store.seqnos(rq.p.VBucket, rq.k.n.index, rq.k.c.now())
	if rq.b.ephemeral {
		persisted = 0
	}
	asked := binary.BigEndian.Uint64(rq.p.Value)
	at := slices.IndexFunc(history, func(b branch) bool { return b.uuid == asked })
	if at < 0 {
		return reply{status: memd.StatusKeyNotFound}
	}
	numbers := []uint64{history[0].uuid, persisted, current}
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

// States of documents in OBSERVE.
const (
	observedFound     = 0x00
	observedPersisted = 0x01
	observedMissing   = 0x80
	observedDeleted   = 0x81
)

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
		case !rq.b.manifest.has(cid):
			return unknown(memd.StatusUnknownCollection, &rq.b.manifest)
		case int(vb) >= len(rq.b.rows) || !slices.Contains(rq.b.rows[vb], rq.k.n.index):
			return rq.notMine()
		}
		state, cas := rq.b.store.observe(vb, rq.k.n.index, docID{cid, string(key)}, now)
		out = append(append(out, b[:4+n]...), state)
		out = binary.BigEndian.AppendUint64(out, cas)
		b = b[4+n:]
	}
	return reply{value: out, cas: uint64(rq.b.store.diskLag.Milliseconds()) << 32}
}

// observe is the state of a document on one node, and its CAS.
func (s *store) observe(vb uint16, node int, id docID, now time.Time) (state byte, cas uint64) {
	_, persisted := s.seqnos(vb, node, now)
	held := s.vbs[vb].copies[node]
	d, found := held.docs[id]
	disk, stored := held.onDisk(id, persisted)
	onDisk := stored && disk.cas == d.cas
	switch {
	case !found && stored && disk.live(now):
		return observedPersisted, disk.cas
	case !found:
		return observedMissing, 0
	case d.live(now) && onDisk:
		return observedPersisted, d.cas
	case d.live(now):
		return observedFound, d.cas
	case onDisk:
		return observedMissing, 0
	}
	return observedDeleted, d.cas
}

// seqnos are the newest sequence numbers that a node's copy has in memory and on disk.
func (s *store) seqnos(vb uint16, node int, now time.Time) (current, persisted uint64) {
	v := &s.vbs[vb]
	v.deliver(now)
	c := v.copies[node]
	if s.diskLag == 0 {
		return c.seqno, c.seqno
	}
	return c.seqno, c.persisted(now.Add(-s.diskLag))
}

// arrival is a sequence number with the time at which a copy got it.
type arrival struct {
	seqno uint64
	at    time.Time
}

const maxArrivals = 1024 // of a copy; the oldest count as on disk

// arrived notes when a copy got a mutation.
func (c *docCopy) arrived(seqno uint64, at time.Time) {
	if len(c.arrivals) == maxArrivals {
		c.arrivals = slices.Delete(c.arrivals, 0, maxArrivals/2)
	}
	c.arrivals = append(c.arrivals, arrival{seqno, at})
}

// persisted is the newest sequence number that a copy had at a time.
func (c *docCopy) persisted(by time.Time) uint64 {
	n := c.seqno
	for _, a := range c.arrivals {
		if a.at.After(by) {
			return min(n, a.seqno-1)
		}
	}
	return n
}
