package mock

import (
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// keyAction is what a command does to one document on some nodes: to what they have in memory and on disk.
type keyAction uint8

const (
	keyCache keyAction = 1 << iota
	keyPersist
	keyUncache
	keyUnpersist
)

// diskDoc is what a copy has on disk of a document, when that is something else than in memory.
type diskDoc struct {
	d     doc
	there bool
}

// controlKey changes a document on the nodes that the payload names.
func controlKey(act keyAction) func(*Cluster, args) (any, error) {
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
		b.store.change(vb, nodes, docID{defaultCollection, key}, act, cas, value, c.now())
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

// change does to a document on some nodes what a control command wants.
func (s *store) change(vb uint16, nodes []int, id docID, act keyAction, cas int64, value string, now time.Time) {
	v := &s.vbs[vb]
	v.deliver(now)
	item := doc{cas: s.nextCAS(now), seqno: v.seqno}
	if active := v.active(now); active != nil {
		if d, ok := active.docs[id]; ok && d.live(now) {
			item = d
		}
	}
	if cas != 0 {
		item.value, item.datatype, item.xattrs, item.deleted = []byte(value), valueType([]byte(value)), nil, false
		item.cas = uint64(cas)
		if cas < 0 {
			item.cas = (item.cas + 1) * 2
		}
	}
	for _, n := range nodes {
		c := v.copies[n]
		if c == nil {
			continue
		}
		c.change(id, act, item)
	}
}

func (c *docCopy) change(id docID, act keyAction, item doc) {
	was, there := c.docs[id]
	on, known := c.disk[id]
	if !known {
		on = diskDoc{was, there && !was.deleted}
	}
	if act&keyPersist != 0 {
		on = diskDoc{item, true}
	}
	if act&keyUnpersist != 0 {
		on = diskDoc{}
	}
	if act&keyCache != 0 {
		c.docs[id] = item
	}
	if act&keyUncache != 0 {
		delete(c.docs, id)
	}
	if c.disk == nil {
		c.disk = map[docID]diskDoc{}
	}
	c.disk[id] = on
}

// onDisk is what a copy has on disk of a document; persisted is how far its disk is.
func (c *docCopy) onDisk(id docID, persisted uint64) (doc, bool) {
	if on, ok := c.disk[id]; ok {
		return on.d, on.there
	}
	d, ok := c.docs[id]
	return d, ok && d.seqno <= persisted
}

// itemJSON is a document in KEYINFO.
func itemJSON(d doc, there bool, now time.Time) map[string]any {
	if !there || !d.live(now) {
		return map[string]any{}
	}
	return map[string]any{"Value": string(d.value), "CAS": d.cas, "Snappy": d.types()&memd.DatatypeSnappy != 0}
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
	vb, id, now := VBucketOf([]byte(key), len(b.rows)), docID{defaultCollection, key}, c.now()
	out := make([]any, len(c.nodes))
	for i := range out {
		at := slices.Index(b.rows[vb], i)
		if at < 0 {
			continue
		}
		_, persisted := b.store.seqnos(vb, i, now)
		held := b.store.vbs[vb].copies[i]
		mem, ok := held.docs[id]
		disk, stored := held.onDisk(id, persisted)
		out[i] = map[string]any{
			"Conf":  map[string]any{"Index": at, "Type": []string{"master", "replica"}[min(at, 1)]},
			"Cache": itemJSON(mem, ok, now), "Disk": itemJSON(disk, stored, now),
		}
	}
	return out, nil
}
