package store

import (
	"maps"
	"time"
)

// Saved is what a store's active copies have at one time, with their tombstones.
type Saved struct{ vbs []savedVBucket }

type savedVBucket struct {
	docs    map[docID]*doc
	seqno   uint64
	goneRev uint64
}

// VBuckets is how many vbuckets the store has that it was saved from.
func (s *Saved) VBuckets() int { return len(s.vbs) }

// Save returns what Load brings back. Values are shared: they never change in place.
func (s *Store) Save(now time.Time) *Saved {
	out := &Saved{vbs: make([]savedVBucket, len(s.vbs))}
	for i := range s.vbs {
		v := &s.vbs[i]
		out.vbs[i] = savedVBucket{seqno: v.seqno, goneRev: v.goneRev}
		if active := v.active(now); active != nil {
			out.vbs[i].docs = maps.Clone(active.docs)
		}
	}
	return out
}

// Load gives every copy what was saved, without locks, and every vbucket a new history. The store has as many vbuckets
// as the one that was saved. The log stays.
func (s *Store) Load(saved *Saved) {
	for i := range s.vbs {
		v, from := &s.vbs[i], &saved.vbs[i]
		full := &docCopy{docs: from.docs, seqno: from.seqno}
		for n := range v.copies {
			v.copies[n] = full.clone()
		}
		v.seqno, v.goneRev, v.history = from.seqno, from.goneRev, nil
		s.Fork(i)
	}
}

// ClearLog forgets the mutations so far.
func (s *Store) ClearLog() { s.applied = nil }
