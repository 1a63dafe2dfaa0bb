package mock

import (
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/mock/internal/store"
)

// Documents returns the documents of a bucket that are not deleted or expired, as the active nodes have them, ordered
// by vbucket, collection and key; nil for a bucket that does not exist.
func (c *Cluster) Documents(bucket string) []Document {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[bucket]
	if b == nil {
		return nil
	}
	return b.store.Documents(c.now())
}

// Buckets are the names of the buckets, in order.
func (c *Cluster) Buckets() []string { return host{c}.Buckets() }

// CollectionName is the "scope.collection" of a collection's id, as Document and Applied have it; empty when the bucket
// or the collection does not exist.
func (c *Cluster) CollectionName(bucketName string, id uint32) (name string) {
	_ = c.withBucket(bucketName, func(b *bucket) { name = b.manifest.Path(id) }) // without a bucket it stays empty
	return name
}

// Collections are the "scope.collection" of a bucket's collections, in the order of the manifest; nil for a bucket that
// does not exist.
func (c *Cluster) Collections(bucketName string) (names []string) {
	for _, s := range (host{c}).Scopes(bucketName) {
		for _, col := range s.Collections {
			names = append(names, s.Name+"."+col.Name)
		}
	}
	return names
}

// Where returns the vbucket of a key and the numbers of its nodes: the active one, then the replicas; -1 for a copy
// that has no node. It fails for a bucket that does not exist or has no vbuckets.
func (c *Cluster) Where(bucketName, key string) (vbucket int, nodes []int, err error) {
	err = c.withVBucket(bucketName, key, func(b *bucket, vb uint16) {
		vbucket, nodes = int(vb), slices.Clone(b.rows[vb])
	})
	return vbucket, nodes, err
}

// Flush removes all documents of a bucket at once, with their tombstones and the vbuckets' histories. The apply log
// stays.
func (c *Cluster) Flush(bucket string) error {
	return c.withStore(bucket, func(s *store.Store) { s.Flush() })
}

// SetReplicaLag lets replicas of a bucket be behind by a time; at first they are not. A mutation that no replica has
// yet is lost when its active node fails over, and GET_REPLICA does not see it. Durable writes wait for the replicas
// whatever the lag; MoveVBucket and Rebalance lose nothing. A lag of 0 brings the replicas up to date. OBSERVE and
// OBSERVE_SEQNO tell of each copy as it is.
func (c *Cluster) SetReplicaLag(bucket string, lag time.Duration) error {
	return c.withStore(bucket, func(s *store.Store) { s.SetLag(max(0, lag)) })
}

// Now is the time by which documents expire and locks end: the real one, moved by TimeTravel.
func (c *Cluster) Now() time.Time { return c.now() }

func (c *Cluster) now() time.Time { return time.Now().Add(time.Duration(c.travelled.Load())) }

// TimeTravel moves the time by which documents expire, locks end and lags are over, forward or back. Several calls add
// up. Nothing else notices.
func (c *Cluster) TimeTravel(d time.Duration) { c.travelled.Add(int64(d)) }

// SetPersistLag lets the disks of a bucket's nodes be behind by a time, from now on; at first they are not. OBSERVE,
// OBSERVE_SEQNO, SEQNO_PERSISTENCE and scans that want a snapshot see it; nothing is ever lost by it. Durable writes
// with a level above majority do not wait for it: what they write, and all before it, is on disk at once.
func (c *Cluster) SetPersistLag(bucket string, lag time.Duration) error {
	return c.withStore(bucket, func(s *store.Store) { s.SetDiskLag(max(0, lag)) })
}

// LimitApplyLog makes a bucket forget all but the newest n entries of its apply log, now and from now on; 0 ends that.
func (c *Cluster) LimitApplyLog(bucket string, n int) error {
	return c.withStore(bucket, func(s *store.Store) { s.Limit(max(0, n)) })
}

// ClearApplyLog forgets the mutations that a bucket's nodes have executed so far.
func (c *Cluster) ClearApplyLog(bucket string) error {
	return c.withStore(bucket, (*store.Store).ClearLog)
}

func (c *Cluster) withStore(name string, f func(*store.Store)) error {
	return c.withBucket(name, func(b *bucket) { f(b.store) })
}

// Copy is what one node has of a document.
type Copy struct {
	Node   int
	Place  int       // 0 is the active node, others are replicas, counted from 1
	Memory *Document // nil when it has none there
	Disk   *Document // the same
}

// Copies are the copies of a document in the default collection, in the order of their places. Places without a node
// are left out. It fails for a bucket that does not exist or has no vbuckets.
func (c *Cluster) Copies(name, key string) ([]Copy, error) {
	var out []Copy
	err := c.withVBucket(name, key, func(b *bucket, vb uint16) {
		for place, node := range b.rows[vb] {
			if node >= 0 {
				memory, disk := b.store.MemoryAndDisk(vb, node, key, c.now())
				out = append(out, Copy{node, place, memory, disk})
			}
		}
	})
	return out, err
}

// ChangeCopies changes what nodes have of a document in the default collection, in memory and on disk, as if each had
// lost or kept it on its own. Unless with is nil the document first gets its Value and CAS; otherwise it is what the
// active node has. A later write of the document ends what was done to it.
func (c *Cluster) ChangeCopies(name, key string, nodes []int, do CopyChange, with *Document) error {
	return c.withVBucket(name, key, func(b *bucket, vb uint16) {
		b.store.ChangeCopies(vb, nodes, key, do, with, c.now())
	})
}

func (c *Cluster) withVBucket(name, key string, f func(b *bucket, vb uint16)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	if b == nil || b.memcached() {
		return fmt.Errorf("mock: no bucket %q with vbuckets", name)
	}
	f(b, VBucketOf([]byte(key), len(b.rows)))
	return nil
}

// RenewHistories gives every vbucket of a bucket a new history, as a failover does that loses nothing.
func (c *Cluster) RenewHistories(bucket string) error {
	return c.withStore(bucket, (*store.Store).ForkAll)
}
