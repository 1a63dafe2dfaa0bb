package dispatch

import (
	"context"
	"errors"
	"hash/crc32"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/collections"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Options are a router's surroundings. What does not say what its zero value means must be set.
type Options struct {
	Bucket string
	Seeds  []string // addresses to ask for the first cluster map
	// Resolve finds further addresses to ask, as DNS SRV does; nil finds none. It is called again when no node can be
	// reached any more. It ends with its context and keeps to a time of its own. The error says why it finds none, or
	// fewer.
	Resolve func(ctx context.Context) ([]string, error)
	// TLS says whether connections that are made now are encrypted; nil: never. Readdress follows a change.
	TLS     func() bool
	Network string // which addresses of the nodes to use; "" or "auto" decides by the seed that answered

	Base         time.Time // calls' deadlines count from here
	Orchestrator *retry.Orchestrator
	Health       *health.Record
	ErrorMaps    *errormap.Store
	// Connect gives the options of a new connection; the router adds the handler.
	Connect func() conn.Options
	Log     observe.Log
	// Instruments makes spans and metrics; nil makes none.
	Instruments *observe.Instruments

	Timeout        time.Duration // of a call that names none
	DurableTimeout time.Duration // the same for a durable write
	QueueLimit     int           // calls that wait for one connection; 0 means 2048
	Connections    int           // to each node, which do not change; 0 means 1
	ConfigLimits   topology.Options
	JitterSource   func() float64 // for jitter and for choosing nodes

	InflateLimit  int           // bytes that a compressed value may become; 0 means call.MaxInflated
	ErrorMapLimit int           // bytes of a node's error map; 0 means errormap.DefaultLimit
	RedialMax     time.Duration // the longest pause between two attempts to connect; 0 means 4 s
	MaxPaths      uint16        // of a sub-document request; 0 means call.MaxPaths
	// Orphans gathers answers that come too late, and Slow calls that take longer than SlowCall, or SlowScan for
	// requests of a scan; nil gathers none.
	Orphans, Slow      *observe.Slowest
	SlowCall, SlowScan time.Duration
	NoConfig           bool // the nodes' connections do not bring cluster maps; Source does
	// Stale is told of a connection that a node asks to log in again. It must not block. Nil is not told.
	Stale func(connection string)
	// Applied is told when another map is in use. It must not block. Nil is not told.
	Applied func()
	Source  Source // of maps beside the connections; nil without one

	// Breaker are the limits of the nodes' circuit breakers; nil means none.
	Breaker *BreakerOptions
	// Policies are those of calls until SetPolicies replaces them; nil: no policies.
	Policies *Policies
	// Transparent is the strategy that tries again what no server has seen, and nothing else.
	Transparent retry.Strategy
	// Classify names the reason of an answer that has none, or retry.Unknown. It is user code: it may block and panic.
	Classify func(operation string, err *call.Error) retry.Reason
}

// Router is one bucket's way to its nodes. It is a call.Runner and a call.Owner. It starts a goroutine for cluster
// maps, one for each connection, and goroutines for callbacks; Close ends them and waits.
type Router struct {
	o     Options
	ctx   context.Context
	stop  context.CancelFunc
	tasks tasks.Group // that Close waits for; their names are the nodes that they are for

	// Where calls go.
	picker atomic.Pointer[picker] // nil before the first map
	view   surroundings           // of picks
	next   atomic.Uint32          // the turn of the nodes, for calls that any of them may take
	nodes  nodes
	maps   maps

	// Where calls wait.
	first   room      // for the first cluster map; this and the next under the lock of nodes
	ids     room      // for a collection's id
	due     deadlines // of calls outside of connections
	looking looking   // see lookAgain
	changed event     // something worth waiting for has happened
	logins  event     // there are new credentials

	// What calls are made of.
	home     call.Home
	pool     sync.Pool // of *call.Call
	sorted   sync.Pool // of *byPipeline
	policies atomic.Pointer[Policies]

	// What else comes of answers.
	work    executor // callbacks
	orphans atomic.Int64
	// connections that have taken the place of a lost one, and maps that were applied
	reconnects, applied atomic.Int64
}

var (
	_ call.Batcher = (*Router)(nil)
	_ call.Owner   = (*Router)(nil)
	_ call.Holder  = (*Router)(nil)
)

// New makes a router and begins to connect to the seeds. It does not wait.
func New(o Options) *Router {
	if o.QueueLimit <= 0 {
		o.QueueLimit = 2048
	}
	r := &Router{o: o}
	r.nodes.r, r.nodes.byAddr, r.nodes.seeds = r, map[string]*node{}, o.Seeds
	r.first, r.ids = room{r: r, mu: &r.nodes.mu, door: mapDoor{r}}, room{r: r, mu: &r.nodes.mu, door: idDoor{r}}
	r.home = call.Home{Owner: r, Bucket: o.Bucket, Base: o.Base}
	r.ctx, r.stop = context.WithCancel(context.Background())
	r.pool.New = func() any { return call.NewCall() }
	r.sorted.New = func() any { return &byPipeline{} }
	r.policies.Store(o.Policies)
	r.view = surroundings{ids: collections.New(collections.Options{Lookup: r.lookup}), connected: r.nodes.connected}
	r.due.init(o.Base, r.expireAll)
	r.work.log = o.Log
	r.maps.init(r)
	r.tasks.Go("the cluster maps", r.maps.run)
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	r.nodes.seed()
	return r
}

// Runner implements kv.Dispatcher, for the operations that the client sends itself.
func (r *Router) Runner() call.Runner { return r }

// NewCall implements call.Runner.
func (r *Router) NewCall() *call.Call {
	c := r.pool.Get().(*call.Call)
	c.Req.PathLimit = r.o.MaxPaths
	r.mayHedge(c)
	return c
}

// Release implements call.Runner. Only calls that no other goroutine can hold are used again.
func (r *Router) Release(c *call.Call) {
	if r.free(c) {
		r.pool.Put(c)
	}
}

// free makes a finished call ready for its next use, if no other goroutine can hold it.
func (r *Router) free(c *call.Call) bool {
	if !c.Pooled() || c.Held() && !r.due.remove(c) {
		return false
	}
	c.Reset()
	return true
}

// tls reports whether connections that are made now are encrypted.
func (r *Router) tls() bool { return r.o.TLS != nil && r.o.TLS() }

// Readdress has all nodes reached anew, because Options.TLS has changed: by the addresses that they have now in the map
// in use, or by those seeds. Calls in flight end on the connections that have them, and those connections then.
func (r *Router) Readdress(seeds []string) {
	moveOn, ok := r.nodes.readdress(seeds)
	if !ok {
		return
	}
	moveOn()
	r.first.review()
	r.wake()
	r.notify()
}

// now is the time since the router's base.
func (r *Router) now() int64 { return int64(time.Since(r.o.Base)) }

// Dispatch implements call.Runner.
func (r *Router) Dispatch(c *call.Call) {
	r.admit(c, r.now())
	if p := r.find(c); p != nil { // this is route and submit, written out: many goroutines wait in calls below this one
		if cn := p.connFor(c); cn == nil || cn.Submit(c) != nil {
			p.submitSlow(c)
		}
	}
}

// admit gives the call its deadline, its policy, its observer and the hash of its key: what no attempt changes.
func (r *Router) admit(c *call.Call, now int64) {
	c.Started = now
	c.Bind(&r.home)
	limit := c.Req.Timeout
	durable := c.Req.Durability != memd.DurabilityNone
	if p := r.policies.Load(); p != nil {
		limit = p.govern(c, limit)
	}
	if limit == 0 {
		limit = r.o.Timeout
		if durable {
			limit = r.o.DurableTimeout
		}
	}
	c.Deadline = deadline(now, limit)
	if c.Cancelable() {
		if d, ok := c.Context().Deadline(); ok {
			c.Deadline = min(c.Deadline, int64(d.Sub(r.o.Base)))
		}
	}
	if durable {
		c.Req.Own().DurabilityMS = serverTime(time.Duration(c.Deadline - now))
	}
	if r.o.Instruments != nil {
		r.observe(c)
	}
	if len(c.Req.Key) > 0 {
		c.Route.Hash = crc32.ChecksumIEEE(c.Req.Key)
	}
}

// deadline is when a call that has started at now has taken as long as it may.
func deadline(now int64, limit time.Duration) int64 {
	return now + min(int64(limit), math.MaxInt64-now)
}

// Redispatch implements call.Owner.
func (r *Router) Redispatch(c *call.Call) {
	if r.renew(c) {
		r.route(c)
	}
}

// renew prepares a call for its next attempt: it gives the server of a durable write a part of the time that is left.
// goesOn is false for a call whose context has ended, and that may not have been told of it yet: it ends.
func (r *Router) renew(c *call.Call) (goesOn bool) {
	if cause := c.Over(); cause != nil {
		r.Cancel(c, cause)
		return false
	}
	c.Again()
	c.Begin(r.now())
	if c.Req.Durability != memd.DurabilityNone {
		c.Req.Own().DurabilityMS = serverTime(time.Duration(c.Deadline - r.now()))
	}
	return true
}

// serverTime is the time that the server of a durable write gets, in milliseconds: it must give up before the client
// does, and below 1.5 s it could not finish anything.
func serverTime(left time.Duration) uint32 {
	return uint32(min(max(left/10*9/time.Millisecond, 1500), 65534))
}

// Cancel implements call.Owner.
func (r *Router) Cancel(c *call.Call, cause error) bool {
	if cause == context.DeadlineExceeded { //nolint:errorlint // the value itself says that the deadline has passed
		return r.o.Orchestrator.Expire(c)
	}
	return r.o.Orchestrator.Cancel(c, cause)
}

// Complete implements call.Owner.
func (r *Router) Complete(f func()) { r.work.run(f) }

// Panicked implements call.Container.
func (r *Router) Panicked(v any) { r.work.panicked(v) }

// expire ends a call whose deadline has passed.
func (r *Router) expire(c *call.Call) { r.o.Orchestrator.Expire(c) }

// expireAll ends calls whose deadlines have passed.
func (r *Router) expireAll(calls []*call.Call) {
	ops := make([]retry.Op, len(calls))
	for i, c := range calls {
		ops[i] = c
	}
	r.o.Orchestrator.ExpireAll(ops)
}

// route finds the call's pipeline and hands the call to it. It never blocks.
func (r *Router) route(c *call.Call) {
	if p := r.find(c); p != nil {
		p.submit(c)
	}
}

// find gives the pipeline that is to send the call. Nil means that the call has ended, waits in a room, or was given to
// the orchestrator.
func (r *Router) find(c *call.Call) *pipeline {
	for {
		pk := r.picker.Load()
		t := r.pick(pk, c)
		if t.node != nil {
			if pk != nil {
				c.Route.Map = pk.number
			}
			c.Route.VBucket, c.Route.CollectionID, c.Route.Forward = t.vbucket, t.collection, t.forward
			return t.node.next(c)
		}
		switch {
		case t.arrived:
			c.Succeed(&memd.Packet{}, false)
			return nil
		case t.wait == call.StageConfig:
			r.awaitFirstMap(c)
			return nil
		case t.wait == call.StageCollection:
			r.awaitCollection(c)
			return nil
		case t.err != nil:
			c.Fail(t.err)
			return nil
		}
		since := r.o.Orchestrator.Wakes()
		if r.picker.Load() == pk {
			r.noWay(c, since, t.why, r.beside(pk.noRoute(t.why, t.vbucket)), "")
			return nil
		}
	}
}

// pick has the picker, nil before the first map, choose the call's node.
func (r *Router) pick(pk *picker, c *call.Call) target {
	t := pk.pick(c, &r.view, r.next.Load())
	if t.turned {
		r.next.Add(1)
	}
	return t
}

// RouteError says that the newest cluster map has no node for a call.
type RouteError struct {
	Reason  retry.Reason
	VBucket uint16
	NoData  bool // the map has no node with the key-value service
}

func (e *RouteError) Error() string {
	switch {
	case e.NoData:
		return "no node of the cluster map runs the key-value service"
	case e.Reason == retry.NotReady:
		return "the bucket's cluster map has no vbuckets yet"
	}
	return "the cluster map has no reachable node for the call"
}

// noRoute is why the map, which may be nil, has no node for a call.
func (pk *picker) noRoute(why retry.Reason, vb uint16) *RouteError {
	return &RouteError{Reason: why, VBucket: vb, NoData: pk != nil && pk.snap.DataNodes() == 0}
}

// notSent ends an attempt of which no socket was given anything, and asks the orchestrator about the call.
func (r *Router) notSent(c *call.Call, why retry.Reason, cause error) {
	r.noWay(c, r.o.Orchestrator.Wakes(), why, cause, "")
}

// noWay is notSent for a call that has no way to its node now, and that an event may wake: a new map, say, or a new
// connection. The caller reads the orchestrator's Wakes before it looks for a way, and passes it as since. An event
// that comes between that look and the parking of the call then wakes the call all the same. node is the address of the
// call's node if that has no connection, otherwise "".
func (r *Router) noWay(c *call.Call, since uint64, why retry.Reason, cause error, node string) {
	c.Share()
	c.Taken()
	if !c.State.NotSent() {
		return
	}
	if better, err := r.o.Health.Refine(why, r.o.Bucket, node); err != nil {
		why, cause = better, err
	}
	r.judge(c, why, cause, retry.Hint{Wakes: since})
}

// judge asks the orchestrator what becomes of a call whose attempt is claimed. No connection watches the call any more:
// judge sees to it that its deadline and its context are watched.
func (r *Router) judge(c *call.Call, why retry.Reason, cause error, h retry.Hint) {
	if r.over(c) {
		return
	}
	if why.AlwaysRetry() {
		c.Lend() // the orchestrator asks no strategy: it parks the call at once, and keeps its deadline then
		c.Watch()
	} else {
		r.hold(c)
	}
	r.o.Orchestrator.MaybeRetry(c, why, cause, h)
}

// over ends a call that has not ended although the router is closed, and reports whether it is.
func (r *Router) over(c *call.Call) bool {
	if r.ctx.Err() == nil {
		return false
	}
	r.o.Orchestrator.Cancel(c, retry.ErrClosed)
	return true
}

// hold has the router's heap keep the deadline of a call that no connection has, and has the call watch its context.
func (r *Router) hold(c *call.Call) {
	c.Lend()
	if c.MarkHeld() {
		r.due.add(c)
	}
	c.Watch()
}

// LetGo implements call.Holder.
func (r *Router) LetGo(c *call.Call) bool { return r.due.remove(c) }

// notify wakes the waiters for a change.
func (r *Router) notify() { r.changed.happens() }

// wake re-dispatches parked calls that wait for a path: the router's own, and requests to services, which find their
// nodes in the cluster map too.
func (r *Router) wake() {
	r.o.Orchestrator.Wake(func(op retry.Op) bool {
		c, ok := op.(*call.Call)
		return !ok || c.OwnedBy(r)
	})
}

// Close ends everything: calls get cause, which should wrap retry.ErrClosed. It waits for the router's goroutines until
// the context ends. The error names the nodes of those that it has not waited for.
func (r *Router) Close(ctx context.Context, cause error) error {
	if !r.nodes.close(cause) {
		return nil
	}
	r.first.close(cause)
	r.ids.close(cause)
	for _, c := range r.maps.offers.close() {
		r.o.Orchestrator.Cancel(c, cause)
	}
	r.due.stop()
	r.looking.end()
	r.o.Orchestrator.CancelAll(func(op retry.Op) bool {
		c, ok := op.(*call.Call)
		return ok && c.OwnedBy(r)
	}, cause)
	// They end by themselves: their sockets are closed and their context is done. Only what the user gave can hold them
	// up: a dialer or resolver that ignores its context, and a connection whose methods do not come back.
	return errors.Join(r.tasks.Wait(ctx), r.work.wait(ctx))
}
