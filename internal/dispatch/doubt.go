package dispatch

import (
	"bytes"

	"github.com/couchcore/couchcore/internal/topology"
)

// A map is newer than another by epoch and revision, as long as both are of one bucket. A bucket that was deleted and
// created again, or a cluster that was set up anew at the same addresses, may count from the beginning: then the old map's
// version must not bar the new one. So a map is in doubt from when the last connection of the bucket was lost until a map
// confirms or replaces it; meanwhile one of another bucket replaces it whatever its version is. At other times a map of
// another bucket with a lower version comes from a node that lags behind.

// doubt puts the map in doubt if no node is connected.
func (r *Router) doubt() {
	pk := r.picker.Load()
	if pk == nil || r.anySeed() != nil {
		return
	}
	r.doubted.Store(true)
	r.offers.refused(nil)
}

// awaitReborn takes the map of a handshake and, when it is of another bucket than ours, waits until it was considered. Only
// then may the connection be used: the ids of collections that are known are those of the bucket that is gone, and in the
// new one they may be other collections'.
func (r *Router) awaitReborn(raw []byte, addr string) {
	pk := r.picker.Load()
	if raw == nil || pk == nil || pk.snap.UUID == "" || bytes.Contains(raw, []byte(pk.snap.UUID)) {
		return
	}
	w := claimed{considered: make(chan struct{})}
	if r.offers.offer(raw, 0, addr, &w) {
		return
	}
	select {
	case <-w.considered:
	case <-r.ctx.Done():
	}
}

// replaces reports whether s is to be used instead of the old map, which may be nil.
func (r *Router) replaces(s, old *topology.Snapshot) bool {
	if old == nil {
		return true
	}
	if r.doubted.CompareAndSwap(true, false) && identity(s) != "" && identity(s) != identity(old) {
		return true
	}
	return s.Newer(old)
}

// identity is what a bucket keeps for life, or for a map of the whole cluster the cluster.
func identity(s *topology.Snapshot) string {
	if s.UUID != "" {
		return s.UUID
	}
	return s.ClusterUUID
}
