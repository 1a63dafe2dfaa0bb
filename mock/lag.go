package mock

import (
	"fmt"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// SetManifestLag lets nodes lag behind with a bucket's scopes and collections, or catch up. A node that lags goes on
// with those that the bucket has now, whatever becomes of them: it does not know a collection that is created later,
// names the uid of its own manifest when it says so, and takes documents of one that is dropped later. Arguments are as
// in SetConfigOverKV. The end of a bucket ends it, too.
func (c *Cluster) SetManifestLag(bucket string, on bool, nodes ...int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	names := []string{bucket}
	if bucket == "" {
		names = sortedKeys(c.buckets)
	} else if c.buckets[bucket] == nil {
		return fmt.Errorf("mock: no bucket %q", bucket)
	}
	for _, i := range c.orAll(nodes) {
		for _, name := range names {
			b := c.buckets[name]
			delete(b.lagging, i)
			if on {
				m := b.manifest.Clone()
				b.lagging[i] = &m
			}
		}
	}
	return nil
}

// manifest is the one that the request's node goes by. The caller holds the mutex.
func (rq *request) manifest() *store.Manifest {
	if m := rq.b.lagging[rq.k.n.index]; m != nil {
		return m
	}
	return &rq.b.manifest
}
