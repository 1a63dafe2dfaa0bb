package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// SET, ADD and REPLACE: whole documents, with CAS, expiry, preserved expiry and durability. A compressed
// value stays one if the bucket keeps it so. The attributes that a document has stay. Left out: quotas.

func runStore(rq *request) reply {
	return rq.runDoc(store.Op{
		Value: rq.value, Datatype: store.ValueType(rq.value), Packed: rq.packed && rq.b.compression != compressOff,
		Flags: binary.BigEndian.Uint32(rq.p.Extras), Expiry: binary.BigEndian.Uint32(rq.p.Extras[4:]),
	}, nil)
}
