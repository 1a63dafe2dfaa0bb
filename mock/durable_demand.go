package mock

import (
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Durability is how the durable writes of a bucket go.
type Durability struct {
	// Time is how long they take when nothing stands in their way; 0 means 3 ms.
	Time time.Duration
	// Ambiguous lets them end as ambiguous (0xa3) after that time.
	Ambiguous bool
	// Applied says that the ambiguous ones are applied all the same.
	Applied bool
	// Impossible refuses them at once (0xa1), as if the map named too few copies.
	Impossible bool
}

// SetDurability changes how durable writes of a bucket go that begin from now on. The zero value brings back what a
// healthy bucket does.
func (c *Cluster) SetDurability(name string, d Durability) error {
	return c.withBucket(name, func(b *bucket) { b.durability = d })
}

// pendingState is what a document waits for.
type pendingState uint8

const (
	// a durable write: other writes are refused with 0xa2, reads see what was before
	pendingPrepare  pendingState = iota
	pendingRecommit              // the node commits it again after a failover: all is refused with 0xa4
)

// HoldPrepare makes a document look as if a durable write of it were under way, until release is called: every other
// write is answered with SYNC_WRITE_IN_PROGRESS (0xa2), reads see the document as it is. Collection is
// "scope.collection", or empty for the default one. The document need not exist.
func (c *Cluster) HoldPrepare(bucketName, collection, key string) (release func(), err error) {
	return c.holdDocument(bucketName, collection, key, pendingPrepare)
}

// HoldRecommit makes a document look as if its active node committed it again after a failover, until release is
// called: every read and write of it is answered with SYNC_WRITE_RE_COMMIT_IN_PROGRESS (0xa4). Arguments are as in
// HoldPrepare.
func (c *Cluster) HoldRecommit(bucketName, collection, key string) (release func(), err error) {
	return c.holdDocument(bucketName, collection, key, pendingRecommit)
}

func (c *Cluster) holdDocument(bucketName, collection, key string, st pendingState) (release func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucketName]
	if b == nil {
		return nil, fmt.Errorf("mock: no bucket %q", bucketName)
	}
	if b.memcached() {
		return nil, fmt.Errorf("mock: bucket %q has no durable writes", bucketName)
	}
	scopeName, name, _ := strings.Cut(collection, ".")
	s := b.manifest.Scope(orDefault(scopeName))
	if s == nil || s.Collection(orDefault(name)) == nil {
		return nil, fmt.Errorf("mock: no collection %q", collection)
	}
	id := pendingKey{VBucketOf([]byte(key), len(b.rows)), s.Collection(orDefault(name)).ID, key}
	if _, ok := b.pending[id]; ok {
		return nil, fmt.Errorf("mock: document %q waits already", key)
	}
	b.pending[id] = st
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(b.pending, id)
	}, nil
}

// VBucketOf is the vbucket of a key, without its collection's prefix, in a bucket with a number of vbuckets.
func VBucketOf(key []byte, vbuckets int) uint16 {
	return uint16(crc32.ChecksumIEEE(key) >> 16 & 0x7fff % uint32(vbuckets))
}

// waits says what a request is answered while its document waits for something. The caller holds the mutex.
func (rq *request) waits() (reply, bool) {
	st, ok := rq.b.pending[rq.pendingKey()]
	switch {
	case !ok:
	case st == pendingRecommit:
		return fail(memd.StatusSyncWriteReCommitInProgress, "The document is committed again"), true
	case rq.spec.mutates:
		return fail(memd.StatusSyncWriteInProgress, "A durable write of the document is under way"), true
	}
	return reply{}, false
}
