package store

import (
	"cmp"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Document is a document as its active node has it.
type Document struct {
	Node       int
	VBucket    uint16
	Collection uint32
	Key        string
	Value      []byte // shared: to be read only
	Flags      uint32
	Datatype   memd.Datatype
	Expiry     uint32 // unix seconds, 0 for none
	CAS        uint64
	Seqno      uint64
	Locked     bool
}

func (id docID) compare(other docID) int {
	return cmp.Or(cmp.Compare(id.cid, other.cid), cmp.Compare(id.key, other.key))
}

// Documents are the documents that are alive, by vbucket, collection and key.
func (s *Store) Documents(now time.Time) []Document {
	var ds []Document
	for i := range s.vbs {
		c := s.vbs[i].active(now)
		if c == nil {
			continue
		}
		for _, id := range c.keys() {
			d := c.docs[id]
			if !d.live(now) {
				continue
			}
			ds = append(ds, d.document(id, uint16(i), s.vbs[i].nodes[0], now))
		}
	}
	return ds
}

// Usage is how many documents there are, and how many bytes their values have.
func (s *Store) Usage(now time.Time) (documents, bytes int) {
	for i := range s.vbs {
		c := s.vbs[i].active(now)
		if c == nil {
			continue
		}
		for _, d := range c.docs {
			if d.live(now) {
				documents++
				bytes += len(d.value)
			}
		}
	}
	return documents, bytes
}

func (d *doc) document(id docID, vb uint16, node int, now time.Time) Document {
	return Document{
		Node: node, VBucket: vb, Collection: id.cid, Key: id.key, Value: d.value, Flags: d.flags, Datatype: d.datatype,
		Expiry: d.expiry, CAS: d.cas, Seqno: d.seqno, Locked: d.isLocked(now),
	}
}

// Random is a document of a collection of which a node has the active copies, each with the same chance; false when
// it does not exist. pick chooses one of n.
func (s *Store) Random(
	node int, cid uint32, now time.Time, pick func(n int) int,
) (key string, res Result, ok bool) {
	seen := 0
	for i := range s.vbs {
		v := &s.vbs[i]
		if len(v.nodes) == 0 || v.nodes[0] != node {
			continue
		}
		active := v.active(now)
		for _, id := range active.keys() {
			d := active.docs[id]
			if id.cid != cid || !d.live(now) {
				continue
			}
			if seen++; pick(seen) == 0 {
				key, res = id.key, d.result(v)
			}
		}
	}
	return key, res, seen > 0
}

// Keys are the first keys of a collection in a vbucket, from one on and in order, as its active node has them.
func (s *Store) Keys(vb uint16, cid uint32, from string, most uint32, now time.Time) []string {
	active := s.vbs[vb].active(now)
	var keys []string
	for _, id := range active.keys() {
		d := active.docs[id]
		if id.cid != cid || id.key < from || !d.live(now) {
			continue
		}
		if uint32(len(keys)) == most {
			break
		}
		keys = append(keys, id.key)
	}
	return keys
}

// Newest is the newest sequence number of a node's copy, or of one collection in it.
func (s *Store) Newest(vb uint16, node int, cid *uint32, now time.Time) uint64 {
	v := &s.vbs[vb]
	v.deliver(now)
	c := v.copies[node]
	if cid == nil {
		return c.seqno
	}
	var n uint64
	for id, d := range c.docs {
		if id.cid == *cid {
			n = max(n, d.seqno)
		}
	}
	return n
}

// Look is a document as a node's copy has it; false for one that is not there.
func (s *Store) Look(vb uint16, node int, cid uint32, key string, now time.Time) (Result, bool) {
	v := &s.vbs[vb]
	d, ok := v.copies[node].docs[docID{cid, key}]
	if !ok || !d.live(now) {
		return Result{}, false
	}
	return d.result(v), true
}

// Count is how many documents a node's copy of a vbucket has, and how many with the tombstones.
func (s *Store) Count(vb uint16, node int, now time.Time) (live, all int) {
	docs := s.vbs[vb].copies[node].docs
	for _, d := range docs {
		if d.live(now) {
			live++
		}
	}
	return live, len(docs)
}
