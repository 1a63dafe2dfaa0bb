package mock

import "github.com/couchcore/couchcore/mock/internal/store"

// GET_REPLICA: a replica's copy of a document. The node must be a replica of the vbucket by the map, the active one
// answers NOT_MY_VBUCKET. Replication takes no time here.

func runGetReplica(rq *request) reply { return rq.runDoc(store.Op{}, rq.document) }
