package mock

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// manager answers what the management service asks of the cluster.
type manager struct{ c *Cluster }

// marshal is v as JSON; v is made of our own maps, strings and numbers, which cannot fail.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// managementVersion is the cluster's compatibility, as a node of that release tells it. The caller holds the mutex.
func (c *Cluster) managementVersion(r release) management.Version {
	compat := c.compat()
	return management.Version{Text: r.httpVersion(), Major: int(compat.major()), Minor: int(compat.minor())}
}

// caller is an account as the management service knows it. Without one the request had no credentials.
func (c *Cluster) caller(u *user) *management.Caller {
	if u == nil {
		return &management.Caller{}
	}
	out := &management.Caller{Name: u.name, Domain: "local", Rights: u.rights()}
	switch {
	case u.external:
		out.Domain = "external"
	case u.name == c.administrator():
		out.Domain = "admin"
	}
	return out
}

// administrator is the name of the one that every cluster has.
func (c *Cluster) administrator() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.builtIn
}

// firstAdministrator is the first account of the options that may do everything.
func firstAdministrator(users []*user) string {
	for _, u := range users {
		if u.admin && !u.external {
			return u.name
		}
	}
	return DefaultUser
}

func (u *user) rights() management.Rights {
	return management.Rights{Admin: u.admin, Looks: u.looks, Reads: u.reads, Buckets: sortedKeys(u.buckets)}
}

// openPath reports whether the management service answers a request without credentials. One with wrong credentials is
// refused all the same.
func (c *Cluster) openPath(r *http.Request) bool {
	return r.Header.Get("Authorization") == "" && c.management.Open(r)
}

func (m manager) Cluster(self int) *management.Cluster {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	out := &management.Cluster{
		Name: c.name, UUID: c.uuid, Rev: c.version.rev, RevEpoch: c.version.epoch,
		Version: c.managementVersion(c.nodes[self].profile.release),
		Admin:   c.builtIn, Rebalanced: true, Changed: c.changed,
	}
	if c.ca != nil {
		out.CA = string(c.ca.pem)
	}
	for _, n := range c.nodes {
		if n.member == memberOut && !n.failed {
			continue
		}
		out.Nodes = append(out.Nodes, n.described(n.index == self))
		out.Rebalanced = out.Rebalanced && n.member == memberActive
	}
	for _, name := range sortedKeys(c.buckets) {
		b := c.buckets[name]
		out.Buckets = append(out.Buckets, management.Bucket{
			BucketSettings: b.settings, UUID: b.uuid, Nodes: c.active(), VBuckets: len(b.rows),
		})
		out.Rebalanced = out.Rebalanced && (b.replicas == b.settings.Replicas || b.memcached())
	}
	return out
}

// described is the node for the management service. The caller holds the mutex.
func (n *Node) described(self bool) management.Node {
	out := management.Node{
		Index: n.index, Name: n.name(), Host: n.host, Hostname: n.mgmt, UUID: n.uuid, Group: n.group, Self: self,
		Up: n.up, Membership: management.Active, Recovery: n.recovery, Services: n.serviceNames(),
		Ports: n.servicePorts(), Version: n.profile.release.httpVersion(),
		Views: n.addrs[ViewsService], External: n.external,
	}
	switch {
	case n.failed && n.recovery == "":
		out.Membership = management.InactiveFailed
	case n.member != memberActive:
		out.Membership = management.InactiveAdded
	}
	return out
}

// name is what management calls the node. Nodes of one machine differ by their number, as those of several by their
// address.
func (n *Node) name() string {
	if n.c.net == nil {
		return "n_" + strconv.Itoa(n.index) + "@" + n.host
	}
	return "ns_1@" + n.host
}

func (m manager) Version(self int) management.Version {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.managementVersion(c.nodes[self].profile.release)
}

func (m manager) Terse(name string, self int) []byte {
	c := m.c
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	if b == nil && name != "" {
		return nil
	}
	return c.config(b, c.nodes[self])
}

func (m manager) BucketPart(name string, _ int) (text []byte) {
	_ = m.c.withBucket(name, func(b *bucket) { text = marshal(m.c.bucketConfig(b)) }) // none without the bucket
	return text
}

func (m manager) Apart() time.Duration { return m.c.set.apart }

func (m manager) Usage(name string) (documents, bytes int) {
	_ = m.c.withBucket(name, func(b *bucket) { documents, bytes = b.store.Usage(m.c.now()) }) // the same
	return documents, bytes
}

func (m manager) Manifest(name string) (text []byte, uid uint64) {
	_ = m.c.withBucket(name, func(b *bucket) { text, uid = b.manifest.JSON(), b.manifest.UID }) // the same
	return text, uid
}

func (m manager) Designs(name string) []management.Design {
	var out []management.Design
	for _, d := range m.c.services.Designs(name) {
		out = append(out, management.Design{Name: d.Name, Rev: d.Rev, JSON: d.JSON})
	}
	return out
}

func (m manager) SetClusterName(name string) {
	_ = m.c.change(func() error { // fails only when the cluster ends, and then the answer is not read
		m.c.name = name
		return nil
	})
}

func (m manager) CreateBucket(set *management.BucketSettings, vbuckets int) error {
	opts := bucketSettings{name: set.Name, vbuckets: vbuckets, replicas: set.Replicas, full: set}
	switch set.Type {
	case management.Ephemeral:
		opts.kind = kindEphemeral
	case management.Memcached:
		opts.kind = kindMemcached
	}
	if err := m.c.set.complete(&opts); err != nil {
		return err
	}
	if err := m.c.addBucket(&opts); err != nil {
		return err
	}
	m.c.BumpRevision()
	return nil
}

// FillSample implements management.Host.
func (m manager) FillSample(bucket string) error {
	if bucket != BeerBucket {
		return nil
	}
	return m.c.Load(BeerSample())
}

func (m manager) UpdateBucket(set *management.BucketSettings) error {
	return m.c.changeBucket(set.Name, func(b *bucket) error {
		b.apply(*set)
		return nil
	})
}

func (m manager) DropBucket(name string) error  { return m.c.DropBucket(name) }
func (m manager) FlushBucket(name string) error { return m.c.Flush(name) }

func (m manager) ChangeManifest(name string, change management.ManifestChange) (uid uint64, err error) {
	err = m.c.changeBucket(name, func(b *bucket) error {
		if err := b.changeManifest(change, m.c.compat()); err != nil {
			return err
		}
		uid = b.manifest.UID
		return nil
	})
	var wrong *store.ManifestError
	if errors.As(err, &wrong) {
		r := &management.Refusal{Status: http.StatusBadRequest, Text: wrong.Text}
		if wrong.Missing {
			r.Status = http.StatusNotFound
		}
		return 0, r
	}
	return uid, err
}

// changeManifest does what the management service asks for. The caller holds the mutex.
func (b *bucket) changeManifest(change management.ManifestChange, compat release) error {
	set := func(c *store.Collection) {
		if change.MaxTTL != nil {
			c.MaxTTL = *change.MaxTTL
		}
		if change.History != nil {
			c.History = *change.History
		}
	}
	scope, collection := change.Scope, change.Collection
	switch {
	case change.Do == management.Add && collection == "":
		_, err := b.manifest.AddScope(scope)
		return err
	case change.Do == management.Add:
		if _, err := b.manifest.AddCollection(scope, collection, 0); err != nil {
			return err
		}
		made := b.manifest.Scope(scope).Collection(collection)
		made.History = b.keepsHistory(compat)
		set(made)
		return nil
	case change.Do == management.Modify:
		return b.manifest.Modify(scope, collection, set)
	case collection == "":
		return b.dropScope(scope)
	}
	return b.dropCollection(scope, collection)
}

// keepsHistory reports whether new collections keep a history, in name.
func (b *bucket) keepsHistory(compat release) bool {
	return b.settings.Backend == management.Magma && b.settings.HistoryDefault && compat >= v72
}

// durabilityLevels are the levels by the names that settings have.
var durabilityLevels = map[string]memd.DurabilityLevel{
	"none": memd.DurabilityNone, "majority": memd.DurabilityMajority,
	"majorityAndPersistActive": memd.DurabilityMajorityAndPersistToActive,
	"persistToMajority":        memd.DurabilityPersistToMajority,
}

// apply makes settings those of the bucket. Another number of replicas waits for a rebalance.
func (b *bucket) apply(set management.BucketSettings) {
	b.settings = set
	b.level, b.lww = durabilityLevels[set.DurabilityMinLevel], set.ConflictResolution == "lww"
	b.compression = compressionModes[set.CompressionMode]
}

// settingsOf are the settings of a bucket that options describe. It has views, and so is not one of magma, which
// buckets made over HTTP are since 8.0 unless they say otherwise.
func (b *bucketSettings) settingsOf(v management.Version) management.BucketSettings {
	if b.full != nil {
		return *b.full
	}
	kind := ""
	switch b.kind {
	case kindEphemeral:
		kind = management.Ephemeral
	case kindMemcached:
		kind = management.Memcached
	}
	out := management.DefaultSettings(b.name, kind, management.Couchstore, v)
	out.Replicas, out.Flush = b.replicas, true
	for name, level := range durabilityLevels {
		if level == b.level {
			out.DurabilityMinLevel = name
		}
	}
	if b.lww {
		out.ConflictResolution = "lww"
	}
	for name, mode := range compressionModes {
		if mode == b.compression && b.kind != kindMemcached {
			out.CompressionMode = name
		}
	}
	return out
}

// maxTTL is how long the documents of a collection may live: as the collection says, or else as the bucket does.
func (b *bucket) maxTTL(cid uint32) int32 {
	if ttl := b.manifest.MaxTTL(cid); ttl != 0 {
		return ttl
	}
	return int32(b.settings.MaxTTL)
}
