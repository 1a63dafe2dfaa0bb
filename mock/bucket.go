package mock

import (
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/snappy"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// bucket is one bucket of the cluster. The cluster's mutex guards everything that changes.
type bucket struct {
	name      string
	uuid      string
	replicas  int // of the maps; the settings' number is in force after the next rebalance
	ephemeral bool
	level     memd.DurabilityLevel // least durability of a write
	lww       bool                 // conflicts are resolved by time
	kind      string               // as bucketSettings has it
	store     *store.Store

	settings    management.BucketSettings
	compression compression
	encoder     snappy.Encoder
	scans       int           // range scans at present
	scanLimit   int           // how many there may be, 0 for the usual number
	scanPace    time.Duration // pause before each packet of a scan
	durability  Durability

	manifest store.Manifest
	lagging  map[int]*store.Manifest // by node: of those that lag behind
	rows     [][]int                 // per vbucket: the active node's number, then the replicas'; -1: no node
	forward  [][]int                 // where a rebalance is heading, nil outside of one
	pending  map[pendingKey]pendingState
	gone     bool // dropped; connections that selected it notice at their next request

	cached   map[int][]byte // configuration by node, of version cachedAt
	cachedAt version
}

// pendingKey names a document with a durable write under way.
type pendingKey struct {
	vb  uint16
	cid uint32
	key string
}

// addBucket builds a bucket over the nodes that are active. It does not touch the revision.
func (c *Cluster) addBucket(set *bucketSettings) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.buckets[set.name] != nil {
		return fmt.Errorf("mock: bucket %q exists", set.name)
	}
	b := &bucket{
		name: set.name, uuid: c.set.newUUID(), replicas: set.replicas, kind: set.kind,
		ephemeral: set.kind == kindEphemeral,
		manifest:  store.NewManifest(), lagging: map[int]*store.Manifest{}, pending: map[pendingKey]pendingState{},
	}
	b.apply(set.settingsOf(c.managementVersion(c.set.release)))
	if b.memcached() {
		b.store = store.NewMemcached(maxNodes)
	} else {
		b.rows = make([][]int, set.vbuckets)
		b.store = store.New(set.vbuckets)
	}
	b.store.Journal = c.set.journal != nil
	for vb, row := range spread(c.active(), len(b.rows), set.replicas) {
		b.setRow(vb, row)
	}
	for _, path := range set.paths {
		scope, name, _ := strings.Cut(path, ".")
		if _, err := b.manifest.Ensure(scope, name); err != nil {
			return err
		}
	}
	c.buckets[set.name] = b
	return nil
}

// storage is what statistics call the type of the bucket.
func (b *bucket) storage() string {
	if b.ephemeral {
		return "ephemeral"
	}
	return "persistent"
}

// setRow changes who holds a vbucket, and lets the documents follow. The caller holds the mutex.
func (b *bucket) setRow(vb int, row []int) {
	b.rows[vb] = row
	b.store.Assign(vb, row)
}

// active are the numbers of the nodes with a place in the maps. The caller holds the mutex.
func (c *Cluster) active() []int {
	var ns []int
	for _, n := range c.nodes {
		if n.member == memberActive && n.runs[KVService] {
			ns = append(ns, n.index)
		}
	}
	return ns
}

// spread lays vbuckets out over nodes: contiguous runs of active ones, and replicas that rotate over the other nodes.
func spread(nodes []int, vbuckets, replicas int) [][]int {
	rows := make([][]int, vbuckets)
	for vb := range rows {
		row := make([]int, 1+replicas)
		first := 0
		if len(nodes) > 0 {
			first = vb * len(nodes) / vbuckets
		}
		for i := range row {
			row[i] = -1
			if i >= len(nodes) {
				continue
			}
			at := first
			if i > 0 {
				at = (first + 1 + (vb+i-1)%(len(nodes)-1)) % len(nodes)
			}
			row[i] = nodes[at]
		}
		rows[vb] = row
	}
	return rows
}
