package dispatch

import (
	"context"
	"math"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry/hedge"
)

// layout is a picker as operations over several nodes see it.
type layout struct{ pk *picker }

var _ call.Layout = layout{}

func (l layout) Version() (epoch, rev int64) {
	return l.pk.snap.Epoch, int64(min(l.pk.snap.Rev, math.MaxInt64))
}

func (l layout) BucketUUID() string { return l.pk.snap.UUID }

func (l layout) Cluster() (uuid, name string) { return l.pk.snap.ClusterUUID, l.pk.snap.ClusterName }

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

// AwaitMap implements call.Mapped. The wait is a call's: in the room of those that wait for the first map, or parked
// while the bucket's own map has no vbuckets yet. Nothing is sent for it.
func (r *Router) AwaitMap(ctx context.Context, w call.MapWait) (call.Layout, error) {
	if pk := r.picker.Load(); pk.does(w.VBuckets) {
		return layout{pk}, nil
	}
	err := call.AwaitMap(ctx, r, w)
	if pk := r.picker.Load(); pk.does(w.VBuckets) { // whatever became of the call
		return layout{pk}, nil
	}
	return nil, err
}

// HedgePlan implements call.Hedger.
func (r *Router) HedgePlan(key []byte) call.HedgePlan {
	plan := call.HedgePlan{Timeout: r.o.Timeout, Once: call.Strict, Wait: r.o.Transparent, Done: r.hedged}
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
