package call

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// empty is what a request has that has no Cold. It is never written to.
var empty Cold

// rare is the request's Cold, to be read.
func (r *Request) rare() *Cold {
	if r.cold == nil {
		return &empty
	}
	return r.cold
}

// Scope is as in Cold.
func (r *Request) Scope() string { return r.rare().Scope }

// Collection is as in Cold.
func (r *Request) Collection() string { return r.rare().Collection }

// CollectionID is as in Cold.
func (r *Request) CollectionID() uint32 { return r.rare().CollectionID }

// Block is as in Cold.
func (r *Request) Block() bool { return r.rare().Block }

// Retry is as in Cold.
func (r *Request) Retry() retry.Strategy { return r.rare().Retry }

// OnBehalfOf is as in Cold.
func (r *Request) OnBehalfOf() string { return r.rare().OnBehalfOf }

// Hedge is as in Cold.
func (r *Request) Hedge() *Hedge { return r.rare().Hedge }

// Replica is as in Cold.
func (r *Request) Replica() int { return r.rare().Replica }

// Capability is as in Cold.
func (r *Request) Capability() string { return r.rare().Capability }

// Connection is as in Cold.
func (r *Request) Connection() string { return r.rare().Connection }

// ServerGroup is as in Cold.
func (r *Request) ServerGroup() string { return r.rare().ServerGroup }

// Node is as in Cold.
func (r *Request) Node() int { return r.rare().Node }

// Verb is as in Cold.
func (r *Request) Verb() string { return r.rare().Verb }

// Needs are the features without which a connection cannot carry the request.
func (r *Request) Needs() memd.Features { return r.rare().needs }

// packed is as in Cold.
func (r *Request) packed() []byte { return r.rare().packed }
