package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// TOUCH and GAT: a new expiry, and for GAT the document. Neither answers with a mutation token, and neither can be
// durable: with a durability frame they are refused whatever the document is.

func runTouch(rq *request) reply {
	done := rq.document
	if rq.p.Opcode == memd.OpTouch {
		done = func(res store.Result) reply { return reply{cas: res.CAS} }
	}
	return rq.runDoc(store.Op{Expiry: binary.BigEndian.Uint32(rq.p.Extras)}, done)
}
