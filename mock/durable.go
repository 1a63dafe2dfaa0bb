package mock

import (
	"cmp"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// prepare begins a write that waits for durability: it takes some milliseconds, during which another write of the
// document is refused with 0xa2. It is refused at once when the vbucket has too few copies by the map (0xa1), and ends
// as ambiguous (0xa3), without being applied, when too few of those that the map names are running.
func (rq *request) prepare() (rep reply, wait func() (reply, bool)) {
	c := rq.k.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if rep, ok := rq.place(); !ok {
		return rep, nil
	}
	if rq.b.ephemeral && rq.level > memd.DurabilityMajority {
		return fail(memd.StatusDurabilityInvalidLevel, "The bucket has no disk to write to"), nil
	}
	if rq.b.durability.Impossible || rq.b.replicas > 2 || rq.copies(false) < rq.majority() {
		return fail(memd.StatusDurabilityImpossible, "Too few replicas for the durability level"), nil
	}
	if rep, ok := rq.waits(); ok {
		return rep, nil
	}
	rq.b.pending[rq.pendingKey()] = pendingPrepare
	enough, how := rq.copies(true) >= rq.majority(), rq.b.durability
	return reply{}, func() (reply, bool) { return rq.commit(enough, how) }
}

// commit is the second half of a durable write. A connection that ends meanwhile does not stop it, as on a server; only
// the cluster's end does, for which ok is false.
func (rq *request) commit(enough bool, how Durability) (rep reply, ok bool) {
	if enough {
		rq.pause(cmp.Or(how.Time, durableTime))
	} else {
		enough = rq.waitForCopies()
	}
	c := rq.k.c
	c.mu.Lock()
	delete(rq.b.pending, rq.pendingKey())
	closed := c.closed
	c.mu.Unlock()
	switch {
	case closed:
		return reply{}, false
	case how.Ambiguous && how.Applied:
		rq.committing = true
		rq.spec.run(rq)
		return fail(memd.StatusSyncWriteAmbiguous, "Timed out before enough copies had the write"), true
	case !enough, how.Ambiguous:
		return fail(memd.StatusSyncWriteAmbiguous, "Timed out before enough copies had the write"), true
	}
	rq.committing = true
	return rq.spec.run(rq), true
}

// waitForCopies looks for enough running copies until the write's time is up.
func (rq *request) waitForCopies() bool {
	limit := rq.timeout
	if limit == 0 {
		limit = durableDefault
	}
	for end := time.Now().Add(limit); time.Now().Before(end); {
		if !rq.pause(min(10*time.Millisecond, time.Until(end))) {
			return false
		}
		rq.k.c.mu.Lock()
		enough := rq.copies(true) >= rq.majority()
		rq.k.c.mu.Unlock()
		if enough {
			return true
		}
	}
	return false
}

func (rq *request) majority() int { return (1+rq.b.replicas)/2 + 1 }

// copies counts the nodes that the map names for the request's vbucket, all or those running. The caller holds the
// mutex and has placed the request.
func (rq *request) copies(running bool) int {
	var sum int
	for _, n := range rq.b.rows[rq.p.VBucket] {
		if n >= 0 && (!running || rq.k.c.nodes[n].up) {
			sum++
		}
	}
	return sum
}

func (rq *request) pendingKey() pendingKey {
	return pendingKey{rq.p.VBucket, rq.cid, string(rq.key)}
}
