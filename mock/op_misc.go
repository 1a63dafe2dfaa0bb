package mock

import (
	"fmt"

	"github.com/couchcore/couchcore/memd"
)

// NOOP, VERSION, QUIT and STAT. STAT answers a handful of general statistics and, for the group "vbucket", the states of
// the node's vbuckets; any other group is unknown (0x01).

// serverVersion is what VERSION answers; the text behind the numbers says that this is no server.
const serverVersion = "7.6.0-0000-mock"

func noop(*request) reply { return reply{} }

func getVersion(*request) reply { return reply{value: []byte(serverVersion)} }

func quit(*request) reply { return reply{closes: true} }

func stat(rq *request) reply {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	var rep reply
	add := func(k, v string) { rep.before = append(rep.before, reply{key: []byte(k), value: []byte(v)}) }
	switch string(rq.p.Key) {
	case "":
		add("pid", "1")
		add("version", serverVersion)
		add("curr_connections", fmt.Sprint(len(rq.k.n.conns)))
		if rq.b != nil {
			add("vb_active_num", fmt.Sprint(rq.b.count(rq.k.n.index, true)))
			add("vb_replica_num", fmt.Sprint(rq.b.count(rq.k.n.index, false)))
		}
	case "vbucket":
		if rq.b == nil {
			return fail(memd.StatusNoBucket, "No bucket selected")
		}
		for vb, row := range rq.b.rows {
			for i, n := range row {
				if n == rq.k.n.index {
					add(fmt.Sprintf("vb_%d", vb), []string{"active", "replica"}[min(i, 1)])
				}
			}
		}
	default:
		return reply{status: memd.StatusKeyNotFound}
	}
	return rep
}

// count is how many vbuckets node holds, active ones or replicas. The caller holds the mutex.
func (b *bucket) count(node int, active bool) int {
	var sum int
	for _, row := range b.rows {
		for i, n := range row {
			if n == node && (i == 0) == active {
				sum++
			}
		}
	}
	return sum
}
