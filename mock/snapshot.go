package mock

import (
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/mock/internal/management"
	"github.com/couchcore/couchcore/mock/internal/services"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// Snapshot is what a cluster has at one time: buckets with their scopes, collections and documents, the definitions of
// indexes, datasets and design documents, functions of the eventing service, and accounts. Restore brings it back, as
// often as needed.
type Snapshot struct {
	of         *Cluster
	buckets    []savedBucket
	users      map[string]user
	services   *services.Saved
	management *management.Saved
}

type savedBucket struct {
	settings bucketSettings
	uuid     string
	manifest store.Manifest
	docs     *store.Saved
}

// Snapshot keeps what the cluster has now. Nodes, faults, scripts, logs and the clock are not part of it.
func (c *Cluster) Snapshot() *Snapshot {
	s := &Snapshot{of: c, users: map[string]user{}, services: c.services.Save(), management: c.management.Save()}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range sortedKeys(c.buckets) {
		b := c.buckets[name]
		s.buckets = append(s.buckets, savedBucket{
			settings: b.remade(), uuid: b.uuid, manifest: b.manifest.Clone(), docs: b.store.Save(c.now()),
		})
	}
	for name, u := range c.users {
		s.users[name] = *u
	}
	return s
}

// remade are the settings by which the bucket can be made again.
func (b *bucket) remade() bucketSettings {
	full := b.settings
	return bucketSettings{name: b.name, vbuckets: len(b.rows), replicas: b.replicas, kind: b.kind, full: &full}
}

// Restore brings back what a snapshot of the same cluster has. Buckets that were made since are dropped, and those that
// were dropped are made again. Documents have the CAS that they had; their vbuckets have new histories, so that clients
// notice. Writes under way end as they do when their bucket is flushed.
func (c *Cluster) Restore(s *Snapshot) error {
	if s.of != c {
		return fmt.Errorf("mock: the snapshot is of another cluster")
	}
	release, err := c.exclusively()
	if err != nil {
		return err
	}
	defer release()
	if err := c.restoreBuckets(s); err != nil {
		return err
	}
	renamed := map[string]string{}
	err = c.change(func() error {
		for i := range s.buckets {
			saved := &s.buckets[i]
			b := c.buckets[saved.settings.name]
			if b == nil {
				return fmt.Errorf("mock: bucket %q was dropped meanwhile", saved.settings.name)
			}
			renamed[saved.uuid] = b.uuid
			b.apply(*saved.settings.full)
			b.manifest.Restore(&saved.manifest)
			clear(b.lagging)
			b.store.Load(saved.docs)
			clear(b.pending)
		}
		c.restoreUsers(s)
		return nil
	})
	if err != nil {
		return err
	}
	c.services.Load(s.services, renamed)
	c.management.Load(s.management)
	return nil
}

// restoreBuckets drops and makes buckets until those of the snapshot are there.
func (c *Cluster) restoreBuckets(s *Snapshot) error {
	c.mu.Lock()
	names := sortedKeys(c.buckets)
	var missing []int
	for i := range s.buckets {
		saved := &s.buckets[i]
		b := c.buckets[saved.settings.name]
		if b == nil || len(b.rows) != saved.settings.vbuckets || b.kind != saved.settings.kind {
			missing = append(missing, i)
			continue
		}
		names = slices.DeleteFunc(names, func(name string) bool { return name == b.name })
	}
	c.mu.Unlock()
	for _, name := range names {
		if err := c.DropBucket(name); err != nil {
			return err
		}
	}
	for _, i := range missing {
		set := s.buckets[i].settings
		if err := c.addBucket(&set); err != nil {
			return err
		}
	}
	return nil
}

// restoreUsers brings back the accounts. Those that connections are logged in as stay the same objects. The caller
// holds the mutex.
func (c *Cluster) restoreUsers(s *Snapshot) {
	for name := range c.users {
		if _, ok := s.users[name]; !ok {
			delete(c.users, name)
		}
	}
	for name, u := range s.users {
		if old := c.users[name]; old != nil {
			*old = u
			continue
		}
		c.users[name] = &u
	}
}
