package kv

import (
	"context"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
)

// Capabilities of a bucket, by their names in the cluster map.
const (
	CapabilityCollections    = call.CapabilityCollections
	CapabilityDurableWrite   = call.CapabilityDurableWrite
	CapabilityReplicaLookup  = call.CapabilityReplicaLookup
	CapabilityReviveDocument = call.CapabilityReviveDocument
	CapabilityRangeScan      = call.CapabilityRangeScan
)

// inside is where the requests of an operation go that sends several of them.
type inside struct{ run call.Runner }

// Runner implements Dispatcher.
func (i inside) Runner() Runner { return i.run }

// compound begins such an operation; leave ends it. A client that shuts down lets it finish: its later requests are not
// refused.
func compound(d Dispatcher) (in Dispatcher, leave func()) {
	run, leave := call.Compound(d.Runner())
	return inside{run}, leave
}

// routable gives the newest map that has vbuckets: as long as the bucket's own is still empty it waits as a call does,
// and fails as one would. A bucket that never has any is cberr.UnsupportedOperation; one that is known to lack the
// capability, unless that is "", a *FeatureError.
func routable(ctx context.Context, d Dispatcher, verb string, c *Common, capability string) (call.Layout, error) {
	l, err := awaitMap(ctx, d, call.MapWait{Verb: verb, Retry: c.Retry, Timeout: c.Timeout, VBuckets: true})
	if err != nil {
		return nil, err
	}
	if has, known := l.Capability(capability); capability != "" && known && !has {
		return nil, &FeatureError{Capability: capability}
	}
	if l.NumVBuckets() == 0 {
		return nil, &Error{Op: verb, Err: cberr.UnsupportedOperation}
	}
	return l, nil
}

// awaitMap gives the newest map to an operation, whose verb its error has.
func awaitMap(ctx context.Context, d Dispatcher, w call.MapWait) (call.Layout, error) {
	if m, ok := d.Runner().(call.Mapped); ok {
		return m.AwaitMap(ctx, w)
	}
	return nil, &Error{Op: w.Verb, Err: cberr.UnsupportedOperation}
}

// verbOf is what errors call the operation of a request.
func verbOf(r *call.Request) string {
	if r.Verb() != "" {
		return r.Verb()
	}
	if s := call.SpecOf(r.Opcode); s != nil {
		return s.Name
	}
	return r.Opcode.String()
}
