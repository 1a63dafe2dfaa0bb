package mock

import "github.com/couchcore/couchcore/mock/internal/store"

// APPEND and PREPEND: bytes joined to a document that exists.

func runConcat(rq *request) reply { return rq.runDoc(store.Op{Value: rq.value}, nil) }
