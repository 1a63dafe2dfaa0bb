package dispatch

import (
	"errors"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/handshake"
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
	r.first.review()
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
	n := r.node(i)
	return !r.o.NoConfig && (n == nil || !n.mapless())
}

// Reach is how the router stands with regard to maps.
type Reach struct {
	Connected bool // to a node
	Gives     bool // one of those gives maps
	// every address was tried in vain, and not because of what is the same everywhere: the login, the certificate
	Failed bool
	Barren bool // see SetBarren
	Proven bool // a node has taken the login
}

// Reach says how the router stands now.
func (r *Router) Reach() Reach {
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	now := Reach{Barren: r.maps.barren.Load()}
	trying := r.nodes.resolving
	for _, n := range r.nodes.byAddr {
		if n.connected() {
			now.Connected, now.Proven = true, true
			now.Gives = now.Gives || !n.mapless()
			continue
		}
		err, first := n.conns[0].state()
		trying = trying || first
		var ce *handshake.Error
		if errors.As(err, &ce) {
			now.Failed = now.Failed || !sameElsewhere(ce)
			now.Proven = now.Proven || ce.Step == handshake.StepSelectBucket || ce.Step == handshake.StepConfig
		}
	}
	now.Gives = now.Gives && !now.Barren && !r.o.NoConfig
	now.Failed = now.Failed && !now.Connected && !trying
	return now
}

// sameElsewhere reports whether a connection has failed for a reason that other ways to a map have in common with it. A
// node of another bucket is judged by what its own map says.
func sameElsewhere(e *handshake.Error) bool {
	return e.Step == handshake.StepCredentials || errors.Is(e, cberr.AuthenticationFailure) ||
		errors.Is(e, cberr.TLSFailure) ||
		errors.Is(e, cberr.BucketAccess) || errors.Is(e, errForeign)
}

// SetBarren notes whether the nodes' connections go on to bring no map, although no node has said that it never will. A
// map that comes over a connection ends it.
func (r *Router) SetBarren(barren bool) {
	if r.maps.barren.Swap(barren) != barren {
		r.notify()
	}
}

// Barren gives what SetBarren has noted.
func (r *Router) Barren() bool { return r.maps.barren.Load() }

// MapState says whether the router has a way to the cluster's map: a map, and a connection or another source of newer
// ones. refused says that the bucket is why it has none: a node has accepted the login and does not open the bucket, or
// has no map of it.
func (r *Router) MapState() (works, refused bool) {
	known := r.picker.Load() != nil
	err, _ := r.sourceState()
	refused = isBucketTrouble(err)
	for _, p := range r.nodes.list() {
		err, _ := p.state()
		switch {
		case p.conn.Load() == nil:
			refused = refused || isBucketTrouble(err)
		case known:
			works = true
		default:
			refused = refused || !p.confirms.Load()
		}
	}
	return works, refused && !works
}

// isBucketTrouble reports whether err is a node's answer that it does not open the bucket.
func isBucketTrouble(err error) bool {
	var ce *handshake.Error
	return errors.As(err, &ce) && (ce.Kind == cberr.BucketAccess || ce.Kind == cberr.BucketNotFound)
}

// mapless reports whether the node has said that it gives no maps.
func (n *node) mapless() bool {
	for p := range n.pipelines() {
		if cn := p.conn.Load(); cn != nil && cn.Info().NoConfig {
			return true
		}
	}
	return false
}
