package dispatch

import (
	"iter"
	stdmaps "maps"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
)

// nodes is a router's table of nodes by address: those of the cluster map in use, and the seeds until a node of the
// map has taken their place. Its lock is the router's: it also guards the rooms of calls that wait for no pipeline, and
// while it is held no map and no connection is published. It is taken before a pipeline's.
type nodes struct {
	r *Router

	mu        sync.Mutex
	byAddr    map[string]*node
	closed    bool
	seeds     []string  // the router's, or those that readdress was given
	seeded    time.Time // when the seeds were asked last
	resolving bool      // a lookup of theirs is under way
	unfound   error     // why the last lookup failed; nil when it has not
	turns     turns     // of pipelines that connect; see turns.go
}

// list gives the pipelines of all nodes.
func (t *nodes) list() []*pipeline {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(t.pipelines())
}

// pipelines are those of all nodes. The lock is held while the caller ranges over them.
func (t *nodes) pipelines() iter.Seq[*pipeline] {
	return func(yield func(*pipeline) bool) {
		for _, n := range t.byAddr {
			for p := range n.pipelines() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// connected gives any node that is connected, in the map or not; nil without one.
func (t *nodes) connected() *node {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, n := range t.byAddr {
		if n.connected() {
			return n
		}
	}
	return nil
}

// reach gives the node at addr. One that is not in the table yet is connected to. The lock is held.
func (t *nodes) reach(addr string) *node {
	if n := t.byAddr[addr]; n != nil {
		return n
	}
	n := t.r.newNode(addr)
	t.byAddr[addr] = n
	for _, p := range n.conns {
		t.take(p)
	}
	return n
}

// publish makes s the map that calls go by: its nodes are reached first, then the picker is replaced, then the nodes
// end that it does not have. It says how many nodes it has, and gives the connections that were made in another bucket
// than s is of, if that has replaced the one of the last map. It is false after Close.
func (t *nodes) publish(s *topology.Snapshot, network string, replaced bool) (
	n int, withdrawn []*conn.Conn, moveOn func(), ok bool,
) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return 0, nil, nil, false
	}
	pk, stay := t.show(s, network, replaced)
	n = len(stay)
	if n == 0 { // it has services only: what is connected goes on bringing maps
		for _, n := range t.byAddr {
			stay[n] = true
		}
	}
	if replaced { // no call of the new map finds a connection that was made in the old bucket
		withdrawn = withdraw(stay)
	}
	t.r.picker.Store(pk)
	return n, withdrawn, t.leave(stay), true
}

// show reaches the nodes of s, and makes the picker that goes by it. The lock is held.
func (t *nodes) show(s *topology.Snapshot, network string, replaced bool) (pk *picker, reached map[*node]bool) {
	pk, reached = t.r.picker.Load().next(s, network, replaced), map[*node]bool{}
	encrypted := t.r.tls()
	for i := range s.Nodes {
		if addr, ok := s.KVAddr(i, network, encrypted); ok {
			pk.nodes[i] = t.reach(addr)
			reached[pk.nodes[i]] = true
		}
	}
	return pk, reached
}

// readdress is Router.Readdress; false after Close. No node of before stays: its connections are of the other kind.
func (t *nodes) readdress(seeds []string) (moveOn func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	t.seeds = seeds
	before := t.byAddr
	t.byAddr = map[string]*node{}
	var reached map[*node]bool
	if now := t.r.picker.Load(); now != nil {
		var pk *picker
		pk, reached = t.show(now.snap, t.r.Network(), false)
		t.r.picker.Store(pk)
	}
	if len(reached) == 0 {
		t.seed()
	}
	after := t.byAddr
	t.byAddr = before
	moveOn = t.leave(nil)
	t.byAddr = after
	return moveOn, true
}

// leave ends the nodes that are not to stay: a pipeline with a connection on a goroutine of its own, because calls in
// flight may finish, the others together on one. What the nodes have said is forgotten. The lock is held. The caller
// then calls moveOn without it: the calls that have waited for those nodes go on, before others are woken.
func (t *nodes) leave(stay map[*node]bool) (moveOn func()) {
	var idle []*pipeline
	var waited []func()
	for _, addr := range slices.Sorted(stdmaps.Keys(t.byAddr)) {
		n := t.byAddr[addr]
		if stay[n] {
			continue
		}
		delete(t.byAddr, addr)
		t.r.o.ErrorMaps.Forget(addr)
		for p := range n.pipelines() {
			p.track.Leave()
			p.mu.Lock()
			p.closed = true
			calls := p.waiting.take()
			p.mu.Unlock()
			waited = append(waited, func() { p.waiting.release(calls, 0, nil) })
			if p.conn.Load() == nil {
				idle = append(idle, p)
			} else {
				t.r.tasks.Go(addr, p.drain)
			}
		}
	}
	if len(idle) > 0 {
		t.r.tasks.Go("nodes that have left", func() {
			for _, p := range idle {
				p.drain()
			}
		})
	}
	return func() {
		for _, f := range waited {
			f()
		}
	}
}

// moveOn has calls go on that wait for a connection, after a map or a connection has come that may lead them elsewhere.
func (t *nodes) moveOn() {
	for _, p := range t.unconnected() {
		p.moveOn()
	}
}

// unconnected gives the pipelines without a connection, in the order of the nodes' addresses.
func (t *nodes) unconnected() (ps []*pipeline) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, addr := range slices.Sorted(stdmaps.Keys(t.byAddr)) {
		n := t.byAddr[addr]
		ps = append(ps, n.conns...)
		if p := n.ordered.Load(); p != nil {
			ps = append(ps, p)
		}
	}
	return slices.DeleteFunc(ps, func(p *pipeline) bool { return p.conn.Load() != nil })
}

// close ends all pipelines, and starts no more; false when it has before.
func (t *nodes) close(cause error) bool {
	t.mu.Lock()
	before := t.closed
	all := slices.Collect(t.pipelines())
	t.closed, t.byAddr = true, map[string]*node{}
	if t.turns.timer != nil {
		t.turns.timer.Stop()
	}
	t.mu.Unlock()
	t.r.stop()
	for _, p := range all {
		p.close(cause)
	}
	return !before
}

// starts runs f on a goroutine that the router's Close waits for, unless Close has begun.
func (p *pipeline) starts(f func()) bool {
	t := &p.r.nodes
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		p.r.tasks.Go(p.node.addr, f)
	}
	return !t.closed
}

// reseedAfter is the least time between two times that the seeds are asked again.
const reseedAfter = 5 * time.Second

// seed connects to the seeds, and beside that to the nodes that a lookup of theirs names: a lookup that is slow or
// fails holds up nothing. The lock is held.
func (t *nodes) seed() {
	t.seeded = time.Now()
	for _, addr := range t.seeds {
		t.reach(addr)
	}
	if t.r.o.Resolve != nil && !t.resolving {
		t.resolving = true
		t.r.tasks.Go("the look-up of seeds", t.resolve) // ends with the router's context at the latest
	}
}

// resolve asks for the nodes behind the seeds' name.
func (t *nodes) resolve() {
	addrs, err := t.r.o.Resolve(t.r.ctx)
	t.mu.Lock()
	t.resolving, t.unfound = false, err
	if !t.closed && !t.r.reaches() {
		for _, addr := range addrs {
			t.reach(addr)
		}
	}
	t.mu.Unlock()
	t.r.first.review()
	t.r.notify()
}

// reseed begins again with the seeds when no node of the map can be reached: all of them may have been replaced. Calls
// that wait go on waiting.
func (t *nodes) reseed() {
	t.mu.Lock()
	// without a map the seeds are being tried all the time
	due := !t.closed && t.r.picker.Load() != nil && !t.r.reaches() && time.Since(t.seeded) >= reseedAfter
	if due {
		t.seed()
	}
	t.mu.Unlock()
	if due { // the log's handler is asked whether it wants that: not under a lock
		t.r.o.Log.Info(t.r.ctx, observe.MsgReseeding)
	}
}

// reaches reports whether a node of the map is connected. The table's lock is held, so that no connection is published
// meanwhile: a goroutine that begins with the seeds after that has them trimmed by the next one that is.
func (r *Router) reaches() bool {
	pk := r.picker.Load()
	return pk != nil && slices.ContainsFunc(pk.nodes, func(n *node) bool { return n != nil && n.connected() })
}

// trim ends the ways to seeds that the map does not name, once a node has given a map that is not newer than ours.
func (t *nodes) trim() {
	t.mu.Lock()
	stay := map[*node]bool{}
	if pk := t.r.picker.Load(); pk != nil { // the one that is in use until the lock is given back
		for _, n := range pk.nodes {
			if n != nil {
				stay[n] = true
			}
		}
	}
	before, moveOn := len(t.byAddr), func() {}
	if len(stay) > 0 && !t.closed {
		moveOn = t.leave(stay)
	}
	left := len(t.byAddr) < before
	t.mu.Unlock()
	moveOn()
	if left { // what waits for every node to be connected does not wait for those any more
		t.r.notify()
	}
}
