package dispatch

import (
	"bytes"

	"github.com/couchcore/couchcore/internal/topology"
)

// A map is newer than another by epoch and revision, as long as both are of one bucket. A bucket that was deleted and
// created again, or a cluster that was set up anew at the same addresses, may count from the beginning: then the old map's
// version must not bar the new one. What tells the two from a node that lags behind is whether anybody still speaks for the
// bucket that we know: a connection does that began with a map of it. When none does, a map of another bucket replaces ours
// whatever its version is.

// foreign reports whether raw is a map of another bucket than ours.
func (r *Router) foreign(raw []byte) bool {
	pk := r.picker.Load()
	return raw != nil && pk != nil && pk.snap.UUID != "" && !bytes.Contains(raw, []byte(pk.snap.UUID))
}

// confirmed reports whether a connection speaks for the bucket that we know.
func (r *Router) confirmed() (yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range r.pipes {
		p.each(func(q *pipeline) { yes = yes || q.conn.Load() != nil && q.confirms.Load() })
	}
	return yes
}

// doubt sees to it that maps that were refused are looked at again when nobody speaks for ours any more.
func (r *Router) doubt() {
	if r.picker.Load() != nil && !r.confirmed() {
		r.offers.refused(nil)
	}
}

// awaitReborn takes the map of a handshake that is of another bucket than ours, and waits until it was considered. Only
// then may the connection be used: the ids of collections that are known are those of the bucket that is gone, and in the
// new one they may be other collections'.
func (r *Router) awaitReborn(raw []byte, addr string) {
	r.offers.refused(nil) // another node may have shown it before
	r.offerAndTell(raw, addr)()
}

// replaces reports whether s is to be used instead of the old map, which may be nil.
func (r *Router) replaces(s, old *topology.Snapshot) bool {
	return old == nil || s.Newer(old) || another(s, old) && !r.confirmed()
}

// another reports whether s is known to be of another bucket than old.
func another(s, old *topology.Snapshot) bool {
	return identity(s) != "" && identity(s) != identity(old)
}

// identity is what a bucket keeps for life, or for a map of the whole cluster the cluster.
func identity(s *topology.Snapshot) string {
	if s.UUID != "" {
		return s.UUID
	}
	return s.ClusterUUID
}
