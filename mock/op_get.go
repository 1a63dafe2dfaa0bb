package mock

// GET: the active copy of a document. A locked one comes with a CAS of all ones.

func runGet(rq *request) reply { return rq.runDoc(docOp{}, document) }
