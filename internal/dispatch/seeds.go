package dispatch

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/observe"
)

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
	var leaving []*node
	for addr, n := range r.nodes {
		if !stay[n] {
			r.forget(addr)
			leaving = append(leaving, n)
		}
	}
	r.leave(leaving)
}
