package mock

import "encoding/binary"

// GET_LOCKED and UNLOCK_KEY: a document locked for some seconds, 15 unless the client says otherwise, 30 at most.

func runGetLocked(rq *request) reply {
	var o docOp
	if len(rq.p.Extras) == 4 {
		o.lock = binary.BigEndian.Uint32(rq.p.Extras)
	}
	return rq.runDoc(o, rq.document)
}

func runUnlock(rq *request) reply {
	return rq.runDoc(docOp{}, func(docResult) reply { return reply{} })
}
