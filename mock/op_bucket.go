package mock

import "github.com/couchcore/couchcore/memd"

// SELECT_BUCKET: no access (0x24) for an account without rights to the name, whether the bucket exists or not; 0x01 for
// an account with rights when the node does not serve it. "@no bucket@" deselects. On failure the connection stays with
// its previous bucket. Left out: warm-up, the limit of connections per bucket.

const noBucket = "@no bucket@"

func selectBucket(rq *request) reply {
	k, name := rq.k, string(rq.p.Key)
	c := k.c
	if name == noBucket || name == "" {
		k.bucket.Store(nil)
		return reply{}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !rq.user.may(name) {
		return fail(memd.StatusAccess, "No access to bucket %q", name)
	}
	b := c.buckets[name]
	if b == nil || k.n.member == memberOut {
		return reply{status: memd.StatusKeyNotFound}
	}
	k.bucket.Store(b)
	k.pushed = version{}
	return reply{}
}
