package dispatch

import (
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
)

// What replaces a map that works must be known to be better. A map is used only if it is of the router's bucket, is
// newer (see incarnation.go for the exception), and leads to a data node if the one in use does. One that is refused is
// kept as an error, so that a caller who waits for a map, or for the way that it would have, is told why; it is
// forgotten when another map is applied, or when the node that gave it gives one that can be used.

// MapError is a cluster map that is not used, and why.
type MapError struct {
	Addr string // of the node that gave it
	Err  error
}

func (e *MapError) Error() string {
	return "the cluster map from " + e.Addr + " is not used: " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *MapError) Unwrap() error { return e.Err }

var (
	errOfTheCluster = errors.New("it is of the whole cluster, not of a bucket")
	errOfABucket    = errors.New("it is of a bucket, not of the whole cluster")
	errNoVBuckets   = errors.New("no vbucket of it has a node, and those of the map in use have")
)

// ours says why a map is not for this router, whatever its version is. Maps of buckets have had a name since servers
// give them over connections; older ones and those of substitutes may have none.
func (r *Router) ours(s *topology.Snapshot) error {
	switch {
	case r.o.Bucket == "" && s.Locator != topology.LocatorNone:
		return errOfABucket
	case r.o.Bucket != "" && s.Locator == topology.LocatorNone:
		return errOfTheCluster
	case s.Bucket != "" && s.Bucket != r.o.Bucket:
		return fmt.Errorf("it is of the bucket %.64q", s.Bucket)
	}
	return nil
}

// worse says why a map is not used instead of the old one, which may be nil, although it is newer.
func (r *Router) worse(s, old *topology.Snapshot, network string) error {
	if err := s.Conflict(old); err != nil {
		return err
	}
	leads := s.Leads(network, r.o.TLS)
	switch {
	case leads:
	case old != nil && old.Leads(network, r.o.TLS):
		return errNoVBuckets
	case s.DataNodes() > 0 && len(s.Endpoints(topology.KV, network, r.o.TLS)) == 0:
		kind := "without TLS"
		if r.o.TLS {
			kind = "with TLS"
		}
		return fmt.Errorf("no data node of it has an address %s on the network %.64q", kind, network)
	}
	return nil
}

// refuse notes that a map is not used. The map in use stays, and the next one is not barred by the version of this one.
// A newer map that is worse is asked for again: once at once, and then whenever it is time to ask.
func (r *Router) refuse(of *offered, s, old *topology.Snapshot, err error) {
	r.o.Log.Warn(r.ctx, observe.MsgConfigRefused, about(of.addr, err)...)
	r.refusal.Store(&MapError{of.addr, err})
	r.offers.unversioned(old)
	if s != nil && (s.Epoch != r.askedAgain.epoch || s.Rev != r.askedAgain.rev) {
		r.askedAgain.epoch, r.askedAgain.rev = s.Epoch, s.Rev
		r.want()
	}
	r.notify()
}

// usable notes that the node at addr has given a map that can be used, or was used before.
func (r *Router) usable(addr string) {
	if e := r.refusal.Load(); e != nil && e.Addr == addr && r.refusal.CompareAndSwap(e, nil) {
		r.notify()
	}
}

// Refusal is the cluster map that was refused last, nil when no refusal matters.
func (r *Router) Refusal() *MapError { return r.refusal.Load() }

// withRefusal is what a call has met, and the map that was refused meanwhile: it may have had the way that the call
// needs.
type withRefusal struct {
	err     error
	refusal *MapError
}

func (e *withRefusal) Error() string   { return e.err.Error() + "; " + e.refusal.Error() }
func (e *withRefusal) Unwrap() []error { return []error{e.err, e.refusal} }

// beside adds the map that was refused to what a call has met, which may be nil.
func (r *Router) beside(err error) error {
	e := r.refusal.Load()
	switch {
	case e == nil || errors.Is(err, e):
		return err
	case err == nil:
		return e
	}
	return &withRefusal{err, e}
}
