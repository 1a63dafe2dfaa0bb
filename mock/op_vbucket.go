package mock

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// GET_VBUCKET, GET_ALL_VB_SEQNOS, SEQNO_PERSISTENCE and GET_KEYS.

// States of vbuckets on the wire.
const (
	stateActive  = 1
	stateReplica = 2
	stateDead    = 4
)

const (
	keysDefault        = 1000             // how many keys GET_KEYS answers when the client does not say
	persistenceTimeout = 30 * time.Second // how long SEQNO_PERSISTENCE waits
)

// state is what the node is for a vbucket. The caller holds the mutex.
func (b *bucket) state(vb, node int) uint32 {
	switch at := slices.Index(b.rows[vb], node); {
	case at == 0:
		return stateActive
	case at > 0:
		return stateReplica
	}
	return stateDead
}

func getVBucket(rq *request) reply {
	rq.k.c.mu.Lock()
	defer rq.k.c.mu.Unlock()
	if !rq.holds() {
		return rq.notMine()
	}
	return reply{value: binary.BigEndian.AppendUint32(nil, rq.b.state(int(rq.p.VBucket), rq.k.n.index))}
}

func allSeqnos(rq *request) reply {
	x := rq.p.Extras
	var state uint32
	if len(x) >= 4 {
		state = binary.BigEndian.Uint32(x)
	}
	if state > stateDead {
		return fail(memd.StatusInvalid, "Request vbucket state invalid")
	}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var cid *uint32
	if len(x) == 8 {
		id := binary.BigEndian.Uint32(x[4:])
		if !rq.manifest().Has(id) {
			return unknown(memd.StatusUnknownCollection, rq.manifest())
		}
		cid = &id
	}
	var v []byte
	now := c.now()
	for vb := range rq.b.rows {
		is := rq.b.state(vb, rq.k.n.index)
		if is == stateDead || state != 0 && is != state {
			continue
		}
		v = binary.BigEndian.AppendUint16(v, uint16(vb))
		v = binary.BigEndian.AppendUint64(v, rq.b.store.Newest(uint16(vb), rq.k.n.index, cid, now))
	}
	return reply{value: v}
}

// seqnoPersistence waits on the connection's own goroutine: what is behind it waits, too, as on a server.
func seqnoPersistence(rq *request) reply {
	want := binary.BigEndian.Uint64(rq.p.Extras)
	if rq.b.ephemeral {
		return reply{status: memd.StatusNotSupported}
	}
	c := rq.k.c
	for end := time.Now().Add(persistenceTimeout); ; {
		c.mu.Lock()
		if !rq.holds() {
			rep := rq.notMine()
			c.mu.Unlock()
			return rep
		}
		now := time.Now()
		_, persisted := rq.b.store.Seqnos(rq.p.VBucket, rq.k.n.index, c.now())
		c.mu.Unlock()
		switch {
		case persisted >= want:
			return reply{}
		case !now.Before(end) || !rq.pause(min(5*time.Millisecond, end.Sub(now))):
			return reply{status: memd.StatusTmpFail}
		}
	}
}

func getKeys(rq *request) reply {
	count := uint32(keysDefault)
	if len(rq.p.Extras) == 4 {
		count = binary.BigEndian.Uint32(rq.p.Extras)
	}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if rep, ok := rq.place(); !ok {
		return rep
	}
	var v []byte
	for _, key := range rq.b.store.Keys(rq.p.VBucket, rq.cid, string(rq.key), count, c.now()) {
		v = append(binary.BigEndian.AppendUint16(v, uint16(len(key))), key...)
	}
	if v == nil {
		return reply{status: memd.StatusKeyNotFound}
	}
	return reply{value: v}
}
