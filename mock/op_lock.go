package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// GET_LOCKED and UNLOCK_KEY: a document locked for some seconds, 15 unless the client says otherwise, 30 at most.

func runGetLocked(rq *request) reply {
	o := store.Op{LockStays: !rq.has(factLockEnds)}
	if len(rq.p.Extras) == 4 {
		o.Lock = binary.BigEndian.Uint32(rq.p.Extras)
	}
	return rq.runDoc(o, rq.document)
}

func runUnlock(rq *request) reply {
	rep := rq.runDoc(store.Op{}, func(store.Result) reply { return reply{} })
	if rep.status == memd.StatusNotLocked && !rq.has(factNotLocked) {
		rep.status = memd.StatusTmpFail
	}
	return rep
}
