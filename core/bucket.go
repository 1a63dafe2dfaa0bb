package core

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/dispatch"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

const (
	wantedTimeout = 500 * time.Millisecond // how long a cluster map is waited for that is known to exist
	announceTime  = time.Millisecond       // between the first sign of a newer map and the request for it
	forgetAfter   = 10 * time.Second       // nodes that have left, for the throttle
)

// Bucket runs the key-value calls of one bucket: it is a kv.Dispatcher. It is safe for concurrent use. Its Close ends
// it, and so does the cluster's.
type Bucket struct {
	c       *Cluster
	name    string
	router  *dispatch.Router
	run     counted
	source  *mapSource
	renewer *renewer
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

func (c *Cluster) newBucket(name string) *Bucket {
	ctx, stop := context.WithCancel(context.Background())
	b := &Bucket{c: c, name: name, stop: stop}
	b.source, b.renewer = b.newSource(), b.newRenewer()
	cfg := &c.cfg
	b.router = dispatch.New(dispatch.Options{
		Bucket: name, Seeds: c.hosts(), Resolve: c.resolver(), TLS: c.encrypted, Network: cfg.Net.Network,
		Base: c.base, Orchestrator: c.orch, Health: &c.health, ErrorMaps: &errormap.Store{}, Connect: c.connectOptions,
		Log: c.log, Instruments: c.instr, JitterSource: cfg.Retry.JitterSource,
		Timeout: cfg.KV.Timeout, DurableTimeout: cfg.KV.DurableTimeout, QueueLimit: cfg.Limits.Queue,
		Connections: cfg.KV.Connections, RedialMax: cfg.Net.ReconnectMax,
		MaxPaths:     uint16(cfg.KV.MaxPaths), // within its limits
		ConfigLimits: topology.Options{MaxBytes: cfg.Limits.Map, MaxDepth: cfg.Limits.MapDepth},
		InflateLimit: cfg.Limits.Inflated, ErrorMapLimit: cfg.Limits.ErrorMap,
		Orphans: c.reports.orphans, Slow: c.reports.slow, SlowCall: cfg.Observe.Thresholds.KV,
		SlowScan: cfg.Observe.Thresholds.Scan,
		NoConfig: cfg.Maps.Bootstrap == BootstrapHTTP, Source: b.source, Stale: b.renewer.refused,
		Policies: c.kvPolicies(c.policy.Load()), Transparent: policy.Unreached(), Classify: c.classifier(),
		Breaker: cfg.breaker, Applied: c.telemetry.mapApplied,
	})
	b.run = counted{&runner{b.router, cfg.KV.ScanTimeout, name}, c.door}
	b.wg.Go(func() { b.poll(ctx) })
	b.wg.Go(func() { b.source.run(ctx) })
	b.wg.Go(func() { b.renewer.run(ctx) })
	return b
}

// Name is the bucket's name.
func (b *Bucket) Name() string { return b.name }

// Runner implements kv.Dispatcher. It is the seam between operations and the client's inside: a program hands the
// bucket to kv.Do and its like and does not call it.
func (b *Bucket) Runner() kv.Runner { return &b.run }

// Layout is one cluster map as operations over several nodes or vbuckets see it. It does not change. Its methods are
// total: every input has an answer.
type Layout interface {
	// NumVBuckets is the number of vbuckets; 0 for a bucket without them.
	NumVBuckets() int
	// NumReplicas is the number of replicas that the bucket is configured with.
	NumReplicas() int
	// VBucket is the vbucket of a key.
	VBucket(key []byte) uint16
	// NodeIndex is the node of a vbucket's copy, where 0 is the active one; -1 when no node has it.
	NodeIndex(vb uint16, replica int) int
	// DataNodes are the nodes that hold the bucket's data. The slice is the caller's.
	DataNodes() []int
	// ServerGroup is the group of a node, "" when the map does not say.
	ServerGroup(node int) string
	// Capability says whether the bucket has a capability; known is false when the map lists none at all.
	Capability(name string) (has, known bool)
	// Version is the map's epoch and revision, as in Map.
	Version() (epoch, rev int64)
	// BucketUUID is the uuid of the bucket, which is another one when it was deleted and created again; "" when the map
	// does not say.
	BucketUUID() string
	// Cluster is the uuid and the name of the cluster, each "" when the map does not say.
	Cluster() (uuid, name string)
}

// Layout gives the newest cluster map. Before the first it waits for it as a call would, and fails as one would.
func (b *Bucket) Layout(ctx context.Context) (Layout, error) {
	return b.router.AwaitMap(ctx, call.MapWait{Verb: "layout"})
}

// runner is a bucket's router with what operations over many nodes ask for besides.
type runner struct {
	*dispatch.Router
	scanTimeout time.Duration
	bucket      string
}

// ScanTimeout implements call.ScanTimer.
func (r *runner) ScanTimeout() time.Duration { return r.scanTimeout }

// Name implements call.Named.
func (r *runner) Name() string { return r.bucket }

// counted is a runner for operations of the user's, which Shutdown waits for.
type counted struct {
	*runner
	door *tasks.Door
}

// NewCall implements call.Runner.
func (r *counted) NewCall() *call.Call {
	c := r.runner.NewCall()
	c.Enter(r.door)
	return c
}

// Release implements call.Runner.
func (r *counted) Release(c *call.Call) {
	c.Leave()
	r.runner.Release(c)
}

// AwaitMap implements call.Mapped.
func (r *counted) AwaitMap(ctx context.Context, w call.MapWait) (call.Layout, error) {
	if r.door.IsShut() {
		return nil, call.AwaitMap(ctx, r, w) // a call, which is refused
	}
	return r.runner.AwaitMap(ctx, w)
}

// Inside implements call.Doored.
func (r *counted) Inside() call.Runner { return r.runner }

// Door implements call.Doored.
func (r *counted) Door() *tasks.Door { return r.door }

// WaitReady blocks until the bucket has a cluster map and every node of it is connected. How it ends otherwise, see
// Cluster.WaitReady.
func (b *Bucket) WaitReady(ctx context.Context) error {
	return b.router.WaitReady(ctx, false, nil)
}

// Close ends this bucket alone: its calls that have not ended fail with cberr.RequestCanceled and retry.ErrClosed, and
// so does every later one. It waits as Cluster.Close does, and then Cluster.Bucket makes another one of the name.
func (b *Bucket) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), b.c.cfg.CloseTimeout)
	defer cancel()
	err := b.close(ctx, retry.ErrClosed)
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	if b.c.buckets[b.name] == b {
		delete(b.c.buckets, b.name)
	}
	return ofKind(cberr.Timeout, err)
}

// Map describes the newest cluster map.
type Map struct {
	Epoch, Rev int64 // a revision above math.MaxInt64, which maps may have, is given as that
	VBuckets   int
	Replicas   int
	Nodes      []string // the addresses of the nodes that can be reached, in the map's order

	BucketUUID               string // "" when the map does not say, as the next two
	ClusterUUID, ClusterName string
}

// Map gives the newest cluster map; false before the first.
func (b *Bucket) Map() (Map, bool) {
	s := b.router.Snapshot()
	if s == nil {
		return Map{}, false
	}
	m := Map{
		Epoch: s.Epoch, Rev: int64(min(s.Rev, math.MaxInt64)), VBuckets: s.NumVBuckets(), Replicas: s.Replicas,
		BucketUUID: s.UUID, ClusterUUID: s.ClusterUUID, ClusterName: s.ClusterName,
	}
	for _, i := range b.router.Nodes() {
		m.Nodes = append(m.Nodes, b.router.Address(i))
	}
	return m, true
}

// Locate gives the vbucket of a key and the addresses that hold it: the active copy's first, then the replicas'; ""
// where a copy has no reachable node. It is false before the first cluster map.
func (b *Bucket) Locate(key []byte) (vbucket uint16, nodes []string, ok bool) {
	s := b.router.Snapshot()
	if s == nil || s.NumVBuckets() == 0 {
		return 0, nil, false
	}
	vb := s.VBucket(key)
	for i := 0; i <= s.Replicas; i++ {
		nodes = append(nodes, b.router.Address(s.NodeIndex(vb, i)))
	}
	return vb, nodes, true
}

// Status is how each node is reached.
func (b *Bucket) Status() []NodeStatus { return b.router.Status() }

// Orphans is the number of answers that came for calls that had ended.
func (b *Bucket) Orphans() int64 { return b.router.Orphans() }

// poll asks the nodes in turn for a newer cluster map: at the interval, and as soon as one is known to exist.
func (b *Bucket) poll(ctx context.Context) {
	t := time.NewTicker(b.c.cfg.Maps.PollInterval)
	defer t.Stop()
	floor := time.NewTimer(0)
	defer floor.Stop()
	turn, forgotten := int(b.c.cfg.Retry.JitterSource()*1024), time.Now()
	for {
		wanted := false
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-b.router.Wanted():
			wanted = true
		}
		// Both may have come, and which of them was taken is chance: one request serves both.
		select {
		case <-b.router.Wanted():
			wanted = true
		default:
		}
		select {
		case <-t.C:
		default:
		}
		var asked []int
		var about dispatch.Announcement // when the last one was asked
		var err error
		for {
			select {
			case <-ctx.Done():
				return
			case <-floor.C:
			}
			now, announced := b.router.Announced()
			newer := asked != nil && announced && !now.Same(about) // those that were asked may have it: a new round
			if newer || wanted && !b.stillToAsk(ctx, asked, err) {
				floor.Reset(0)
				break
			}
			node := b.nextNode(&turn, asked)
			about, _ = b.router.Announced()
			err = b.pollOnce(ctx, node, turn, wanted)
			asked = append(asked, node)
			floor.Reset(b.c.cfg.Maps.PollFloor)
			if !wanted {
				break
			}
		}
		b.router.NoteActivity()
		if time.Since(forgotten) >= forgetAfter {
			b.c.forgetNodes()
			forgotten = time.Now()
		}
	}
}

// stillToAsk reports whether a wanted map has not come, and there is a node that was not asked for it. err is what
// became of the last request. Nodes tell of a new map all at once: it waits a moment before the first request, so that
// the others have told of it too and a map that is being considered has come.
func (b *Bucket) stillToAsk(ctx context.Context, asked []int, err error) bool {
	if asked == nil {
		moment := time.NewTimer(announceTime)
		defer moment.Stop()
		select {
		case <-ctx.Done():
			return false
		case <-moment.C:
			return b.router.StillWanted()
		}
	}
	_, announced := b.router.Announced()
	return (err != nil || announced) && slices.ContainsFunc(b.askable(), func(node int) bool {
		return !slices.Contains(asked, node)
	})
}

// askable gives the indexes of the nodes that are asked for a map: those that are connected, because a new connection
// brings the map by itself and a request would wait for it; all of them when no one is.
func (b *Bucket) askable() []int {
	nodes := b.router.Nodes()
	connected := slices.DeleteFunc(slices.Clone(nodes), func(node int) bool { return !b.router.Connected(node) })
	if len(connected) == 0 {
		return nodes
	}
	return connected
}

// nextNode is the index of the node to ask now, -1 for any: the one that has named the version of a newer map, unless
// it was asked already, or else the next one in turn that was not.
func (b *Bucket) nextNode(turn *int, asked []int) int {
	by, announced := b.router.Announced()
	if announced && by.Node >= 0 && b.router.Connected(by.Node) && !slices.Contains(asked, by.Node) {
		return by.Node
	}
	nodes := b.askable()
	for range nodes {
		*turn++
		if node := nodes[*turn%len(nodes)]; !slices.Contains(asked, node) {
			return node
		}
	}
	return -1
}

// pollOnce asks one node for a newer map, or only for a sign of life when all nodes tell of new maps by themselves and
// none has told of one that has not come. It waits less for a map that is wanted now. A failure is no matter: the next
// turn asks another. A connection that stays silent is replaced.
func (b *Bucket) pollOnce(ctx context.Context, node, turn int, wanted bool) error {
	op := kv.GetClusterConfig{Common: kv.Common{
		Timeout: min(b.c.cfg.Maps.PollInterval, b.c.cfg.Maps.PollTimeout), Retry: call.Strict,
	}}
	if wanted {
		op.Timeout = min(op.Timeout, wantedTimeout)
	}
	var probe dispatch.Probe
	if node >= 0 {
		op.Pinned, op.Node = true, node
		if op.Timeout >= dispatch.Silence {
			probe = b.router.Probe(op.Node, turn/max(len(b.router.Nodes()), 1))
			op.Connection = probe.Connection()
		}
	}
	gives := b.router.GivesMaps(op.Node)
	if wanted && (!gives || b.router.Barren()) {
		b.source.refresh(ctx)
	}
	_, announced := b.router.Announced()
	// nothing to ask for, but whether the node is still there
	if !gives || !wanted && !announced && b.router.AllPush() {
		if probe.HeldUp() {
			return nil // what follows a NOOP waits with it
		}
		_, err := kv.Do(ctx, b.router, kv.Noop{
			Common: op.Common, Pinned: op.Pinned, Node: op.Node, Connection: op.Connection,
		})
		if errors.Is(err, cberr.UnambiguousTimeout) {
			probe.Unanswered()
		}
		return err
	}
	if s := b.router.Snapshot(); s != nil && s.Rev <= math.MaxInt64 { // the request's field has a sign
		op.KnownEpoch, op.KnownRev = s.Epoch, int64(s.Rev)
	}
	res, err := kv.Do(ctx, b.router, op)
	if err == nil && len(res.Value) > 0 {
		err = b.router.Take(ctx, res.Value, res.Endpoint())
	}
	switch {
	case err == nil:
		b.router.SetBarren(false)
	case !wanted && b.router.Snapshot() == nil && ctx.Err() == nil: // an interval has passed without a map
		b.router.SetBarren(true)
	}
	if errors.Is(err, cberr.UnambiguousTimeout) {
		probe.Unanswered()
	}
	return err
}

func (b *Bucket) close(ctx context.Context, cause error) error {
	b.stop()
	err := b.router.Close(ctx, cause)
	b.wg.Wait()
	return err
}
