package mock

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// GET: the active copy of a document. A locked one comes with a CAS of all ones. GETK answers with the key, too. GET_EX
// and GET_EX_REPLICA answer with the extended attributes before the body.

func runGet(rq *request) reply { return rq.runDoc(store.Op{}, rq.document) }

func runGetKey(rq *request) reply {
	rep := rq.runDocAs(memd.OpGet, store.Op{}, rq.document)
	if rep.status == memd.StatusSuccess || rep.status == memd.StatusKeyNotFound {
		rep.key = rq.p.Key
	}
	return rep
}

func runGetEx(rq *request) reply {
	for _, f := range []memd.Feature{memd.FeatureXattr, memd.FeatureJSON, memd.FeatureSnappyEverywhere} {
		if !rq.features.Has(f) {
			return fail(memd.StatusNotSupported, "%v support must be enabled", f)
		}
	}
	return rq.runDoc(store.Op{}, rq.documentEx)
}

// documentEx is the answer that carries a document with its attributes.
func (rq *request) documentEx(res store.Result) reply {
	if len(res.Xattrs) > 0 {
		res.Value, res.Datatype = res.Xattrs.Section(res.Value), res.Datatype|memd.DatatypeXattr
	}
	return rq.document(res)
}

// runEvict answers as a node that has the document on disk, and can put it out of memory: nothing else is to be seen.
func runEvict(rq *request) reply {
	return rq.runDocAs(memd.OpGet, store.Op{}, func(store.Result) reply { return reply{} })
}
