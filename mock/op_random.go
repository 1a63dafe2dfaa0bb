package mock

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/couchcore/couchcore/memd"
)

// GET_RANDOM_KEY: some document of a collection of which the node has the active copy, any with the same chance. The
// answer has its key, with the collection's id before it if collections are granted.

func getRandom(rq *request) reply {
	var cid uint32
	collections := rq.features.Has(memd.FeatureCollections)
	if len(rq.p.Extras) >= 4 {
		cid = binary.BigEndian.Uint32(rq.p.Extras)
	}
	switch {
	case collections == (len(rq.p.Extras) == 0):
		return fail(memd.StatusInvalid, "Extras name a collection if and only if collections are enabled for the connection")
	case len(rq.p.Extras) == 5 && rq.p.Extras[4] != 0xff && rq.p.Extras[4] != 0:
		return fail(memd.StatusInvalid, "Unknown flags")
	}
	xattrs := len(rq.p.Extras) == 5 && rq.p.Extras[4] == 0xff
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !rq.b.manifest.has(cid) {
		return unknown(memd.StatusUnknownCollection, &rq.b.manifest)
	}
	now, seen := c.now(), 0
	var id docID
	var d doc
	for i := range rq.b.store.vbs {
		v := &rq.b.store.vbs[i]
		if len(v.nodes) == 0 || v.nodes[0] != rq.k.n.index {
			continue
		}
		active := v.active(now)
		for _, k := range active.keys() {
			x := active.docs[k]
			if k.cid != cid || !x.live(now) {
				continue
			}
			if seen++; rand.IntN(seen) == 0 {
				id, d = k, x
			}
		}
	}
	if seen == 0 {
		return reply{status: memd.StatusKeyNotFound}
	}
	res := docResult{cas: d.cas, flags: d.flags, value: d.value, datatype: d.datatype, packed: d.packed, xattrs: d.xattrs}
	rep := rq.document(res)
	if xattrs {
		rep = rq.documentEx(res)
	}
	rep.key = []byte(id.key)
	if collections {
		rep.key = append(memd.AppendLEB128(nil, cid), id.key...)
	}
	return rep
}
