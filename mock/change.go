package mock

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/memd"
)

// change runs f under the mutex and, unless it fails, publishes a new revision of the configuration.
func (c *Cluster) change(f func() error) error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fmt.Errorf("mock: the cluster is closed")
	}
	if err := f(); err != nil {
		c.mu.Unlock()
		return err
	}
	c.version.rev++
	close(c.changed)
	c.changed = make(chan struct{})
	ps, v := c.pushes(), c.version
	c.mu.Unlock()
	c.tell("configuration", "epoch", v.epoch, "revision", v.rev)
	c.deliver(ps)
	return nil
}

// push is a notification on its way to one connection.
type push struct {
	k *conn
	b []byte
}

// pushes are the notifications for the connections that have asked for them, each of what it has selected: the version
// alone, or the whole configuration. The caller holds the mutex.
func (c *Cluster) pushes() []push {
	var ps []push
	for _, n := range c.nodes {
		for k := range n.conns {
			if b := c.notification(k); b != nil {
				ps = append(ps, push{k, b})
			}
		}
	}
	slices.SortFunc(ps, func(a, b push) int { return cmp.Compare(a.k.id, b.k.id) })
	return ps
}

// deliver sends notifications without waiting for anyone to read them.
func (c *Cluster) deliver(ps []push) {
	for _, p := range ps {
		p.k.send(p.b)
		c.spawn(p.k.flush)
	}
}

// notification is the push for one connection, nil when it wants none. The caller holds the mutex.
func (c *Cluster) notification(k *conn) []byte {
	granted := k.granted()
	brief := granted.Has(memd.FeatureClustermapChangeBrief)
	if k.user.Load() == nil || !brief && !granted.Has(memd.FeatureClustermapChange) {
		return nil
	}
	p := memd.Packet{Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange}
	if k.n.profile.has[factPushEpoch] {
		p.Extras = binary.BigEndian.AppendUint64(nil, uint64(c.version.epoch))
		p.Extras = binary.BigEndian.AppendUint64(p.Extras, uint64(c.version.rev))
	} else {
		p.Extras = binary.BigEndian.AppendUint32(nil, uint32(c.version.rev))
	}
	b := k.bucket.Load()
	if b != nil && b.gone { // the connection breaks
		return nil
	}
	if b != nil {
		p.Key = []byte(b.name)
	}
	if !brief {
		p.Datatype, p.Value = memd.DatatypeJSON, c.config(b, k.n)
	}
	k.pushed = c.version
	out, _ := p.AppendTo(nil) // lengths are ours
	return out
}

// PushMap sends a notification of the caller's making to the connections of a node that have asked for whole maps, and
// returns how many these are. The key names a bucket; an empty one means the whole cluster. Nothing says that key,
// version and map belong together: that is for the client to find out.
func (c *Cluster) PushMap(node int, key string, epoch, rev int64, config []byte) int {
	p := memd.Packet{
		Magic: memd.MagicServerReq, Opcode: memd.ServerOpClustermapChange, Key: []byte(key),
		Datatype: memd.DatatypeJSON, Value: config,
	}
	p.Extras = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(epoch)), uint64(rev))
	b, err := p.AppendTo(nil)
	if err != nil {
		return 0
	}
	var ps []push
	c.mu.Lock()
	if node >= 0 && node < len(c.nodes) {
		for k := range c.nodes[node].conns {
			if k.user.Load() != nil && k.granted().Has(memd.FeatureClustermapChange) {
				ps = append(ps, push{k, b})
			}
		}
	}
	c.mu.Unlock()
	slices.SortFunc(ps, func(a, b push) int { return cmp.Compare(a.k.id, b.k.id) })
	c.deliver(ps)
	return len(ps)
}

// Push notifies the connections that have asked for it once more of the configuration in force.
func (c *Cluster) Push() {
	c.mu.Lock()
	ps := c.pushes()
	c.mu.Unlock()
	c.deliver(ps)
}

// BumpRevision publishes the same configuration under the next revision.
func (c *Cluster) BumpRevision() { _ = c.change(func() error { return nil }) }

// BumpEpoch publishes the same configuration under the next epoch; its revision begins again at 1.
func (c *Cluster) BumpEpoch() {
	_ = c.change(func() error {
		c.version = version{epoch: c.version.epoch + 1}
		return nil
	})
}

// Revision returns epoch and revision of the configuration in force.
func (c *Cluster) Revision() (epoch, rev int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.version.epoch, c.version.rev
}

// CreateBucket adds a bucket over the nodes that have vbuckets. vbuckets 0 means the cluster's number.
func (c *Cluster) CreateBucket(name string, vbuckets int, opts ...BucketOption) error {
	set := bucketSettings{name: name, vbuckets: vbuckets, replicas: -1}
	for _, o := range opts {
		o(&set)
	}
	if err := c.set.complete(&set); err != nil {
		return err
	}
	if err := c.addBucket(&set); err != nil {
		return err
	}
	c.BumpRevision()
	return nil
}

// DropBucket removes a bucket with its documents and breaks the connections that have selected it.
func (c *Cluster) DropBucket(name string) error {
	var r remains
	err := c.change(func() error {
		b := c.buckets[name]
		if b == nil {
			return fmt.Errorf("mock: no bucket %q", name)
		}
		b.gone = true
		delete(c.buckets, name)
		for _, n := range c.nodes {
			for k := range n.conns {
				if k.bucket.Load() == b {
					r.conns = append(r.conns, k)
				}
			}
		}
		return nil
	})
	r.close()
	return err
}

// CreateScope adds a scope and returns its id.
func (c *Cluster) CreateScope(bucketName, scope string) (id uint32, err error) {
	err = c.changeBucket(bucketName, func(b *bucket) error {
		id, err = b.manifest.AddScope(scope)
		return err
	})
	return id, err
}

// DropScope removes a scope with its collections and their documents.
func (c *Cluster) DropScope(bucketName, scope string) error {
	return c.changeBucket(bucketName, func(b *bucket) error { return b.dropScope(scope) })
}

// dropScope removes a scope. The caller holds the mutex.
func (b *bucket) dropScope(scope string) error {
	ids, err := b.manifest.DropScope(scope)
	for _, id := range ids {
		b.store.DropCollection(id)
	}
	return err
}

// CreateCollection adds a collection, and its scope if that does not exist, and returns the collection's id.
func (c *Cluster) CreateCollection(bucketName, scope, collection string) (id uint32, err error) {
	err = c.changeBucket(bucketName, func(b *bucket) error {
		id, err = b.manifest.Ensure(scope, collection)
		return err
	})
	return id, err
}

// DropCollection removes a collection with its documents.
func (c *Cluster) DropCollection(bucketName, scope, collection string) error {
	return c.changeBucket(bucketName, func(b *bucket) error { return b.dropCollection(scope, collection) })
}

// dropCollection removes a collection. The caller holds the mutex.
func (b *bucket) dropCollection(scope, collection string) error {
	id, err := b.manifest.DropCollection(scope, collection)
	if err == nil {
		b.store.DropCollection(id)
	}
	return err
}

func (c *Cluster) changeBucket(name string, f func(*bucket) error) error {
	return c.change(func() error {
		b := c.buckets[name]
		if b == nil {
			return fmt.Errorf("mock: no bucket %q", name)
		}
		return f(b)
	})
}
