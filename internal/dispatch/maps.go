package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
)

// maps is what a router does about cluster maps but for the one in use, which is the picker's: it considers the maps
// that nodes offer one by one, on a goroutine of its own, keeps the one that was refused last, and knows whether there
// is a sign of a newer one. Connections offer; the router asks; only the goroutine applies.
type maps struct {
	r      *Router
	offers offers
	wanted wanted

	refusal atomic.Pointer[MapError] // the map that was refused last; nil when no refusal matters
	barren  atomic.Bool              // see SetBarren
	// no connection speaks any more for the bucket that our map is of
	unconfirmed event

	askedAgain version // of the worse map that was asked for again last; this and the next are the goroutine's
	replaced   int64   // when our map replaced one of another bucket; 0 when it has not
}

func (m *maps) init(r *Router) {
	m.r, m.wanted.signs = r, make(chan struct{}, 1)
	m.offers.init(r.o.ConfigLimits.Size())
}

// offerAndTell takes the map that came with a new connection, nil when none did. It does not block. What it gives is to
// be called: it has the map considered and waits for that. The map does not wake parked calls: its giver does
// when the connection is there, too.
func (r *Router) offerAndTell(raw []byte, addr string) (wait func()) {
	w := claimed{considered: make(chan struct{}), tell: true}
	if raw == nil || r.maps.offers.offer(raw, 0, addr, &w) {
		return func() {}
	}
	return func() {
		r.maps.offers.wake()
		_ = r.considered(context.Background(), w)
	}
}

// Take has a map considered that came in another way than over the nodes' connections, waits for that, and says why the
// map is not used; nil when it is, and when it is not newer than ours. addr is where it came from.
func (r *Router) Take(ctx context.Context, raw []byte, addr string) error {
	w := claimed{considered: make(chan struct{})}
	if !r.maps.offers.offer(raw, 0, addr, &w) {
		if err := r.considered(ctx, w); err != nil {
			return err
		}
	}
	if e := r.Refusal(); e != nil && e.Addr == addr {
		return e
	}
	return nil
}

// considered waits until w is told.
func (r *Router) considered(ctx context.Context, w claimed) error {
	select {
	case <-w.considered:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.ctx.Done():
		return conn.ErrClosed
	}
}

// run is the goroutine, the only one that applies a map. The router's Close ends it.
func (m *maps) run() {
	for {
		select {
		case <-m.offers.kick:
		case <-m.r.ctx.Done():
			return
		}
		for m.r.ctx.Err() == nil {
			of, ok, waiters := m.offers.take()
			if ok {
				m.consider(of)
				continue
			}
			for _, w := range waiters {
				if w.considered != nil {
					close(w.considered)
					continue
				}
				m.r.judgeMoved(w)
			}
			m.r.first.review() // perhaps none of them could be used
			m.r.notify()       // who waits does not wait for these any more
			break
		}
	}
}

// consider parses a map and applies it if it is newer than ours.
func (m *maps) consider(of offered) {
	old := m.r.Snapshot()
	var s *topology.Snapshot
	err := m.r.o.ConfigLimits.CheckSize(max(of.tooLarge, len(of.raw)))
	if err == nil {
		s, err = m.parse(of.raw, of.dt, of.addr)
	}
	if err == nil {
		err = m.ours(s)
	}
	if err != nil {
		m.refuse(&of, nil, old, err)
		return
	}
	if !m.replaces(s, old) {
		if versionOf(s) != versionOf(old) { // polls bring the present one again and again
			m.r.o.Log.Debug(m.r.ctx, observe.MsgConfigIgnored, slog.String(observe.KeyEndpoint, of.addr),
				slog.Int64(observe.KeyEpoch, s.Epoch), slog.Uint64(observe.KeyRevision, s.Rev))
		}
		if another(s, old) && m.keeps() {
			m.offers.forget() // it may be the one to use in a moment
		}
		m.usable(of.addr)
		m.r.nodes.trim()
		return
	}
	network := m.networkOf(s, of.addr)
	if err := m.worse(s, old, network); err != nil {
		m.refuse(&of, s, old, err)
		return
	}
	m.apply(s, old, network, of.tell)
}

// networkOf is the network on which nodes are reached: that of the configuration, or the one that the first map
// decides.
func (m *maps) networkOf(s *topology.Snapshot, addr string) string {
	if network := m.r.Network(); network != "" {
		return network
	}
	if m.r.o.Network != "" && m.r.o.Network != "auto" {
		return m.r.o.Network
	}
	return s.Network(append([]string{addr}, m.r.o.Seeds...)...)
}

// parse reads the map that the node at addr gave.
func (m *maps) parse(raw []byte, dt memd.Datatype, addr string) (*topology.Snapshot, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if raw, err = call.Inflate(raw, dt, m.r.o.ConfigLimits.MaxBytes); err != nil {
		return nil, err
	}
	limits := m.r.o.ConfigLimits
	limits.TLS = m.r.tls()
	return topology.Parse(raw, host, limits)
}

// apply has calls go by a newer map, and tells all waiters; parked calls only unless told: then its giver does.
func (m *maps) apply(s, old *topology.Snapshot, network string, told bool) {
	r := m.r
	replaced := old != nil && (old.UUID != "" && s.UUID != old.UUID || another(s, old))
	if replaced {
		r.view.ids.Clear()
		m.replaced = max(r.now(), 1)
	}
	nodes, withdrawn, moveOn, ok := r.nodes.publish(s, network, replaced)
	if !ok {
		return
	}
	r.applied.Add(1)
	r.o.Instruments.SetCluster(s.ClusterName, s.ClusterUUID)
	if r.o.Applied != nil {
		r.o.Applied()
	}
	m.refusal.Store(nil)
	m.wanted.forget(versionOf(s), replaced)
	for _, cn := range withdrawn {
		cn.Close(errForeign)
	}
	r.o.Log.Info(r.ctx, observe.MsgConfigApplied, slog.String(observe.KeyBucket, s.Bucket),
		slog.Int64(observe.KeyEpoch, s.Epoch), slog.Uint64(observe.KeyRevision, s.Rev), slog.Int(observe.KeyNodes,
			nodes))
	moveOn()
	r.nodes.moveOn()
	r.first.review()
	if !told {
		r.wake()
	}
	r.notify()
}

// wanted is the signs that there is a newer map than ours. Connections and answers give them; the bucket's goroutine
// that asks for maps takes them. Many signs of one map give few values of the channel.
type wanted struct {
	signs chan struct{}

	mu      sync.Mutex
	some    bool // of no known version
	version version
	from    *node // that has named that version
}

// sign says that there may be a newer map.
func (w *wanted) sign() {
	w.mu.Lock()
	w.some = true
	w.mu.Unlock()
	w.wake()
}

// named says that there is a map of that version, by word of the node n. Of several nodes that name the same version,
// the first by address counts, in whatever order they do.
func (w *wanted) named(v version, n *node) {
	w.mu.Lock()
	if v.newer(w.version) || v == w.version && (w.from == nil || n.addr < w.from.addr) {
		w.version, w.from = v, n
	}
	w.mu.Unlock()
	w.wake()
}

func (w *wanted) wake() {
	select {
	case w.signs <- struct{}{}:
	default:
	}
}

// forget forgets the version that was named, unless it is newer than ours. Another bucket counts its maps anew.
func (w *wanted) forget(ours version, anew bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if anew || !w.version.newer(ours) {
		w.version, w.from = version{}, nil
	}
}

// Wanted gives a value whenever a newer cluster map than ours may exist.
func (r *Router) Wanted() <-chan struct{} { return r.maps.wanted.signs }

// StillWanted says whether there is a sign of a newer map that has not come meanwhile, and forgets those that name no
// version.
func (r *Router) StillWanted() bool {
	s := r.Snapshot()
	w := &r.maps.wanted
	w.mu.Lock()
	defer w.mu.Unlock()
	some := w.some
	w.some = false
	return some || s == nil || w.version.newer(versionOf(s))
}

// Announcement is the newest version of the map that a node has named.
type Announcement struct {
	Node    int // its index in the map, -1 when it is not in it
	version version
}

// Same reports whether both are of one version.
func (a Announcement) Same(b Announcement) bool { return a.version == b.version }

// Announced reports whether a node has named a version of the map that is newer than ours.
func (r *Router) Announced() (a Announcement, is bool) {
	s := r.Snapshot()
	w := &r.maps.wanted
	w.mu.Lock()
	v, from := w.version, w.from
	w.mu.Unlock()
	if from == nil || s != nil && !v.newer(versionOf(s)) {
		return Announcement{Node: -1}, false
	}
	return Announcement{from.index(), v}, true
}

// What replaces a map that works must be known to be better. A map is used only if it is of the router's bucket, is
// newer (see incarnation.go for the exception), and leads to a data node if the one in use does. One that is refused is
// kept as an error, so that a caller who waits for a map, or for the way that it would have, is told why; it is
// forgotten when another map is applied, or when the node that gave it gives one that can be used.

// MapError is a cluster map that is not used, and why.
type MapError struct {
	Addr string // of the node that gave it
	Err  error
}

func (e *MapError) Error() string {
	return "the cluster map from " + e.Addr + " is not used: " + e.Err.Error()
}

// Unwrap gives the reason.
func (e *MapError) Unwrap() error { return e.Err }

var (
	errOfTheCluster = errors.New("it is of the whole cluster, not of a bucket")
	errOfABucket    = errors.New("it is of a bucket, not of the whole cluster")
	errNoVBuckets   = errors.New("it names no node for any vbucket, and the map in use does")
)

// ours says why a map is not for this router, whatever its version is. Maps of buckets have had a name since servers
// give them over connections; older ones and those of substitutes may have none.
func (m *maps) ours(s *topology.Snapshot) error {
	switch {
	case m.r.o.Bucket == "" && s.Locator != topology.LocatorNone:
		return errOfABucket
	case m.r.o.Bucket != "" && s.Locator == topology.LocatorNone:
		return errOfTheCluster
	case s.Bucket != "" && s.Bucket != m.r.o.Bucket:
		return fmt.Errorf("it is of the bucket %.64q", s.Bucket)
	}
	return nil
}

// worse says why a map is not used instead of the old one, which may be nil, although it is newer.
func (m *maps) worse(s, old *topology.Snapshot, network string) error {
	if err := s.Conflict(old); err != nil {
		return err
	}
	encrypted := m.r.tls()
	leads := s.Leads(network, encrypted)
	switch {
	case leads:
	case old != nil && old.Leads(network, encrypted):
		return errNoVBuckets
	case s.DataNodes() > 0 && len(s.Endpoints(topology.KV, network, encrypted)) == 0:
		kind := "without TLS"
		if encrypted {
			kind = "with TLS"
		}
		return fmt.Errorf("no data node of it has an address %s on the network %.64q", kind, network)
	}
	return nil
}

// refuse notes that a map is not used. The map in use stays, and the next one is not barred by the version of this one.
// A newer map that is worse is asked for again: once at once, and then whenever it is time to ask.
func (m *maps) refuse(of *offered, s, old *topology.Snapshot, err error) {
	m.r.o.Log.Warn(m.r.ctx, observe.MsgConfigRefused, about(of.addr, err)...)
	m.refusal.Store(&MapError{of.addr, err})
	m.offers.unversioned(old)
	if v := versionOf(s); s != nil && v != m.askedAgain {
		m.askedAgain = v
		m.wanted.sign()
	}
	m.r.notify()
}

// usable notes that the node at addr has given a map that can be used, or was used before.
func (m *maps) usable(addr string) {
	if e := m.refusal.Load(); e != nil && e.Addr == addr && m.refusal.CompareAndSwap(e, nil) {
		m.r.notify()
	}
}

// Refusal is the cluster map that was refused last, nil when no refusal matters.
func (r *Router) Refusal() *MapError { return r.maps.refusal.Load() }

// beside adds the map that was refused to what a call has met, which may be nil: that map may have had the way that the
// call needs.
func (r *Router) beside(err error) error {
	e := r.maps.refusal.Load()
	switch {
	case e == nil || errors.Is(err, e):
		return err
	case err == nil:
		return e
	}
	return health.Conditions{err, e}
}
