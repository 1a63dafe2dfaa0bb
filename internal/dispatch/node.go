package dispatch

import (
	"context"
	"iter"
	"slices"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
)

// node is a data node as the router reaches it: as many connections as the configuration says, each with a pipeline of
// its own. Their number does not change, and a key always takes the same one, so that calls for one key keep their
// order. Beside them a node has one more while requests need it that are refused under unordered execution, see
// ordered.go.
//
// The router's table has the nodes by address, under its lock; the picker has those of the cluster map. Their methods
// may be called from anywhere and never block, except where they say that the router's lock is held.
type node struct {
	r       *Router
	addr    string
	breaker *breaker    // of all connections; nil without one
	conns   []*pipeline // at least one
	ordered atomic.Pointer[pipeline]
	turn    atomic.Uint32 // counts the calls that any connection may take
}

// dialApart is between the first attempts of a node's connections, which begin one after the other, in order.
const dialApart = time.Microsecond

// newNode makes a node that does nothing yet.
func (r *Router) newNode(addr string) *node {
	n := &node{r: r, addr: addr, breaker: newBreaker(r.o.Breaker, r.o.Base)}
	for i := range max(r.o.Connections, 1) {
		p := n.newPipeline(r.ctx)
		p.first, p.after = i == 0, time.Duration(i)*dialApart
		n.conns = append(n.conns, p)
	}
	return n
}

// newPipeline makes a way to the node that does nothing yet, and ends with ctx.
func (n *node) newPipeline(ctx context.Context) *pipeline {
	p := &pipeline{r: n.r, node: n, track: n.r.o.Health.Track(n.r.o.Bucket, n.addr)}
	p.waiting = room{r: n.r, mu: &p.mu, door: p}
	p.backoff.init(&n.r.o.Tuning, n.r.o.JitterSource)
	p.ctx, p.stop = context.WithCancelCause(ctx)
	return p
}

// reach gives the node at addr. One that is not in the table yet is connected to. The router's lock is held.
func (r *Router) reach(addr string) *node {
	if n := r.nodes[addr]; n != nil {
		return n
	}
	n := r.newNode(addr)
	r.nodes[addr] = n
	for _, p := range n.conns {
		r.take(p)
	}
	return n
}

// publish makes s the map that calls go by: its nodes are reached first, then the picker is replaced, then the nodes
// end that it does not have. It says how many nodes it has, and gives the connections that were made in another bucket
// than s is of, if that has replaced the one of the last map. It is false after Close.
func (r *Router) publish(s *topology.Snapshot, network string, replaced bool) (nodes int, withdrawn []*conn.Conn,
	ok bool,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, nil, false
	}
	pk := r.picker.Load().next(s, network, replaced)
	stay := map[*node]bool{}
	for i := range s.Nodes {
		if addr, ok := s.KVAddr(i, network, r.o.TLS); ok {
			pk.nodes[i] = r.reach(addr)
			stay[pk.nodes[i]] = true
		}
	}
	nodes = len(stay)
	if nodes == 0 { // it has services only: what is connected goes on bringing maps
		for _, n := range r.nodes {
			stay[n] = true
		}
	}
	if replaced { // no call of the new map finds a connection that was made in the old bucket
		withdrawn = withdraw(stay)
	}
	r.picker.Store(pk)
	r.leaveAllBut(stay)
	return nodes, withdrawn, true
}

// leaveAllBut ends the nodes of the table that are not to stay. The router's lock is held.
func (r *Router) leaveAllBut(stay map[*node]bool) {
	var leaving []*node
	for addr, n := range r.nodes {
		if !stay[n] {
			leaving = append(leaving, n)
			r.forget(addr)
		}
	}
	r.leave(leaving)
}

// forget takes the node at addr out of the table, and drops what it has said. The router's lock is held.
func (r *Router) forget(addr string) {
	delete(r.nodes, addr)
	r.o.ErrorMaps.Forget(addr)
}

// pipelines are those of all nodes. The router's lock is held while the caller ranges over them.
func (r *Router) pipelines() iter.Seq[*pipeline] {
	return func(yield func(*pipeline) bool) {
		for _, n := range r.nodes {
			for p := range n.pipelines() {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// pipelines are the node's, of which the one without unordered execution counts while it is connected.
func (n *node) pipelines() iter.Seq[*pipeline] {
	return func(yield func(*pipeline) bool) {
		if p := n.ordered.Load(); p != nil && p.conn.Load() != nil && !yield(p) {
			return
		}
		for _, p := range n.conns {
			if !yield(p) {
				return
			}
		}
	}
}

// connected reports whether the node has a connection that takes every request.
func (n *node) connected() bool {
	for _, p := range n.conns {
		if p.conn.Load() != nil {
			return true
		}
	}
	return false
}

// index is the node's number in the newest map, -1 when it has left.
func (n *node) index() int {
	if pk := n.r.picker.Load(); pk != nil {
		for i, other := range pk.nodes {
			if other == n {
				return i
			}
		}
	}
	return -1
}

// next gives the pipeline for a call: the one of its connection for a request that is bound to one, the one of its key
// for a request for a document, and otherwise the next one in turn that is connected.
func (n *node) next(c *call.Call) *pipeline {
	if p := n.orderedFor(c); p != nil {
		return p
	}
	switch {
	case len(n.conns) == 1:
		return n.conns[0]
	case c.Req.Connection() != "":
		return n.named(c.Req.Connection())
	case c.Spec().Has(call.Keyed) && len(c.Req.Key) > 0:
		return n.ofKey(c.Route.Hash)
	}
	start := 0
	if c.Req.Retry() != Strict || !c.Req.Pinned { // what the client itself asks of a node takes no call's turn
		start = int(n.turn.Add(1) % uint32(len(n.conns)))
	}
	return n.connectedFrom(start)
}

// ofKey gives the pipeline for a key with that hash. It is always the same one, so that the calls for one key keep
// their order, unless the last attempt to connect has failed: then it is another one that is connected.
func (n *node) ofKey(hash uint32) *pipeline {
	if len(n.conns) == 1 {
		return n.conns[0]
	}
	i := int(hash & 0xffff % uint32(len(n.conns))) // the higher bits name the vbucket, and with it the node
	if p := n.conns[i]; p.conn.Load() != nil || p.trying() {
		return p
	}
	return n.connectedFrom(i)
}

// connectedFrom gives the first pipeline from that index on that is connected; that of the index if none is.
func (n *node) connectedFrom(start int) *pipeline {
	for k := range n.conns {
		if p := n.conns[(start+k)%len(n.conns)]; p.conn.Load() != nil {
			return p
		}
	}
	return n.conns[start]
}

// named gives the pipeline with the connection of that ID, or any one, which refuses a request that is bound to another
// connection.
func (n *node) named(id string) *pipeline {
	for _, p := range n.conns {
		if cn := p.conn.Load(); cn != nil && cn.Info().ID == id {
			return p
		}
	}
	return n.conns[0]
}

// reseedAfter is the least time between two times that the seeds are asked again.
const reseedAfter = 5 * time.Second

// seed connects to the seeds, and beside that to the nodes that a lookup of theirs names: a lookup that is slow or
// fails holds up nothing. The lock is held.
func (r *Router) seed() {
	r.seeded = time.Now()
	for _, addr := range r.o.Seeds {
		r.reach(addr)
	}
	if r.o.Resolve != nil && !r.resolving {
		r.resolving = true
		r.tasks.Go("the look-up of seeds", r.resolve) // ends with the router's context at the latest
	}
}

// resolve asks for the nodes behind the seeds' name.
func (r *Router) resolve() {
	addrs := r.o.Resolve(r.ctx)
	r.mu.Lock()
	r.resolving = false
	if !r.closed && !r.reaches() {
		for _, addr := range addrs {
			r.reach(addr)
		}
	}
	r.mu.Unlock()
	r.first.review()
	r.notify()
}

// reseed begins again with the seeds when no node of the map can be reached: all of them may have been replaced. Calls
// that wait go on waiting.
func (r *Router) reseed() {
	r.mu.Lock()
	// without a map the seeds are being tried all the time
	due := !r.closed && r.picker.Load() != nil && !r.reaches() && time.Since(r.seeded) >= reseedAfter
	if due {
		r.seed()
	}
	r.mu.Unlock()
	if due {
		r.o.Log.Info(r.ctx, observe.MsgReseeding) // the log's handler is asked whether it wants that: not under a lock
	}
}

// reaches reports whether a node of the map is connected. The lock is held, so that none is published meanwhile:
// a goroutine that begins with the seeds after that has them trimmed by the next one that is.
func (r *Router) reaches() bool {
	pk := r.picker.Load()
	return pk != nil && slices.ContainsFunc(pk.nodes, func(n *node) bool { return n != nil && n.connected() })
}

// trim ends the ways to seeds that the map does not name, once a node has given a map that is not newer than ours.
func (r *Router) trim() {
	pk := r.picker.Load()
	if pk == nil || !slices.ContainsFunc(pk.nodes, func(n *node) bool { return n != nil }) {
		return
	}
	stay := map[*node]bool{}
	for _, n := range pk.nodes {
		stay[n] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.leaveAllBut(stay)
}
