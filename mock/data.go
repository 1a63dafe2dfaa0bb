package mock

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// runDoc sends a document operation to the bucket's store and answers what all such operations have in common: the
// wrong node, an unknown collection, a pending durable write, and the store's failures. done shapes a success; nil
// means an answer with nothing but the CAS, and the mutation token for an operation that mutates.
func (rq *request) runDoc(o store.Op, done func(store.Result) reply) reply {
	return rq.runDocAs(baseForm(rq.p.Opcode), o, done)
}

// runDocAs is runDoc for a request that is executed like another one.
func (rq *request) runDocAs(op memd.Opcode, o store.Op, done func(store.Result) reply) reply {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if rep, ok := rq.place(); !ok {
		return rep
	}
	if rep, ok := rq.waits(); ok && !rq.committing {
		return rep
	}
	o.Opcode, o.VBucket, o.Collection, o.Key, o.CAS = op, rq.vb, rq.cid, rq.key, rq.p.CAS
	o.Node, o.Durability, o.PreserveTTL = rq.k.n.index, rq.level, rq.preserve
	o.MaxTTL = rq.b.maxTTL(rq.cid)
	res := rq.b.store.Apply(&o, c.now())
	if res.Status != memd.StatusSuccess && !res.Shaped {
		return reply{status: res.Status}
	}
	if done != nil {
		return done(res)
	}
	return rq.mutated(res)
}

// place checks that the request's document lives here. The caller holds the mutex.
func (rq *request) place() (reply, bool) {
	b := rq.b
	if b.gone {
		return reply{closes: true, silent: true}, false
	}
	if m := rq.manifest(); !m.Has(rq.cid) {
		return unknown(memd.StatusUnknownCollection, m), false
	}
	vb, node := int(rq.p.VBucket), rq.k.n.index
	switch {
	case b.memcached():
		rq.vb = uint16(node)
		return reply{}, true
	case vb < len(b.rows) && b.rows[vb][0] == node && !rq.fromReplica:
		return reply{}, true
	case vb < len(b.rows) && rq.fromReplica && slices.Contains(b.rows[vb][1:], node):
		return reply{}, true
	}
	return rq.notMine(), false
}

// notMine says that the vbucket is elsewhere, with the configuration unless the client has it and has said that it need
// not be told twice. The caller holds the mutex.
func (rq *request) notMine() reply {
	rep := reply{status: memd.StatusNotMyVBucket}
	c, k := rq.k.c, rq.k
	if rq.switched(c.switches.noConfig) {
		return rep
	}
	if rq.features.Has(memd.FeatureDedupeNotMyVBucket) && !c.version.newer(k.pushed) {
		return rep
	}
	k.pushed = c.version
	rep.value, rep.datatype = c.config(rq.b, k.n), memd.DatatypeJSON
	rq.packConfig(&rep)
	return rep
}

// mutated is the answer to a mutation that was applied.
func (rq *request) mutated(res store.Result) reply {
	return reply{cas: res.CAS, extras: rq.token(res)}
}

// token is the mutation token as extras, if the client has asked for tokens.
func (rq *request) token(res store.Result) []byte {
	if !rq.spec.token || !rq.features.Has(memd.FeatureMutationSeqno) {
		return nil
	}
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, res.UUID), res.Seqno)
}

// document is the answer that carries a document: its flags as extras, and its value.
func (rq *request) document(res store.Result) reply {
	value, dt := rq.pack(res.Value, res.Datatype, res.Packed)
	return reply{cas: res.CAS, datatype: dt, value: value, extras: binary.BigEndian.AppendUint32(nil, res.Flags)}
}

// lie acknowledges a mutation that is not applied.
func (rq *request) lie() reply {
	res := store.Result{CAS: uint64(time.Now().UnixNano()), UUID: 1, Seqno: 1}
	rep := rq.mutated(res)
	switch baseForm(rq.p.Opcode) {
	case memd.OpIncrement, memd.OpDecrement:
		rep.value = make([]byte, 8)
	case memd.OpGAT:
		rep.extras = make([]byte, 4)
	}
	return rep
}
