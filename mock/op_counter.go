package mock

import "encoding/binary"

// INCREMENT and DECREMENT: counters stored as decimal text, with an initial value for a missing one unless the expiry is
// all ones.

func runCounter(rq *request) reply {
	return rq.runDoc(docOp{
		delta:   binary.BigEndian.Uint64(rq.p.Extras),
		initial: binary.BigEndian.Uint64(rq.p.Extras[8:]),
		expiry:  binary.BigEndian.Uint32(rq.p.Extras[16:]),
	}, func(res docResult) reply {
		rep := rq.mutated(res)
		rep.value = binary.BigEndian.AppendUint64(nil, res.number)
		return rep
	})
}
