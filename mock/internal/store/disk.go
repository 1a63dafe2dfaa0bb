package store

import (
	"slices"
	"time"
)

// What nodes have on disk, which differs from what they have in memory by a lag or because a test says so.

// States of documents in OBSERVE.
const (
	observedFound     = 0x00
	observedPersisted = 0x01
	observedMissing   = 0x80
	observedDeleted   = 0x81
)

// Observe is the state of a document on one node, and its CAS.
func (s *Store) Observe(vb uint16, node int, cid uint32, key string, now time.Time) (state byte, cas uint64) {
	id := docID{cid, key}
	_, persisted := s.Seqnos(vb, node, now)
	held := s.vbs[vb].copies[node]
	d, found := held.get(id)
	disk, stored := held.onDisk(id, persisted)
	onDisk := stored && disk.cas == d.cas
	switch {
	case !found && stored && disk.live(now):
		return observedPersisted, disk.cas
	case !found:
		return observedMissing, 0
	case d.live(now) && onDisk:
		return observedPersisted, d.cas
	case d.live(now):
		return observedFound, d.cas
	case onDisk:
		return observedMissing, 0
	}
	return observedDeleted, d.cas
}

// Seqnos are the newest sequence numbers that a node's copy has in memory and on disk.
func (s *Store) Seqnos(vb uint16, node int, now time.Time) (current, persisted uint64) {
	v := &s.vbs[vb]
	v.deliver(now)
	c := v.copies[node]
	if s.diskLag == 0 {
		return c.seqno, c.seqno
	}
	return c.seqno, c.persisted(now.Add(-s.diskLag))
}

// arrival is a sequence number with the time at which a copy got it.
type arrival struct {
	seqno uint64
	at    time.Time
}

const maxArrivals = 1024 // of a copy; the oldest count as on disk

// arrived notes when a copy got a mutation.
func (c *docCopy) arrived(seqno uint64, at time.Time) {
	if len(c.arrivals) == maxArrivals {
		c.arrivals = slices.Delete(c.arrivals, 0, maxArrivals/2)
	}
	c.arrivals = append(c.arrivals, arrival{seqno, at})
}

// persisted is the newest sequence number that a copy had at a time.
func (c *docCopy) persisted(by time.Time) uint64 {
	n := c.seqno
	for _, a := range c.arrivals {
		if a.at.After(by) {
			return min(n, a.seqno-1)
		}
	}
	return n
}

// Change is what a test does to one document on some nodes: to what they have in memory and on disk.
type Change uint8

// What a Change can do, several at once.
const (
	Cache Change = 1 << iota
	Persist
	Uncache
	Unpersist
)

// diskDoc is what a copy has on disk of a document, when that is something else than in memory.
type diskDoc struct {
	d     doc
	there bool
}

// ChangeCopies does something to a document of the default collection on some nodes. Unless with is nil the document is
// first given its value and its CAS.
func (s *Store) ChangeCopies(vb uint16, nodes []int, key string, act Change, with *Document, now time.Time) {
	v, id := &s.vbs[vb], docID{DefaultCollection, key}
	v.deliver(now)
	item := doc{cas: s.nextCAS(now), seqno: v.seqno}
	if active := v.active(now); active != nil {
		if d, ok := active.get(id); ok && d.live(now) {
			item = d
		}
	}
	if with != nil {
		item.value, item.datatype, item.attrs, item.deleted = with.Value, ValueType(with.Value), nil, false
		item.cas = with.CAS
	}
	for _, n := range nodes {
		c := v.copies[n]
		if c == nil {
			continue
		}
		c.change(id, act, item)
	}
}

func (c *docCopy) change(id docID, act Change, item doc) {
	was, there := c.get(id)
	on, known := c.disk[id]
	if !known {
		on = diskDoc{was, there && !was.deleted}
	}
	if act&Persist != 0 {
		on = diskDoc{item, true}
	}
	if act&Unpersist != 0 {
		on = diskDoc{}
	}
	if act&Cache != 0 {
		c.set(id, item)
	}
	if act&Uncache != 0 {
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
	d, ok := c.get(id)
	return d, ok && d.seqno <= persisted
}

// MemoryAndDisk is a document of the default collection as a node has it in memory and on disk; nil where it is not.
func (s *Store) MemoryAndDisk(vb uint16, node int, key string, now time.Time) (memory, disk *Document) {
	id := docID{DefaultCollection, key}
	_, persisted := s.Seqnos(vb, node, now)
	held := s.vbs[vb].copies[node]
	describe := func(d doc, there bool) *Document {
		if !there || !d.live(now) {
			return nil
		}
		out := d.document(id, vb, node, now)
		out.Datatype = d.types()
		return &out
	}
	d, ok := held.get(id)
	on, stored := held.onDisk(id, persisted)
	return describe(d, ok), describe(on, stored)
}
