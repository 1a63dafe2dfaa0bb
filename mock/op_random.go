package mock

import (
	"encoding/binary"

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
		return fail(memd.StatusInvalid, "Extras name a collection if and only if collections are enabled for the "+
			"connection")
	case len(rq.p.Extras) == 5 && rq.p.Extras[4] != 0xff && rq.p.Extras[4] != 0:
		return fail(memd.StatusInvalid, "Unknown flags")
	}
	xattrs := len(rq.p.Extras) == 5 && rq.p.Extras[4] == 0xff
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !rq.b.manifest.Has(cid) {
		return unknown(memd.StatusUnknownCollection, &rq.b.manifest)
	}
	key, res, ok := rq.b.store.Random(rq.k.n.index, cid, c.now())
	if !ok {
		return reply{status: memd.StatusKeyNotFound}
	}
	rep := rq.document(res)
	if xattrs {
		rep = rq.documentEx(res)
	}
	rep.key = []byte(key)
	if collections {
		rep.key = append(memd.AppendLEB128(nil, cid), key...)
	}
	return rep
}
