package dispatch

import (
	"slices"
	"sync"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// byPipeline is calls, or reads without calls, on their way to several connections. It is memory that is used again.
type byPipeline[T any] struct {
	pipes []*pipeline
	items [][]T // of each pipeline
	last  int   // the one that was added to last
}

// byPipelineOf gives one from a pool of them.
func byPipelineOf[T any](pool *sync.Pool) *byPipeline[T] {
	if b, ok := pool.Get().(*byPipeline[T]); ok {
		return b
	}
	return &byPipeline[T]{}
}

func (b *byPipeline[T]) add(p *pipeline, item T) {
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
	b.items[b.last] = append(b.items[b.last], item)
}

// submit hands them over and forgets them.
func (b *byPipeline[T]) submit(to func(p *pipeline, items []T)) {
	for i, p := range b.pipes {
		to(p, b.items[i])
		clear(b.items[i])
		b.items[i] = b.items[i][:0]
	}
	clear(b.pipes)
	b.pipes, b.last = b.pipes[:0], 0
}

// handful is calls that were used together and will be again.
type handful struct {
	n     int
	calls [16]*kv.Call
}

// NewCalls implements kv.BatchDispatcher.
func (r *Router) NewCalls(dst []*kv.Call) {
	for len(dst) > 0 {
		h, ok := r.handfuls.Get().(*handful)
		if !ok {
			for i := range dst {
				dst[i] = r.NewCall()
			}
			return
		}
		n := copy(dst, h.calls[:h.n])
		for _, c := range dst[:n] {
			r.mayHedge(c)
		}
		dst = dst[n:]
		for h.n -= n; h.n > 0; h.n-- { // more than were asked for
			r.pool.Put(h.calls[n+h.n-1])
		}
		r.empty.Put(h)
	}
}

// ReleaseAll implements kv.BatchDispatcher.
func (r *Router) ReleaseAll(calls []*kv.Call) {
	var h *handful
	for _, c := range calls {
		if c == nil || !r.free(c) {
			continue
		}
		if h == nil {
			var ok bool
			if h, ok = r.empty.Get().(*handful); !ok {
				h = &handful{}
			}
		}
		h.calls[h.n] = c
		if h.n++; h.n == len(h.calls) {
			r.handfuls.Put(h)
			h = nil
		}
	}
	if h != nil {
		r.handfuls.Put(h)
	}
}

// DispatchAll implements kv.BatchDispatcher: one look at the clock, and one turn in each connection's lock for many
// requests.
func (r *Router) DispatchAll(calls []*kv.Call) {
	now := r.now()
	b := byPipelineOf[*kv.Call](&r.sorted)
	for _, c := range calls {
		r.admit(c, now)
		if p := r.find(c); p != nil {
			b.add(p, c)
		}
	}
	b.submit((*pipeline).submitAll)
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
		b := byPipelineOf[*kv.Call](&r.sorted)
		for len(ops) > 0 && routerOf(ops[0]) == r {
			c := ops[0].(*kv.Call) //nolint:forcetypeassert // routerOf has looked
			r.renew(c)
			if p := r.find(c); p != nil {
				b.add(p, c)
			}
			ops = ops[1:]
		}
		b.submit((*pipeline).submitAll)
		r.sorted.Put(b)
	}
}

// routerOf gives the router of a call, nil for other operations.
func routerOf(op retry.Op) *Router {
	if c, ok := op.(*kv.Call); ok {
		r, _ := c.Owner().(*Router)
		return r
	}
	return nil
}

// submitAll is submit for many calls.
func (p *pipeline) submitAll(calls []*kv.Call) {
	var fits *conn.Conn // none of the calls is outdated for it
	for len(calls) > 0 {
		if cn := p.conn.Load(); cn != nil && p.breaker == nil && !p.inOrder && (cn == fits || !outdated(calls, cn)) {
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
func outdated(calls []*kv.Call, cn *conn.Conn) bool {
	return cn.Map > 1 && slices.ContainsFunc(calls, func(c *kv.Call) bool { return c.Route.Map < cn.Map })
}
