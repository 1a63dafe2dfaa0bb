package store

import (
	"crypto/rand"
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// vbucketData is one vbucket with the copies that nodes have of it.
type vbucketData struct {
	history []Branch // newest first, never empty
	seqno   uint64   // newest of the active copy
	goneRev uint64   // the highest revision of a tombstone: documents that are new here begin after it
	nodes   []int    // the active one, then the replicas
	copies  map[int]*docCopy
	queue   []unsent // what replicas do not have yet, in order
	moved   bool     // the active node is another one now, and gets the queue before anything else happens
	slow    bool     // disks are behind, so that it matters when a copy got what
}

// Branch is one stretch of a vbucket's history: a failover ends it and begins the next.
type Branch struct {
	UUID  uint64
	Begin uint64 // newest sequence number when it began
}

// docCopy is what one node has of a vbucket.
type docCopy struct {
	docs     map[docID]*doc
	seqno    uint64            // newest in it
	disk     map[docID]diskDoc // what is on disk, where a control command made it differ
	arrivals []arrival         // when it got the newest of them, in order; only with slow disks
}

// unsent is a mutation on its way to the replicas.
type unsent struct {
	id  docID
	d   *doc
	due time.Time
}

// clone is a copy for another node. Locks are a node's own and stay behind.
func (c *docCopy) clone() *docCopy {
	out := &docCopy{docs: make(map[docID]*doc, len(c.docs)), seqno: c.seqno, arrivals: slices.Clone(c.arrivals)}
	for id, d := range c.docs {
		if d.lock != nil {
			unlocked := *d
			unlocked.lock = nil
			d = &unlocked
		}
		out.docs[id] = d
	}
	return out
}

// get is a version that the caller may change.
func (c *docCopy) get(id docID) (doc, bool) {
	if d := c.docs[id]; d != nil {
		return *d, true
	}
	return doc{}, false
}

// set replaces a version in this copy alone.
func (c *docCopy) set(id docID, d doc) { c.docs[id] = &d }

func (c *docCopy) put(id docID, d *doc) {
	c.docs[id], c.seqno = d, d.seqno
	delete(c.disk, id)
}

// put stores a mutation where it was executed, and on the other nodes of the vbucket: at once, or after the replicas'
// lag. A durable one takes with it what is still unsent.
func (s *Store) put(v *vbucketData, o *Op, id docID, d *doc, now time.Time) {
	v.copies[o.Node].put(id, d)
	if v.slow {
		v.copies[o.Node].arrived(d.seqno, now)
	}
	if len(v.copies) > 1 {
		due := now.Add(s.lag)
		if o.Durability > 0 {
			due = now
		}
		v.queue = append(v.queue, unsent{id, d, due})
		if s.lag == 0 || o.Durability > 0 {
			v.deliverAll()
		}
	}
	if o.Durability > memd.DurabilityMajority {
		for _, c := range v.copies {
			c.arrivals = nil
		}
	}
}

// deliver gives the replicas what is due.
func (v *vbucketData) deliver(now time.Time) {
	if v.moved {
		v.deliverAll()
	}
	n := 0
	for n < len(v.queue) && !now.Before(v.queue[n].due) {
		n++
	}
	v.send(n)
}

func (v *vbucketData) deliverAll() { v.send(len(v.queue)) }

func (v *vbucketData) send(n int) {
	for _, e := range v.queue[:n] {
		for _, c := range v.copies {
			if c.seqno < e.d.seqno {
				c.put(e.id, e.d)
				if v.slow {
					c.arrived(e.d.seqno, e.due)
				}
			}
		}
	}
	v.queue = slices.Delete(v.queue, 0, n)
	if len(v.queue) == 0 {
		v.moved = false
	}
}

// SetLag changes how long replicas are behind. Without a lag they have everything at once.
func (s *Store) SetLag(lag time.Duration) {
	s.lag = lag
	for i := range s.vbs {
		if lag == 0 {
			s.vbs[i].deliverAll()
		}
	}
}

// DiskLag is how long disks are behind.
func (s *Store) DiskLag() time.Duration { return s.diskLag }

// SetDiskLag changes how long disks are behind. What there is already counts as being on disk.
func (s *Store) SetDiskLag(lag time.Duration) {
	s.diskLag = lag
	for i := range s.vbs {
		s.vbs[i].slow = lag > 0
		for _, c := range s.vbs[i].copies {
			c.arrivals = nil
		}
	}
}

// Fork begins a new stretch of a vbucket's history, as a failover does that has just been assigned: what has not
// reached the copy that is now the active one is lost, and all others become like it.
func (s *Store) Fork(vb int) {
	v := &s.vbs[vb]
	v.queue, v.moved = nil, false
	if len(v.nodes) > 0 {
		active := v.copies[v.nodes[0]]
		v.seqno = active.seqno
		for n, c := range v.copies {
			if c.seqno != active.seqno {
				v.copies[n] = active.clone()
			}
		}
	}
	var b [8]byte
	rand.Read(b[:]) // never fails
	v.history = slices.Insert(v.history, 0, Branch{binary.BigEndian.Uint64(b[:]) | 1, v.seqno})
}

// ForkAll is fork for every vbucket.
func (s *Store) ForkAll() {
	for vb := range s.vbs {
		s.Fork(vb)
	}
}

// Assign gives a vbucket to nodes, -1 for none. Nodes that are new to it get the old active node's documents, or any
// other copy when that one has left; nodes that are no longer named lose theirs. When the active node is another one
// afterwards, nothing is lost by that unless fork follows.
func (s *Store) Assign(vb int, nodes []int) {
	v := &s.vbs[vb]
	var source *docCopy
	for _, n := range v.nodes {
		if c := v.copies[n]; c != nil && (source == nil || slices.Contains(nodes, n) && !slices.Contains(nodes,
			v.nodes[0])) {
			source = c
		}
	}
	if source == nil {
		source = &docCopy{seqno: v.seqno}
	}
	copies := map[int]*docCopy{}
	for _, n := range nodes {
		if n < 0 {
			continue
		}
		copies[n] = v.copies[n]
		if copies[n] == nil {
			copies[n] = source.clone()
		}
	}
	old := v.nodes
	v.nodes, v.copies = slices.DeleteFunc(slices.Clone(nodes), func(n int) bool { return n < 0 }), copies
	if len(v.nodes) == 0 {
		v.queue = nil // it is not used any more
	}
	v.moved = len(v.queue) > 0 && (v.moved || old[0] != v.nodes[0])
}

// History returns a vbucket's history and its newest sequence number.
func (s *Store) History(vb uint16) (history []Branch, seqno uint64) {
	return s.vbs[vb].history, s.vbs[vb].seqno
}

// Flush removes every document, with their history.
func (s *Store) Flush() {
	for i := range s.vbs {
		v := &s.vbs[i]
		for _, c := range v.copies {
			clear(c.docs)
			clear(c.disk)
			c.seqno, c.arrivals = 0, nil
		}
		v.seqno, v.goneRev, v.history = 0, 0, nil
		s.Fork(i)
	}
}

// active returns a vbucket's active copy with all that has reached it, nil when no node has one.
func (v *vbucketData) active(now time.Time) *docCopy {
	v.deliver(now)
	if len(v.nodes) == 0 {
		return nil
	}
	return v.copies[v.nodes[0]]
}

// keys are the ids of a copy's documents in order.
func (c *docCopy) keys() []docID {
	return slices.SortedFunc(maps.Keys(c.docs), docID.compare)
}
