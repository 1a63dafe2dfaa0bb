package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// GET_ERROR_MAP: version 1 or 2 of the map; a higher version asked for gets 2, version 0 does not exist.

func getErrorMap(rq *request) reply {
	if len(rq.p.Value) != 2 {
		return fail(memd.StatusInvalid, "GET_ERROR_MAP needs two bytes of version")
	}
	c := rq.k.c
	c.mu.Lock()
	m := c.errorMap
	c.mu.Unlock()
	switch binary.BigEndian.Uint16(rq.p.Value) {
	case 0:
		return reply{status: memd.StatusKeyNotFound}
	case 1:
		return reply{datatype: memd.DatatypeJSON, value: m.v1}
	}
	return reply{datatype: memd.DatatypeJSON, value: m.v2}
}
