package mock

import "github.com/couchcore/couchcore/memd"

// The sub-document commands: those with one path, and MULTI_LOOKUP and MULTI_MUTATION with up to 16. Paths are followed
// on the document's bytes, see subdoc_json.go. Left out: the privilege that a server wants for system attributes.

func runSubdoc(rq *request) reply {
	ps, expiry, rep := decodePaths(rq.p, rq.features)
	if rep.status != memd.StatusSuccess {
		return rep
	}
	rq.fromReplica = rq.fromReplica || ps.flags&docReplicaRead != 0
	return rq.runDoc(docOp{paths: ps, expiry: expiry, value: ps.opaque}, func(res docResult) reply {
		rep := reply{status: res.status, cas: res.cas, datatype: res.datatype, value: res.value}
		if ps.mutates && res.status != memd.StatusSubdocMultiPathFailure {
			rep.extras = rq.token(res)
		}
		return rep
	})
}
