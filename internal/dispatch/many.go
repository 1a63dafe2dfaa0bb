package dispatch

import (
	"slices"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/retry"
)

// byPipeline is calls on their way to several connections. It is memory that is used again.
type byPipeline struct {
	pipes []*pipeline
	items [][]*call.Call // of each pipeline
	last  int            // the one that was added to last
}

func (b *byPipeline) add(p *pipeline, c *call.Call) {
	if b.last >= len(b.pipes) || b.pipes[b.last] != p {
		b.last = 0
		for b.last < len(b.pipes) && b.pipes[b.last] != p {
			b.last++
		}
	}
	if b.last == len(b.pipes) {
		b.pipes = append(b.pipes, p)
		if len(b.items) < len(b.pipes) {
			b.items = append(b.items, nil)
		}
	}
	b.items[b.last] = append(b.items[b.last], c)
}

// submit hands them over and forgets them.
func (b *byPipeline) submit() {
	for i, p := range b.pipes {
		p.submitAll(b.items[i])
		clear(b.items[i])
		b.items[i] = b.items[i][:0]
	}
	clear(b.pipes)
	b.pipes, b.last = b.pipes[:0], 0
}

// DispatchAll implements call.Batcher: one look at the clock, and one turn in each connection's lock for many
// requests.
func (r *Router) DispatchAll(calls []*call.Call) {
	now := r.now()
	b := r.sorted.Get().(*byPipeline)
	for _, c := range calls {
		r.admit(c, now)
		if p := r.find(c); p != nil {
			b.add(p, c)
		}
	}
	b.submit()
	r.sorted.Put(b)
}

// DispatchAll sends operations that are due at the same time again. Calls of one router that follow one another go
// together. It is what an orchestrator is given.
func DispatchAll(ops []retry.Op) {
	for len(ops) > 0 {
		r := routerOf(ops[0])
		if r == nil {
			ops[0].Dispatch()
			ops = ops[1:]
			continue
		}
		b := r.sorted.Get().(*byPipeline)
		for len(ops) > 0 && routerOf(ops[0]) == r {
			c := ops[0].(*call.Call) //nolint:forcetypeassert // routerOf has looked
			if r.renew(c) {
				if p := r.find(c); p != nil {
					b.add(p, c)
				}
			}
			ops = ops[1:]
		}
		b.submit()
		r.sorted.Put(b)
	}
}

// goOn sends calls that have waited for their way, with one turn in each connection's lock. way gives the pipeline of
// each, as find does.
func (r *Router) goOn(calls []*call.Call, way func(c *call.Call) *pipeline) {
	b := r.sorted.Get().(*byPipeline)
	for _, c := range calls {
		if c.Ended() {
			continue
		}
		c.Begin(r.now())
		if p := way(c); p != nil {
			b.add(p, c)
		}
	}
	b.submit()
	r.sorted.Put(b)
	for _, c := range calls {
		c.Taken()
	}
}

// routerOf gives the router of a call, nil for other operations.
func routerOf(op retry.Op) *Router {
	if c, ok := op.(*call.Call); ok {
		r, _ := c.Owner().(*Router)
		return r
	}
	return nil
}

// submitAll is submit for many calls.
func (p *pipeline) submitAll(calls []*call.Call) {
	var fits *conn.Conn // none of the calls is outdated for it
	for len(calls) > 0 {
		cn := p.conn.Load()
		if cn != nil && p.node.breaker.shut() && p.demand == nil && (cn == fits || !outdated(calls, cn)) {
			fits = cn
			if calls = calls[cn.SubmitAll(calls):]; len(calls) == 0 {
				return
			}
		}
		p.submit(calls[0]) // which knows what to do with one that was not taken
		calls = calls[1:]
	}
}

// outdated reports whether one of the calls was routed by an older map than the connection takes.
func outdated(calls []*call.Call, cn *conn.Conn) bool {
	return cn.Map > 1 && slices.ContainsFunc(calls, func(c *call.Call) bool { return c.Route.Map < cn.Map })
}
