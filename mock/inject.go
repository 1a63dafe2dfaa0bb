package mock

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/couchcore/couchcore/memd"
)

// Match says which requests an injection is for. Every field that is not empty must fit; the zero value matches every
// request, those of the bootstrap included.
type Match struct {
	Nodes      []int                   // numbers of nodes
	Opcodes    []memd.Opcode           // any of these
	Key        []byte                  // the document's key, without the collection's prefix
	Bucket     string                  // the bucket that the connection has selected
	Collection string                  // "scope.collection" of the request's collection id
	Func       func(*memd.Packet) bool // must not block, keep or change the packet; may run on several goroutines
	Skip       int                     // this many matching requests pass untouched first
	Times      int                     // the fault happens this often, 0 means always
}

// Injection is a fault in force. Its methods may be called from any goroutine.
type Injection struct {
	c       *Cluster
	match   Match
	fault   Fault
	release chan struct{}

	mu      sync.Mutex
	seen    int
	fired   int
	off     bool
	open    bool
	changed chan struct{} // closed and replaced when fired grows
}

// injections is the list of a cluster's injections, in the order they were made.
type injections struct {
	mu   sync.Mutex
	list []*Injection // replaced, never changed in place
}

// Inject puts a fault in force until Remove. Of several injections that match a request the oldest that is not used up
// acts.
func (c *Cluster) Inject(m Match, f Fault) *Injection {
	m.Nodes, m.Opcodes, m.Key = slices.Clone(m.Nodes), slices.Clone(m.Opcodes), bytes.Clone(m.Key)
	in := &Injection{c: c, match: m, fault: f, release: make(chan struct{}), changed: make(chan struct{})}
	s := &c.injections
	s.mu.Lock()
	s.list = append(slices.Clone(s.list), in)
	s.mu.Unlock()
	return in
}

// Fired returns how many requests have met the fault.
func (in *Injection) Fired() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.fired
}

// WaitFired waits until n requests have met the fault, or ctx ends, whose error it returns then.
func (in *Injection) WaitFired(ctx context.Context, n int) error {
	for {
		in.mu.Lock()
		fired, ch := in.fired, in.changed
		in.mu.Unlock()
		if fired >= n {
			return nil
		}
		select {
		case <-ch:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Release lets go of every request that Hold or HoldReply keeps; those that match later are not kept any more.
func (in *Injection) Release() {
	in.mu.Lock()
	open := in.open
	in.open = true
	in.mu.Unlock()
	if !open {
		close(in.release)
	}
}

// Remove ends the injection. What it delays or holds already stays delayed or held.
func (in *Injection) Remove() {
	in.mu.Lock()
	in.off = true
	in.mu.Unlock()
	s := &in.c.injections
	s.mu.Lock()
	s.list = slices.DeleteFunc(slices.Clone(s.list), func(x *Injection) bool { return x == in })
	s.mu.Unlock()
}

// take counts a matching request and reports whether the fault acts on it.
func (in *Injection) take() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.off {
		return false
	}
	in.seen++
	if in.seen <= in.match.Skip || in.match.Times > 0 && in.fired >= in.match.Times {
		return false
	}
	in.fired++
	close(in.changed)
	in.changed = make(chan struct{})
	return true
}

// pick returns the injection that acts on rq, or nil.
func (s *injections) pick(rq *request) *Injection {
	s.mu.Lock()
	list := s.list
	s.mu.Unlock()
	for _, in := range list {
		if in.match.fits(rq) && in.take() {
			return in
		}
	}
	return nil
}

func (m *Match) fits(rq *request) bool {
	switch {
	case len(m.Nodes) > 0 && !slices.Contains(m.Nodes, rq.k.n.index),
		len(m.Opcodes) > 0 && !slices.Contains(m.Opcodes, rq.p.Opcode),
		m.Key != nil && !bytes.Equal(m.Key, rq.key),
		m.Bucket != "" && (rq.b == nil || rq.b.name != m.Bucket),
		m.Collection != "" && rq.path() != m.Collection:
		return false
	}
	return m.Func == nil || m.Func(rq.p)
}
