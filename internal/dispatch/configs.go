package dispatch

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
)

// offers is what lies before the config goroutine. Read loops only put bytes here.
type offers struct {
	kick  chan struct{}
	limit int

	mu      sync.Mutex
	queue   []offered
	bytes   int // in the queue
	busy    bool
	closed  bool
	waiters []claimed // calls to be judged, and others to be told, when all that was offered has been considered
	last    []byte    // the newest bytes offered
	epoch   int64     // their version, when it is known
	rev     uint64
}

type offered struct {
	raw  []byte
	dt   memd.Datatype // says whether raw is compressed
	addr string
	// tooLarge is the size of a map that is larger than the limit; then raw is nil
	tooLarge int
	tell     bool // who gave it waits until it was considered, and wakes those who wait for a way
}

const maxOffers = 16

// init makes it ready for maps of at most limit bytes, each and all that wait together.
func (o *offers) init(limit int) { o.kick, o.limit = make(chan struct{}, 1), limit }

// offer takes a cluster map from a node, with the call that it came with, if any. True means that the map is known and
// has been considered, so the call can be judged at once; otherwise the config goroutine does that. raw is copied,
// unless it is larger than a map may be: then its size alone is handed on.
func (o *offers) offer(raw []byte, dt memd.Datatype, addr string, cl *claimed) (known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return true
	}
	if o.isKnown(raw) {
		if !o.busy && len(o.queue) == 0 {
			return true
		}
	} else {
		of := offered{addr: addr, dt: dt, tell: cl != nil && cl.tell}
		if len(raw) > o.limit {
			of.tooLarge = len(raw)
		} else {
			of.raw = bytes.Clone(raw)
			o.last = of.raw
		}
		o.push(of)
		if !of.tell {
			o.wake()
		}
	}
	if cl != nil {
		o.waiters = append(o.waiters, *cl)
	}
	return false
}

// push adds an offer to the queue. Older ones make room for it: what they say is old.
func (o *offers) push(of offered) {
	for len(o.queue) > 0 && (len(o.queue) == maxOffers || o.bytes+len(of.raw) > o.limit) {
		o.pop()
	}
	o.queue = append(o.queue, of)
	o.bytes += len(of.raw)
}

func (o *offers) pop() (of offered) {
	of = o.queue[0]
	o.queue = slices.Delete(o.queue, 0, 1)
	o.bytes -= len(of.raw)
	return of
}

// latest reports whether raw is the last map that was offered, and has been considered.
func (o *offers) latest(raw []byte) bool {
	o.mu.Lock()
	considered, last := !o.busy && len(o.queue) == 0, o.last
	o.mu.Unlock() // several readers compare at the same time what does not change
	return considered && bytes.Equal(raw, last)
}

// wake has the config goroutine look at what lies before it.
func (o *offers) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// isKnown reports whether raw is the last map offered, or an older one. When in doubt it is not.
func (o *offers) isKnown(raw []byte) bool {
	if bytes.Equal(raw, o.last) {
		return true
	}
	epoch, rev, ok := topology.ScanVersion(raw)
	if !ok || rev == 0 {
		return false
	}
	if epoch < o.epoch || epoch == o.epoch && rev <= o.rev {
		return true
	}
	o.epoch, o.rev = epoch, rev
	return false
}

// take gives the next offer, or the calls to judge when there is none.
func (o *offers) take() (of offered, ok bool, waiters []claimed) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.queue) > 0 {
		o.busy = true
		return o.pop(), true, nil
	}
	o.busy = false
	waiters, o.waiters = o.waiters, nil
	return offered{}, false, waiters
}

// pending reports whether a map lies here that has not been considered yet.
func (o *offers) pending() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.busy || len(o.queue) > 0
}

// unversioned forgets the version of a map that is not used, so that it bars no good one: the old map's, which may be
// nil, counts. The same bytes need not be looked at again.
func (o *offers) unversioned(old *topology.Snapshot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.epoch, o.rev = 0, 0
	if old != nil {
		o.epoch, o.rev = old.Epoch, old.Rev
	}
}

// forget has every map looked at again.
func (o *offers) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.epoch, o.rev = nil, 0, 0
}

func (o *offers) close() []*call.Call {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	var calls []*call.Call
	for _, w := range o.waiters {
		if w.c != nil {
			calls = append(calls, w.c)
		}
	}
	o.waiters = nil
	return calls
}

// Offer takes a cluster map's JSON that a node gave; addr is the node's address. It copies raw and does not block: the
// config goroutine decides whether the map is newer.
func (r *Router) Offer(raw []byte, addr string) { r.offers.offer(raw, 0, addr, nil) }

// offerAndTell is Offer for a map that came with a new connection; there may be none. It does not block. What it gives
// is to be called: it has the map considered and waits for that. Those who wait for a way are not woken by the map: its
// giver does that when there is the way, too.
func (r *Router) offerAndTell(raw []byte, addr string) (wait func()) {
	w := claimed{considered: make(chan struct{}), tell: true}
	if raw == nil || r.offers.offer(raw, 0, addr, &w) {
		return func() {}
	}
	return func() {
		r.offers.wake()
		select {
		case <-w.considered:
		case <-r.ctx.Done():
		}
	}
}

// Take has a map considered that came in another way than over the nodes' connections, waits for that, and says why the
// map is not used; nil when it is, and when it is not newer than ours. addr is where it came from.
func (r *Router) Take(ctx context.Context, raw []byte, addr string) error {
	w := claimed{considered: make(chan struct{})}
	if !r.offers.offer(raw, 0, addr, &w) {
		select {
		case <-w.considered:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ctx.Done():
			return conn.ErrClosed
		}
	}
	if e := r.refusal.Load(); e != nil && e.Addr == addr {
		return e
	}
	return nil
}

// configs is the config goroutine, the only one that applies a map. Close ends it.
func (r *Router) configs() {
	for {
		select {
		case <-r.offers.kick:
		case <-r.ctx.Done():
			return
		}
		for r.ctx.Err() == nil {
			of, ok, waiters := r.offers.take()
			if ok {
				r.consider(of)
				continue
			}
			for _, w := range waiters {
				if w.considered != nil {
					close(w.considered)
					continue
				}
				r.judgeMoved(w)
			}
			if r.picker.Load() == nil { // none of them could be used
				r.first.review()
			}
			break
		}
	}
}

// consider parses a map and applies it if it is newer than ours.
func (r *Router) consider(of offered) {
	var old *topology.Snapshot
	if pk := r.picker.Load(); pk != nil {
		old = pk.snap
	}
	var s *topology.Snapshot
	err := r.o.ConfigLimits.CheckSize(max(of.tooLarge, len(of.raw)))
	if err == nil {
		s, err = r.parse(of.raw, of.dt, of.addr)
	}
	if err == nil {
		err = r.ours(s)
	}
	if err != nil {
		r.refuse(&of, nil, old, err)
		return
	}
	if !r.replaces(s, old) {
		if another(s, old) && r.keepsMap() {
			r.offers.forget() // it may be the one to use in a moment
		}
		r.usable(of.addr)
		r.trim()
		return
	}
	network := r.networkOf(s, of.addr)
	if err := r.worse(s, old, network); err != nil {
		r.refuse(&of, s, old, err)
		return
	}
	r.apply(s, old, network, &of)
}

// networkOf is the network on which nodes are reached: that of the configuration, or the one that the first map
// decides.
func (r *Router) networkOf(s *topology.Snapshot, addr string) string {
	if network := r.Network(); network != "" {
		return network
	}
	if r.o.Network != "" && r.o.Network != "auto" {
		return r.o.Network
	}
	return s.Network(append([]string{addr}, r.o.Seeds...)...)
}

// parse reads the map that the node at addr gave.
func (r *Router) parse(raw []byte, dt memd.Datatype, addr string) (*topology.Snapshot, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if raw, err = call.Inflate(raw, dt, r.o.ConfigLimits.MaxBytes); err != nil {
		return nil, err
	}
	return topology.Parse(raw, host, r.o.ConfigLimits)
}

// apply publishes a newer map: first the pipelines of new nodes, then the picker, then the ends of those that left.
func (r *Router) apply(s, old *topology.Snapshot, network string, of *offered) {
	replaced := old != nil && (old.UUID != "" && s.UUID != old.UUID || another(s, old))
	if replaced {
		r.colls.Clear()
	}
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return
	}
	r.network = network
	pk := &picker{snap: s, nodes: make([]*node, len(s.Nodes)), number: 1, since: 1}
	if last := r.picker.Load(); last != nil {
		pk.number, pk.since = last.number+1, last.since
		if replaced {
			pk.since = pk.number
		}
	}
	stay := map[string]bool{}
	for i := range s.Nodes {
		if addr, ok := s.KVAddr(i, r.network, r.o.TLS); ok {
			pk.nodes[i] = r.reach(addr)
			stay[addr] = true
		}
	}
	nodes := len(stay)
	if nodes == 0 { // it has services only: what is connected goes on bringing maps
		for addr := range r.nodes {
			stay[addr] = true
		}
	}
	var theirs []*conn.Conn
	if replaced { // no call of the new map finds a connection that was made in the old bucket
		r.replaced = max(r.now(), 1)
		theirs = r.withdraw(stay)
	}
	r.picker.Store(pk)
	r.refusal.Store(nil)
	if replaced || !newer(r.wantEpoch, r.wantRev, s) { // another bucket counts its maps anew
		r.wantEpoch, r.wantRev, r.wantFrom = 0, 0, nil
	}
	var leaving []*node
	for addr, n := range r.nodes {
		if !stay[addr] {
			leaving = append(leaving, n)
			r.forget(addr)
		}
	}
	r.leave(leaving)
	r.mu.Unlock()
	for _, cn := range theirs {
		cn.Close(errForeign)
	}
	r.o.Log.Info(r.ctx, observe.MsgConfigApplied, slog.String(observe.KeyBucket, s.Bucket),
		slog.Int64(observe.KeyEpoch, s.Epoch), slog.Uint64(observe.KeyRevision, s.Rev), slog.Int(observe.KeyNodes,
			nodes))
	r.first.review()
	if !of.tell {
		r.wake()
	}
	r.notify()
}
