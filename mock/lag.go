package mock

import (
	"github.com/couchcore/couchcore/mock/internal/store"
)

// SetManifestLag lets nodes lag behind with a bucket's scopes and collections, or catch up. A node that lags goes on
// with those that the bucket has now, whatever becomes of them: it does not know a collection that is created later,
// names the uid of its own manifest when it says so, and takes documents of one that is dropped later. Arguments are as
// in SetConfigOverKV. The end of a bucket ends it, too.
func (c *Cluster) SetManifestLag(bucket string, on bool, nodes ...int) error {
	return c.onEach(bucket, nodes, func(at nodeBucket) {
		b := c.buckets[at.bucket]
		delete(b.lagging, at.node)
		if on {
			m := b.manifest.Clone()
			b.lagging[at.node] = &m
		}
	})
}

// manifest is the one that the request's node goes by. The caller holds the mutex.
func (rq *request) manifest() *store.Manifest {
	if m := rq.b.lagging[rq.k.n.index]; m != nil {
		return m
	}
	return &rq.b.manifest
}
