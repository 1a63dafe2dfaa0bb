package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// INCREMENT and DECREMENT: counters stored as decimal text, with an initial value for a missing one unless the expiry
// is all ones.

func runCounter(rq *request) reply {
	return rq.runDoc(store.Op{
		Delta:   binary.BigEndian.Uint64(rq.p.Extras),
		Initial: binary.BigEndian.Uint64(rq.p.Extras[8:]),
		Expiry:  binary.BigEndian.Uint32(rq.p.Extras[16:]),
	}, func(res store.Result) reply {
		rep := rq.mutated(res)
		rep.value = binary.BigEndian.AppendUint64(nil, res.Number)
		return rep
	})
}
