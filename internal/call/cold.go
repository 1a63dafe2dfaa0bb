package call

import (
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Scope is as in Cold.
func (r *Request) Scope() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.Scope
}

// Collection is as in Cold.
func (r *Request) Collection() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.Collection
}

// CollectionID is as in Cold.
func (r *Request) CollectionID() uint32 {
	if r.cold == nil {
		return 0
	}
	return r.cold.CollectionID
}

// Block is as in Cold.
func (r *Request) Block() bool {
	return r.cold != nil && r.cold.Block
}

// Retry is as in Cold.
func (r *Request) Retry() retry.Strategy {
	if r.cold == nil {
		return nil
	}
	return r.cold.Retry
}

// OnBehalfOf is as in Cold.
func (r *Request) OnBehalfOf() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.OnBehalfOf
}

// Hedge is as in Cold.
func (r *Request) Hedge() *Hedge {
	if r.cold == nil {
		return nil
	}
	return r.cold.Hedge
}

// Replica is as in Cold.
func (r *Request) Replica() int {
	if r.cold == nil {
		return 0
	}
	return r.cold.Replica
}

// Capability is as in Cold.
func (r *Request) Capability() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.Capability
}

// Connection is as in Cold.
func (r *Request) Connection() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.Connection
}

// ServerGroup is as in Cold.
func (r *Request) ServerGroup() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.ServerGroup
}

// Node is as in Cold.
func (r *Request) Node() int {
	if r.cold == nil {
		return 0
	}
	return r.cold.Node
}

// Verb is as in Cold.
func (r *Request) Verb() string {
	if r.cold == nil {
		return ""
	}
	return r.cold.Verb
}

// Needs are the features without which a connection cannot carry the request.
func (r *Request) Needs() memd.Features {
	if r.cold == nil {
		return 0
	}
	return r.cold.needs
}

// packed is as in Cold.
func (r *Request) packed() []byte {
	if r.cold == nil {
		return nil
	}
	return r.cold.packed
}
