package mock

import "encoding/binary"

// SET, ADD and REPLACE: whole documents, with CAS, expiry, preserved expiry and durability. A compressed
// value stays one if the bucket keeps it so. The attributes that a document has stay. Left out: quotas.

func runStore(rq *request) reply {
	return rq.runDoc(docOp{
		value: rq.value, datatype: valueType(rq.value), packed: rq.packed && rq.b.compression != compressOff,
		flags: binary.BigEndian.Uint32(rq.p.Extras), expiry: binary.BigEndian.Uint32(rq.p.Extras[4:]),
	}, nil)
}
