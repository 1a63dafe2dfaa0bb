package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// GET_META: flags, expiry, revision and whether the document is deleted, in version 1 (no extras, or 01) or 2
// (02), which adds the datatype. A document without an expiry has expiry 0.

func runGetMeta(rq *request) reply {
	v2 := false
	if len(rq.p.Extras) == 1 {
		switch rq.p.Extras[0] {
		case 1:
		case 2:
			v2 = true
		default:
			return fail(memd.StatusInvalid, "Request extras invalid")
		}
	}
	return rq.runDoc(store.Op{}, func(res store.Result) reply {
		var deleted uint32
		if res.Deleted {
			deleted = 1
		}
		x := binary.BigEndian.AppendUint32(nil, deleted)
		x = binary.BigEndian.AppendUint32(x, res.Flags)
		x = binary.BigEndian.AppendUint32(x, res.Expiry)
		x = binary.BigEndian.AppendUint64(x, res.Rev)
		if v2 {
			x = append(x, byte(res.Types()))
		}
		return reply{cas: res.CAS, extras: x}
	})
}
