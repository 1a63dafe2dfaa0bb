package kv

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/retry"
)

// Limits of a request, checked before anything is sent (spec of the server: BinaryProtocol.md, Collections.md).
const (
	MaxKeyLen           = call.MaxKeyLen           // in the default collection
	MaxKeyLenCollection = call.MaxKeyLenCollection // in any other
	MaxValueLen         = call.MaxValueLen         // of a document
	MaxUserLen          = call.MaxUserLen          // of an impersonated user, so that it fits beside the other framing extras
	MaxReplicas         = call.MaxReplicas         // that a bucket can have
)

// Common are the fields that every operation has. The zero value means: default collection, the cluster's strategy,
// the cluster's timeout, the client's own user.
type Common struct {
	Scope      string // "" means _default
	Collection string // "" means _default

	// Retry overrides the cluster's strategy for this call; nil inherits. It never overrides what keeps a write from
	// being applied twice.
	Retry retry.Strategy

	// OnBehalfOf names the user whose privileges the server is to check.
	OnBehalfOf string

	// Timeout bounds the call from its start, all retries included; 0 means the cluster's timeout for such a call.
	// A deadline of the context that comes earlier wins.
	Timeout time.Duration

	// CollectionID is the collection's id where the caller knows it already: no node is asked for it then. When no
	// collection has it, the collection's names are looked up if there are some; without names the call fails. 0 means
	// that it is not known.
	CollectionID uint32

	// Block makes a call that finds its connection full wait for its turn, until its deadline at most, instead of
	// asking the strategy. Start and Go then return when it is on its way, so that a caller that starts more than the
	// cluster takes is slowed down. Without it they never block.
	Block bool
}

// setCommon gives a request what its operation has in common with others. What a call has seldom is set only when it is
// given, because it takes memory of its own.
func setCommon(r *call.Request, c *Common) {
	r.Timeout = c.Timeout
	if c.Scope != "" || c.Collection != "" || c.CollectionID != 0 {
		o := r.Own()
		o.Scope, o.Collection, o.CollectionID = c.Scope, c.Collection, c.CollectionID
	}
	if c.Retry != nil || c.OnBehalfOf != "" || c.Block {
		o := r.Own()
		o.Retry, o.OnBehalfOf, o.Block = c.Retry, c.OnBehalfOf, c.Block
	}
}

// setReplica says which replica answers, 0 being the active copy, and the only group of nodes that may.
func setReplica(r *call.Request, replica int, group string) error {
	if replica < 0 || replica > MaxReplicas {
		return outOfRange("replica", int64(replica), MaxReplicas)
	}
	if replica != 0 || group != "" {
		o := r.Own()
		o.Replica, o.ServerGroup = replica, group
	}
	return nil
}

// setNode says which node a pinned request is for.
func setNode(r *call.Request, node int) {
	if node != 0 {
		r.Own().Node = node
	}
}

// setConnection says which connection must carry the request.
func setConnection(r *call.Request, id string) {
	if id != "" {
		r.Own().Connection = id
	}
}
