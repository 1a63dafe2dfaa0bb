package mock

import "encoding/binary"

// SET, ADD and REPLACE: whole documents, with CAS, expiry, preserved expiry and durability. Left out: compressed values,
// xattrs, quotas.

func runStore(rq *request) reply {
	return rq.runDoc(docOp{
		value: rq.p.Value, datatype: valueType(rq.p.Value),
		flags: binary.BigEndian.Uint32(rq.p.Extras), expiry: binary.BigEndian.Uint32(rq.p.Extras[4:]),
	}, nil)
}
