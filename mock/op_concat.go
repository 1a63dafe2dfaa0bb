package mock

// APPEND and PREPEND: bytes joined to a document that exists.

func runConcat(rq *request) reply { return rq.runDoc(docOp{value: rq.value}, nil) }
