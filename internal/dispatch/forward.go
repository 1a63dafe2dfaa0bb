package dispatch

import (
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
)

// During a rebalance a map may say beside where its vbuckets are also where they go. A call that its node has refused,
// and that no newer map has another node for, goes there, and stays there until there is a newer map.

// forward turns a call to the node that its vbucket moves to. It is false when that is none, or the one that has
// refused.
func (r *Router) forward(pk *picker, cl claimed) bool {
	c := cl.c
	if c.Req.Replica != 0 || c.Route.Forward && c.ForwardRev == pk.snap.Rev {
		return false
	}
	if n := pk.node(pk.snap.ForwardIndex(c.Route.VBucket)); n == nil || n.addr == cl.err.Endpoint {
		return false
	}
	c.Route.Forward, c.ForwardRev = true, pk.snap.Rev
	return true
}

// forwarded is the node of a call that was turned to its vbucket's next one, or i if the map has changed since.
func forwarded(s *topology.Snapshot, c *call.Call, i int) int {
	if c.ForwardRev != s.Rev {
		c.Route.Forward = false
		return i
	}
	if f := s.ForwardIndex(c.Route.VBucket); f >= 0 {
		return f
	}
	return i
}
