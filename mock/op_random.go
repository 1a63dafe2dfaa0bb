package mock

import (
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// GET_RANDOM_KEY: some document of a collection of which the node has the active copy, any with the same chance. The
// answer has its key, with the collection's id before it if collections are granted.

// picker chooses one of n at random, with the option Seed as the seed and the time say: what other requests have come
// before depends on the scheduler.
func (s *settings) picker(now time.Time) func(n int) int {
	if s.seed == nil {
		return rand.IntN
	}
	return rand.New(rand.NewPCG(*s.seed, uint64(now.UnixNano()))).IntN
}

// randomExtras is what a server says of extras that do not fit what HELLO has granted.
const randomExtras = "Extras should contain collection id (and optionally flag to request xattrs)"

// checkRandom refuses extras that the release or the connection does not have.
func (rq *request) checkRandom() reply {
	n, collections := len(rq.p.Extras), rq.features.Has(memd.FeatureCollections)
	xattrs := rq.has(factRandomXattrs)
	switch {
	case !collections && n > 0 && xattrs:
		return fail(memd.StatusInvalid, "Extras should be empty for clients without collections support")
	case !collections && n > 0:
		return fail(memd.StatusInvalid, "Request must not include extras")
	case collections && n != 4 && !xattrs:
		return fail(memd.StatusInvalid, "Request must include extras of length 4")
	case collections && n == 0:
		return fail(memd.StatusInvalid, randomExtras)
	case n == 5 && rq.p.Extras[4] != 0xff && rq.p.Extras[4] != 0:
		return fail(memd.StatusInvalid, "Unknown flags")
	}
	return reply{}
}

func getRandom(rq *request) reply {
	var cid uint32
	collections := rq.features.Has(memd.FeatureCollections)
	if rep := rq.checkRandom(); rep.status != memd.StatusSuccess {
		return rep
	}
	if len(rq.p.Extras) >= 4 {
		cid = binary.BigEndian.Uint32(rq.p.Extras)
	}
	xattrs := len(rq.p.Extras) == 5 && rq.p.Extras[4] == 0xff
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if !rq.manifest().Has(cid) {
		return unknown(memd.StatusUnknownCollection, rq.manifest())
	}
	key, res, ok := rq.b.store.Random(rq.k.n.index, cid, c.now(), c.set.picker(c.now()))
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
