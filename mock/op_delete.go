package mock

// DELETE: removes a document. The tombstone it leaves is seen by GET_META only.

func runDelete(rq *request) reply { return rq.runDoc(docOp{}, nil) }
