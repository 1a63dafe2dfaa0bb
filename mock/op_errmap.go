package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// GET_ERROR_MAP: version 1 or 2 of the map, or the newest that the release has; version 0 does not exist.

func getErrorMap(rq *request) reply {
	switch {
	case rq.p.VBucket != 0:
		return fail(memd.StatusInvalid, "Request vbucket id must be 0")
	case len(rq.p.Value) != 2:
		return fail(memd.StatusInvalid, "Request value must be of length 2")
	}
	c := rq.k.c
	c.mu.Lock()
	m := rq.k.n.profile.errors
	c.mu.Unlock()
	switch binary.BigEndian.Uint16(rq.p.Value) {
	case 0:
		return reply{status: memd.StatusKeyNotFound}
	case 1:
		return reply{datatype: memd.DatatypeJSON, value: m.v1}
	}
	return reply{datatype: memd.DatatypeJSON, value: m.v2}
}
