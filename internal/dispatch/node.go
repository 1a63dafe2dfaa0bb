package dispatch

import (
	"context"
	"iter"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/call"
)

// node is a data node as the router reaches it. It has as many connections as the configuration says, each with a
// pipeline of its own. Their number does not change, and a key always takes the same one, so that calls for one key
// keep their order. One more connection exists while requests need it that servers refuse under unordered execution:
// see ordered.go.
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
		p := n.newPipeline(r.ctx, strconv.Itoa(i))
		p.first, p.after = i == 0, time.Duration(i)*dialApart
		n.conns = append(n.conns, p)
	}
	return n
}

// newPipeline makes a way to the node that does nothing yet, and ends with ctx. Its name is one among the node's.
func (n *node) newPipeline(ctx context.Context, name string) *pipeline {
	p := &pipeline{r: n.r, node: n, name: name, track: n.r.o.Health.Track(n.r.o.Bucket, n.addr)}
	p.waiting = room{r: n.r, mu: &p.mu, door: p}
	p.backoff.init(&n.r.o)
	p.ctx, p.stop = context.WithCancelCause(ctx)
	return p
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

// connected reports whether one of the node's regular connections exists.
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
	if c.Req.Retry() != call.Strict || !c.Req.Pinned { // what the client itself asks of a node takes no call's turn
		start = int(n.turn.Add(1) % uint32(len(n.conns)))
	}
	return n.connectedFrom(start)
}

// ofKey gives the pipeline for a key with that hash. It is always the same one, so that the calls for one key keep
// their order, unless the last attempt to connect has failed: then it is another one that is connected.
func (n *node) ofKey(hash uint32) *pipeline {
	i := int(hash & 0xffff % uint32(len(n.conns))) // the higher bits name the vbucket, and with it the node
	if p := n.conns[i]; p.conn.Load() != nil || p.trying() {
		return p
	}
	return n.connectedFrom(i)
}

// connectedFrom gives the first pipeline from that index on that is connected, otherwise that of the index.
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
