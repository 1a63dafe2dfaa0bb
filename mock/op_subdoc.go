package mock

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
	"github.com/couchcore/couchcore/mock/internal/subdoc"
)

// The sub-document commands: those with one path, and MULTI_LOOKUP and MULTI_MUTATION with up to 16 unless
// SubdocMaxPaths says otherwise. Paths are followed on the document's bytes, see package subdoc. Left out: the
// privilege that a server wants for system attributes.

func runSubdoc(rq *request) reply {
	ps, no := subdoc.Decode(rq.p, rq.paths())
	if no != nil {
		return reply{status: no.Status, context: no.Context}
	}
	rq.fromReplica = rq.fromReplica || ps.Flags&subdoc.ReplicaRead != 0
	return rq.runDoc(store.Op{Paths: ps, Expiry: ps.Expiry, Value: ps.Opaque}, func(res store.Result) reply {
		rep := reply{status: res.Status, cas: res.CAS, datatype: res.Datatype, value: res.Value}
		if ps.Mutates && res.Status != memd.StatusSubdocMultiPathFailure {
			rep.extras = rq.token(res)
		}
		return rep
	})
}
