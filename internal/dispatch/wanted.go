package dispatch

import (
	"github.com/couchcore/couchcore/internal/topology"
)

// Wanted gives a value whenever a newer cluster map than ours may exist. Many signs of one map give few values.
func (r *Router) Wanted() <-chan struct{} { return r.fetch }

// StillWanted says whether there is a sign of a newer map that has not come meanwhile, and forgets those that name no
// version.
func (r *Router) StillWanted() bool {
	s := r.Snapshot()
	r.mu.Lock()
	defer r.mu.Unlock()
	some := r.wantAny
	r.wantAny = false
	return some || s == nil || newer(r.wantEpoch, r.wantRev, s)
}

// Announced reports whether a node has named a version of the map that is newer than ours. node is that node's index in
// the map, -1 when it is not in it.
func (r *Router) Announced() (node int, is bool) {
	s := r.Snapshot()
	r.mu.Lock()
	epoch, rev, from := r.wantEpoch, r.wantRev, r.wantFrom
	r.mu.Unlock()
	if from == nil || s != nil && !newer(epoch, rev, s) {
		return -1, false
	}
	return from.index(), true
}

func newer(epoch int64, rev uint64, s *topology.Snapshot) bool {
	return epoch > s.Epoch || epoch == s.Epoch && rev > s.Rev
}

// want says that there may be a newer map.
func (r *Router) want() {
	r.mu.Lock()
	r.wantAny = true
	r.mu.Unlock()
	r.signal()
}

// wantVersion says that there is a map of that version, by word of the node n. Of several
// nodes that name the same version, the first by address counts, in whatever order they do.
func (r *Router) wantVersion(epoch int64, rev uint64, n *node) {
	r.mu.Lock()
	switch {
	case epoch > r.wantEpoch, epoch == r.wantEpoch && rev > r.wantRev:
		r.wantEpoch, r.wantRev, r.wantFrom = epoch, rev, n
	case epoch == r.wantEpoch && rev == r.wantRev && (r.wantFrom == nil || n.addr < r.wantFrom.addr):
		r.wantFrom = n
	}
	r.mu.Unlock()
	r.signal()
}

func (r *Router) signal() {
	select {
	case r.fetch <- struct{}{}:
	default:
	}
}
