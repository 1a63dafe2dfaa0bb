package dispatch

import (
	"errors"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// Source brings cluster maps in another way than over the nodes' connections. Its methods are called with and without
// the router's lock: they do not block and call nothing of the router's.
type Source interface {
	// State says whether a first map may still come, and if not, why the last attempt failed; nil when none has.
	State() (last error, trying bool)
	// Needed says that a node of the router's gives no maps.
	Needed()
}

// SourceChanged is called after the source's state has changed for the worse: calls that waited for it look again.
func (r *Router) SourceChanged() {
	r.releaseWaiting()
	r.wake()
	r.notify()
}

// sourceState is the source's, if there is one.
func (r *Router) sourceState() (last error, trying bool) {
	if r.o.Source == nil {
		return nil, false
	}
	return r.o.Source.State()
}

// GivesMaps reports whether the node with index i gives cluster maps over its connection, as far as is known.
func (r *Router) GivesMaps(i int) bool {
	pk := r.picker.Load()
	if pk == nil || i < 0 || i >= len(pk.nodes) || pk.nodes[i] == nil {
		return !r.o.NoConfig
	}
	return !r.o.NoConfig && !pk.nodes[i].mapless()
}

// Reach says how the router stands with regard to maps: whether it is connected to a node, whether one of those gives
// maps, and whether every address was tried in vain.
func (r *Router) Reach() (connected, gives, unreachable bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	unreachable = !r.resolving
	for _, p := range r.pipes {
		if p.connectedAny() {
			connected, unreachable = true, false
			gives = gives || !p.mapless()
			continue
		}
		err, trying := p.state()
		var ce *conn.ConnectError
		if trying || !errors.As(err, &ce) || ce.Step != conn.StepDial {
			unreachable = false
		}
	}
	return connected, gives && !r.o.NoConfig, unreachable
}

// mapless reports whether the node has said that it gives no maps.
func (p *pipeline) mapless() (no bool) {
	p.each(func(q *pipeline) {
		if cn := q.conn.Load(); cn != nil {
			no = no || cn.Info().NoConfig
		}
	})
	return no
}

// pickRing is pick for a bucket without vbuckets: a memcached one spreads its keys over a ring.
func (r *Router) pickRing(pk *picker, c *kv.Call) (*pipeline, retry.Reason) {
	if pk.snap.Locator != topology.LocatorKetama {
		return nil, retry.NotReady
	}
	i := -1
	if !c.Req.ByVBucket && c.Req.Replica == 0 {
		c.Borrow(func(key []byte) { i = pk.snap.KetamaIndex(key) }) // of a call that has ended nobody asks for the node
	}
	c.Route.VBucket = 0
	if i < 0 || i >= len(pk.nodes) || pk.nodes[i] == nil {
		return nil, retry.NodeNotAvailable
	}
	return pk.nodes[i].choose(c), retry.Unknown
}
