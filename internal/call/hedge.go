package call

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// Hedge says how a read is sent to several copies, as package kv describes it: a kv.Hedge converts to it.
type Hedge struct {
	MaxAttempts int
	Delay       time.Duration
	NonFatal    func(error) bool
}

// HedgePlan is what a dispatcher knows about the hedges of one call.
type HedgePlan struct {
	Copies   []string       // the addresses of the document's copies, the active one first
	Timeout  time.Duration  // of a call that names none
	Once     retry.Strategy // never tries again
	Wait     retry.Strategy // tries again what no server has seen, and nothing else
	Throttle hedge.Throttle // nil: no throttle
	Done     func(hedge.Stats)
	// Observe begins the one operation that the reads made with the context that it gives are attempts of; end is told
	// the outcome. Nil does nothing.
	Observe func(ctx context.Context, scope, collection string) (of context.Context, end func(error))
}

// Hedger is a Dispatcher that can spread a read over a document's copies. Without it, and where a plan has fewer than
// two copies, a hedged read is sent like any other.
type Hedger interface{ HedgePlan(key []byte) HedgePlan }

// SetHedge tells the call where to ask for the hedges that a policy has for its opcode. Dispatchers call it when they
// give a call.
func (c *Call) SetHedge(f func(op memd.Opcode) (h *Hedge, pinned bool)) {
	c.policyHedge = f
	c.has |= hasPolicy
}

// MayHedge reports whether there may be anything that says so: Hedging tells. Most calls need not ask it.
func (c *Call) MayHedge() bool { return c.Req.Hedge() != nil || c.has&hasPolicy != 0 }

// Hedging is how the call is hedged, nil for not at all: as it says itself, or as the policy says unless it names a
// strategy of its own.
func (c *Call) Hedging() *Hedge {
	// a replica that lags would say that there is nothing
	if c.Req.Opcode != memd.OpGet || c.Req.AbsentOK || !c.MayHedge() {
		return nil
	}
	h := c.Req.Hedge()
	if c.has&hasPolicy != 0 {
		if p, pinned := c.policyHedge(c.Req.Opcode); pinned || p != nil && h == nil && c.Req.Retry() == nil {
			h = p // nil when a pinned entry has another policy
		}
	}
	if h == nil || h.MaxAttempts < 2 {
		return nil
	}
	return h
}
