package dispatch

import (
	"github.com/couchcore/couchcore/kv"
)

// A node has one pipeline for each connection of its pool. The first stands for the node: in the router's table and in
// the picker. The others are known to it alone, and end with it.

// grow adds the pipelines of a pool of n connections to the first one, before any of them runs.
func (p *pipeline) grow(n int) {
	p.head = p
	if n <= 1 {
		return
	}
	p.pool = make([]*pipeline, n)
	p.pool[0] = p
	for i := 1; i < n; i++ {
		p.pool[i] = &pipeline{r: p.r, addr: p.addr, breaker: p.breaker, head: p, track: p.r.o.Health.Track(p.r.o.Bucket,
			p.addr)}
	}
}

// each runs f for all pipelines of the node, of which the one without unordered execution counts while it is connected.
func (p *pipeline) each(f func(*pipeline)) {
	if q := p.ordered.Load(); q != nil && q.conn.Load() != nil {
		f(q)
	}
	if p.pool == nil {
		f(p)
		return
	}
	for _, q := range p.pool {
		f(q)
	}
}

// choose gives the node's pipeline for a call: the one of its connection for a request that is bound to one, the one of
// its key for a request for a document, and otherwise the next one in turn that is connected.
func (p *pipeline) choose(c *kv.Call) *pipeline {
	if q := p.orderedFor(c); q != nil {
		return q
	}
	switch {
	case p.pool == nil:
		return p
	case c.Req.Connection != "":
		return p.named(c.Req.Connection)
	case c.Spec().Has(kv.Keyed) && len(c.Req.Key) > 0:
		return p.ofKey(c.Route.Hash)
	}
	start := 0
	if c.Req.Retry != Strict || !c.Req.Pinned { // what the client itself asks of a node takes no call's turn
		start = int(p.turn.Add(1) % uint32(len(p.pool)))
	}
	return p.connectedFrom(start)
}

// ofKey gives the node's pipeline for a key with that hash. It is always the same one, so that the calls for one key
// keep their order, unless the last attempt to connect has failed: then it is another one that is connected.
func (p *pipeline) ofKey(hash uint32) *pipeline {
	if p.pool == nil {
		return p
	}
	i := int(hash & 0xffff % uint32(len(p.pool))) // the higher bits name the vbucket, and with it the node
	if q := p.pool[i]; q.conn.Load() != nil || q.trying() {
		return q
	}
	return p.connectedFrom(i)
}

// connectedFrom gives the first of the node's pipelines, from that index on, that is connected; the first one if none
// is.
func (p *pipeline) connectedFrom(start int) *pipeline {
	for k := range p.pool {
		if q := p.pool[(start+k)%len(p.pool)]; q.conn.Load() != nil {
			return q
		}
	}
	return p.pool[start]
}

// named gives the pipeline with the connection of that ID, or any one, which refuses a request that is bound to another
// connection.
func (p *pipeline) named(id string) *pipeline {
	for _, q := range p.pool {
		if cn := q.conn.Load(); cn != nil && cn.Info().ID == id {
			return q
		}
	}
	return p
}

// connectedAny reports whether the node has any connection that takes every request.
func (p *pipeline) connectedAny() (any bool) {
	p.each(func(q *pipeline) { any = any || !q.inOrder && q.conn.Load() != nil })
	return any
}
