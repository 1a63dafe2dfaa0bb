package mock

import (
	"encoding/binary"

	"github.com/couchcore/couchcore/memd"
)

// GET_CLUSTER_CONFIG: the selected bucket's configuration, or the cluster's when none is selected, for every account.
// With the version that the client knows the answer is empty when there is nothing newer; HELLO need not have granted
// that. Left out: the privilege that a server asks for on the cluster's configuration.

func getClusterConfig(rq *request) reply {
	var known version
	if len(rq.p.Extras) == 16 {
		if !rq.has(factKnownVersion) {
			return fail(memd.StatusInvalid, "Request must not include extras")
		}
		known.epoch = int64(binary.BigEndian.Uint64(rq.p.Extras))
		known.rev = int64(binary.BigEndian.Uint64(rq.p.Extras[8:]))
		if known.rev < 1 || known.epoch < 1 && known.epoch != -1 {
			return fail(memd.StatusInvalid, "Revision number must not be less than 1")
		}
	}
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if rq.switched(c.switches.noConfig) {
		return reply{status: memd.StatusNotSupported}
	}
	if rq.b != nil && rq.b.gone {
		return reply{status: memd.StatusKeyNotFound}
	}
	rq.k.pushed = c.version
	if known != (version{}) && !c.version.newer(known) {
		return reply{}
	}
	rep := reply{datatype: memd.DatatypeJSON, value: c.config(rq.b, rq.k.n)}
	rq.packConfig(&rep)
	return rep
}
