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
		p.pool[i] = &pipeline{r: p.r, addr: p.addr, breaker: p.breaker, head: p}
	}
}

// each runs f for all pipelines of the node, of which the one without unordered execution counts while it is connected.
func (p *pipeline) each(f func(*pipeline)) {
	if q := p.ordered.Load(); q != nil && q.conn.Load() != nil {
		f(q)
	}
	if p.pool == nil {
		f(p)
		if q := p.second.Load(); q != nil {
			f(q)
		}
		return
	}
	for _, q := range p.pool {
		f(q)
	}
}

// choose gives one of the node's pipelines in turn, and one that is connected as long as there is any. A request that is
// bound to a connection gets that one's.
func (p *pipeline) choose(c *kv.Call) *pipeline {
	if q := p.orderedFor(c); q != nil {
		return q
	}
	if p.pool == nil {
		return p.either(c)
	}
	start := 0
	if c.Req.Retry != Strict || !c.Req.Pinned { // what the client itself asks of a node takes nobody's turn
		start = int(p.turn.Add(1) % uint32(len(p.pool)))
	}
	best := p.pool[start]
	for k := range p.pool {
		q := p.pool[(start+k)%len(p.pool)]
		cn := q.conn.Load()
		if cn == nil {
			continue
		}
		if c.Req.Connection == "" || cn.Info().ID == c.Req.Connection {
			return q
		}
	}
	return best
}

// connectedAny reports whether the node has any connection that takes every request.
func (p *pipeline) connectedAny() (any bool) {
	p.each(func(q *pipeline) { any = any || !q.inOrder && q.conn.Load() != nil })
	return any
}
