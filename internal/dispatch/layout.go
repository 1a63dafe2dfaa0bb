package dispatch

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/hedge"
)

// layout is a picker as operations over several nodes see it.
type layout struct{ pk *picker }

var _ call.Layout = layout{}

func (l layout) NumVBuckets() int          { return l.pk.snap.NumVBuckets() }
func (l layout) NumReplicas() int          { return l.pk.snap.Replicas }
func (l layout) VBucket(key []byte) uint16 { return l.pk.snap.VBucket(key) }

func (l layout) NodeIndex(vb uint16, replica int) int {
	if i := l.pk.snap.NodeIndex(vb, replica); l.pk.node(i) != nil {
		return i
	}
	return -1
}

func (l layout) DataNodes() []int {
	var is []int
	for i, n := range l.pk.nodes {
		if n != nil {
			is = append(is, i)
		}
	}
	return is
}

func (l layout) ServerGroup(node int) string {
	if node < 0 || node >= len(l.pk.snap.Nodes) {
		return ""
	}
	return l.pk.snap.Nodes[node].ServerGroup
}

func (l layout) Capability(name string) (has, known bool) {
	c := l.pk.snap.Capability(name)
	return c == topology.Supported, c != topology.Unknown
}

// Layout implements call.Mapped: before the first cluster map it waits for it, at most as long as a call would, and
// fails as one would.
func (r *Router) Layout(ctx context.Context) (call.Layout, error) { return r.LayoutAs(ctx, nil) }

// LayoutAs is Layout with a strategy for the wait, nil for the cluster's.
func (r *Router) LayoutAs(ctx context.Context, s retry.Strategy) (call.Layout, error) {
	if pk := r.picker.Load(); pk != nil {
		return layout{pk}, nil
	}
	// A request that any data node may answer waits for the map, and meets what calls meet on their way.
	err := r.waitForMap(ctx, s)
	if pk := r.picker.Load(); pk != nil { // whatever became of the request
		return layout{pk}, nil
	}
	return nil, err
}

// waitForMap runs the request that waits for the map in a Layout, whose name it has.
func (r *Router) waitForMap(ctx context.Context, s retry.Strategy) error {
	c := r.NewCall()
	defer r.Release(c)
	c.Req.Opcode, c.Req.Pinned = memd.OpNoop, true
	cold := c.Req.Own()
	cold.Verb, cold.Retry = "layout", s
	return c.Run(ctx, r)
}

// AwaitMap waits for the first cluster map: until it is there, ctx ends, or no handshake that has not failed can bring
// it. It starts nothing and says nothing: the waiter looks again.
func (r *Router) AwaitMap(ctx context.Context) {
	limit := maxAwait
	if d, ok := ctx.Deadline(); ok {
		limit = max(time.Until(d), 1)
	}
	if r.picker.Load() == nil {
		// A request to a node that no map has: it waits for the map, and goes no further.
		_, _ = kv.Do(ctx, r, kv.Noop{Common: kv.Common{Retry: Strict, Timeout: limit}, Pinned: true, Node: -1})
	}
}

// maxAwait is how long AwaitMap waits when its context says nothing.
const maxAwait = time.Minute

// HedgePlan implements call.Hedger.
func (r *Router) HedgePlan(key []byte) call.HedgePlan {
	plan := call.HedgePlan{Timeout: r.o.Timeout, Once: Strict, Wait: r.o.Transparent, Done: r.hedged}
	if ps := r.policies.Load(); ps != nil {
		plan.Throttle = ps.Throttle
		if p := ps.Of(memd.OpGet); p != nil && p.Timeout > 0 {
			plan.Timeout = p.Timeout
		}
	}
	if r.o.Instruments != nil {
		plan.Observe = r.observeHedged
	}
	pk := r.picker.Load()
	if pk == nil || pk.snap.NumVBuckets() == 0 {
		return plan
	}
	l := layout{pk}
	vb := pk.snap.VBucket(key)
	for i := 0; i <= pk.snap.Replicas; i++ {
		n := l.NodeIndex(vb, i)
		if n < 0 {
			break
		}
		plan.Copies = append(plan.Copies, pk.nodes[n].addr)
	}
	return plan
}

// hedged counts the reads beyond the first.
func (r *Router) hedged(s hedge.Stats) {
	r.o.Orchestrator.Hedged("kv", "get", s.Sent, s.Failed)
}
