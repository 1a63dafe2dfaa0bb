package mock

import (
	"fmt"
	"slices"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/store"
)

// controlKey changes a document on the nodes that the payload names.
func controlKey(act store.Change) func(*Cluster, args) (any, error) {
	return func(c *Cluster, a args) (any, error) {
		key, name, err := c.keyOf(a)
		if err != nil {
			return nil, err
		}
		master, err := a.flag("OnMaster", false)
		switch {
		case err != nil:
			return nil, err
		case a["OnMaster"] == nil:
			return nil, missing("OnMaster")
		case a["OnReplicas"] == nil:
			return nil, missing("OnReplicas")
		}
		cas, err := a.number("CAS", ptr(int64(0)))
		if err != nil {
			return nil, err
		}
		value, err := a.text("Value", "")
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		b := c.buckets[name]
		if b == nil || b.memcached() {
			return nil, fmt.Errorf("No such bucket: %s", name) //nolint:staticcheck // the text that clients know
		}
		vb := VBucketOf([]byte(key), len(b.rows))
		nodes, err := b.copiesOf(a, vb, master)
		if err != nil {
			return nil, err
		}
		b.store.ChangeCopies(vb, nodes, key, act, cas, value, c.now())
		return nil, nil
	}
}

// keyOf are the key and the bucket of a command, whose names begin with capitals.
func (c *Cluster) keyOf(a args) (key, bucket string, err error) {
	if key, err = a.text("Key", ""); err == nil && key == "" {
		key, err = a.text("key", "")
	}
	if err == nil && key == "" {
		err = missing("Key")
	}
	if err != nil {
		return "", "", err
	}
	bucket, err = a.text("Bucket", DefaultBucket)
	return key, bucket, err
}

// copiesOf are the nodes that a command is for: the active one, and the first n replicas or those at some places.
func (b *bucket) copiesOf(a args, vb uint16, master bool) ([]int, error) {
	row := b.rows[vb]
	var nodes []int
	if master {
		nodes = append(nodes, row[0])
	}
	live := slices.DeleteFunc(slices.Clone(row[1:]), func(n int) bool { return n < 0 })
	if n, ok := a["OnReplicas"].(float64); ok {
		if int(n) < 0 || int(n) > len(live) {
			return nil, fmt.Errorf("%d replicas, there are %d", int(n), len(live))
		}
		return append(nodes, live[:int(n)]...), nil
	}
	places, err := a.list("OnReplicas")
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		if p < 0 || p >= len(row)-1 || row[1+p] < 0 {
			return nil, fmt.Errorf("no replica %d", p)
		}
		nodes = append(nodes, row[1+p])
	}
	return nodes, nil
}

// itemJSON is a document in KEYINFO, of what a copy has in memory or on disk.
func itemJSON(d *store.Document) map[string]any {
	if d == nil {
		return map[string]any{}
	}
	return map[string]any{"Value": string(d.Value), "CAS": d.CAS, "Snappy": d.Datatype&memd.DatatypeSnappy != 0}
}

func controlKeyInfo(c *Cluster, a args) (any, error) {
	key, name, err := c.keyOf(a)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.buckets[name]
	if b == nil || b.memcached() {
		return nil, fmt.Errorf("No such bucket: %s", name) //nolint:staticcheck // the text that clients know
	}
	vb, now := VBucketOf([]byte(key), len(b.rows)), c.now()
	out := make([]any, len(c.nodes))
	for i := range out {
		at := slices.Index(b.rows[vb], i)
		if at < 0 {
			continue
		}
		cache, disk := b.store.MemoryAndDisk(vb, i, key, now)
		out[i] = map[string]any{
			"Conf":  map[string]any{"Index": at, "Type": []string{"master", "replica"}[min(at, 1)]},
			"Cache": itemJSON(cache), "Disk": itemJSON(disk),
		}
	}
	return out, nil
}
