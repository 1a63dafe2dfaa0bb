package mock

import "github.com/couchcore/couchcore/mock/internal/store"

// DELETE: removes a document. The tombstone it leaves is seen by GET_META only.

func runDelete(rq *request) reply { return rq.runDoc(store.Op{}, nil) }
