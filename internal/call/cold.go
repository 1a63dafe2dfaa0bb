package call

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// empty is what a request has that has no Cold. It is never written to.
var empty Cold

// coldPart is the request's Cold, to be read.
func (r *Request) coldPart() *Cold {
	if r.cold == nil {
		return &empty
	}
	return r.cold
}

// Scope is as in Cold.
func (r *Request) Scope() string { return r.coldPart().Scope }

// Collection is as in Cold.
func (r *Request) Collection() string { return r.coldPart().Collection }

// CollectionID is as in Cold.
func (r *Request) CollectionID() uint32 { return r.coldPart().CollectionID }

// Block is as in Cold.
func (r *Request) Block() bool { return r.coldPart().Block }

// Retry is as in Cold.
func (r *Request) Retry() retry.Strategy { return r.coldPart().Retry }

// OnBehalfOf is as in Cold.
func (r *Request) OnBehalfOf() string { return r.coldPart().OnBehalfOf }

// Hedge is as in Cold.
func (r *Request) Hedge() *Hedge { return r.coldPart().Hedge }

// Replica is as in Cold.
func (r *Request) Replica() int { return r.coldPart().Replica }

// Capability is as in Cold.
func (r *Request) Capability() string { return r.coldPart().Capability }

// Connection is as in Cold.
func (r *Request) Connection() string { return r.coldPart().Connection }

// ServerGroup is as in Cold.
func (r *Request) ServerGroup() string { return r.coldPart().ServerGroup }

// Node is as in Cold.
func (r *Request) Node() int { return r.coldPart().Node }

// Verb is as in Cold.
func (r *Request) Verb() string { return r.coldPart().Verb }

// Needs are the features without which a connection cannot carry the request.
func (r *Request) Needs() memd.Features { return r.coldPart().needs }

// packed is the value, compressed; nil when it is sent as it is.
func (r *Request) packed() []byte {
	if r.own == nil {
		return nil
	}
	return r.own.packed
}
