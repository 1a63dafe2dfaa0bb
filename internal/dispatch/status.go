package dispatch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/tasks"
	"github.com/couchcore/couchcore/internal/topology"
	"github.com/couchcore/couchcore/memd"
)

// NodeStatus is how one node of the bucket is reached: one of its connections.
type NodeStatus struct {
	Addr      string
	Connected bool
	Err       error // the last failure to connect, nil when connected or not yet tried
	Queued    int
	InFlight  int
	Mechanism string
	Features  memd.Features

	ID       string    // of the connection, "" without one
	Local    string    // its own address
	State    string    // "connected", "connecting", "disconnected" or "disconnecting"
	Activity time.Time // when something was last read on it, exact to the poll interval; zero when nothing was
	Breaker  string    // "closed", "open" or "half-open"; "" without a circuit breaker
}

// Status is the state of all connections, by address.
func (r *Router) Status() []NodeStatus {
	var all []NodeStatus
	for _, p := range r.nodes.list() {
		p.mu.Lock()
		s := NodeStatus{
			Addr: p.node.addr, Err: p.lastErr, Queued: p.waiting.taken(), State: "connecting", Activity: p.active,
			Breaker: p.node.breaker.name(),
		}
		switch {
		case p.closed:
			s.State = "disconnecting"
		case p.failed:
			s.State = "disconnected"
		}
		p.mu.Unlock()
		if cn := p.conn.Load(); cn != nil {
			s.ID, s.Local = cn.Info().ID, cn.Info().Local
			if s.State != "disconnecting" {
				s.State = "connected"
			}
			s.Connected, s.InFlight = true, cn.InFlight()
			s.Mechanism, s.Features = cn.Info().Mechanism, cn.Info().Features
		}
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b NodeStatus) int { return strings.Compare(a.Addr, b.Addr) })
	return all
}

// idleLooks is after how many looks without work, polls apart, a connection rests.
const idleLooks = 4

// NoteActivity looks which connections have read something since it was called last. That keeps the time of the last
// activity without a look at the clock for every answer. Those that have nothing to do for some time rest.
func (r *Router) NoteActivity() {
	var silent, unwanted []*conn.Conn
	now := time.Now()
	for _, p := range r.nodes.list() {
		cn := p.conn.Load()
		if cn == nil {
			continue
		}
		if p.unwanted() {
			unwanted = append(unwanted, cn)
		}
		p.mu.Lock()
		n := cn.Stats.Reads.Load()
		if n != p.reads {
			p.active = now
		}
		if n > p.reads+1 { // one may be the answer to a poll
			p.idle = 0
		} else if p.idle++; p.idle == idleLooks {
			silent = append(silent, cn)
		}
		p.reads = n
		p.mu.Unlock()
	}
	for _, cn := range silent {
		cn.ShrinkIdle()
	}
	for _, cn := range unwanted {
		closeUnwanted(cn)
	}
}

// Snapshot is the newest cluster map, nil before the first.
func (r *Router) Snapshot() *topology.Snapshot {
	if pk := r.picker.Load(); pk != nil {
		return pk.snap
	}
	return nil
}

// Nodes gives the indexes of the nodes that can be asked something, for Pinned requests.
func (r *Router) Nodes() []int {
	if pk := r.picker.Load(); pk != nil {
		return layout{pk}.DataNodes()
	}
	return nil
}

// Connected reports whether there is a connection to the node with index i.
func (r *Router) Connected(i int) bool {
	n := r.node(i)
	return n != nil && n.connected()
}

// Address is the address of the node with index i; "" when it has none.
func (r *Router) Address(i int) string {
	if n := r.node(i); n != nil {
		return n.addr
	}
	return ""
}

// node is the node with that index in the newest map; nil for one that cannot be reached.
func (r *Router) node(i int) *node {
	if pk := r.picker.Load(); pk != nil {
		return pk.node(i)
	}
	return nil
}

// AllPush reports whether every node of the map is connected and tells of new maps by itself, so that the client need
// not ask.
func (r *Router) AllPush() bool {
	pk := r.picker.Load()
	if pk == nil || r.maps.refusal.Load() != nil { // a map that cannot be used is followed by another
		return false
	}
	some := false
	for _, n := range pk.nodes {
		if n != nil && !n.conns[0].pushes() {
			return false
		}
		some = some || n != nil
	}
	return some
}

// Network is the network that the nodes are reached on, "" before the first map.
func (r *Router) Network() string {
	if pk := r.picker.Load(); pk != nil {
		return pk.network
	}
	return ""
}

// Changed is closed at the next change of the map or of a connection.
func (r *Router) Changed() <-chan struct{} { return r.changed.next() }

// NotReadyError is a wait that ended before the bucket was ready. It unwraps to the kind of its end, to what ended it,
// and to what was met last.
type NotReadyError struct {
	Nodes []string // addresses without a connection
	Cause error    // why it is not ready; nil when nothing is known
	Err   error    // what ended the wait: the context's cause; nil when the strategy gave up because of Cause
}

func (e *NotReadyError) Error() string {
	text, cause := "not ready", ""
	switch {
	case errors.Is(e.Err, context.DeadlineExceeded):
		text += " in time"
	case e.Err != nil:
		text += ": " + e.Err.Error()
	}
	if e.Cause != nil {
		cause = e.Cause.Error()
	}
	if len(e.Nodes) > 1 || len(e.Nodes) == 1 && !strings.Contains(cause, "node "+e.Nodes[0]+" ") {
		text += ", not connected: " + tasks.List(e.Nodes)
	}
	if cause != "" {
		text += ", because: " + cause
	}
	return text
}

// Unwrap gives the kind and both errors.
func (e *NotReadyError) Unwrap() []error {
	var errs []error
	switch {
	case e.Err == nil:
	case errors.Is(e.Err, context.DeadlineExceeded):
		errs = append(errs, cberr.UnambiguousTimeout, e.Err)
	default:
		errs = append(errs, cberr.RequestCanceled, e.Err)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if len(errs) == 0 || e.Err == nil && cberr.KindOf(e.Cause) == nil {
		errs = append(errs, cberr.ServiceNotAvailable)
	}
	return errs
}

// Changes counts the connections that have taken the place of lost ones, and the maps that were applied.
func (r *Router) Changes() (reconnects, maps int64) { return r.reconnects.Load(), r.applied.Load() }

// Orphans is the number of answers without a waiting call.
func (r *Router) Orphans() int64 { return r.orphans.Load() }

// InflateLimit implements call.Limiter.
func (r *Router) InflateLimit() int { return r.o.InflateLimit }

// A user can print what Bucket.Runner gives. A printer that walks a router by reflection would read what goroutines
// write, so a router prints its name, in every format.

// String names the bucket.
func (r *Router) String() string { return fmt.Sprintf("dispatcher of bucket %q", r.o.Bucket) }

// Format writes what String gives, for every verb.
func (r *Router) Format(f fmt.State, _ rune) {
	if f != nil {
		_, _ = io.WriteString(f, r.String())
	}
}

// LogValue is what String gives.
func (r *Router) LogValue() slog.Value { return slog.StringValue(r.String()) }
