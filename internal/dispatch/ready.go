package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/retry"
)

// How long handshakes may go on without a step while another node has met a terminal condition, which may be a node
// that has left the cluster: for WaitReady, and for a call. Nodes that are equally far away are connected at about the
// same time.
const (
	patience     = 250 * time.Millisecond
	callPatience = 20 * time.Millisecond
)

// WaitReady blocks until the bucket has a map with vbuckets and every node of it is connected, or with degraded any;
// until the strategy, nil for the cluster's, gives up because of a terminal condition that says that it will not be; or
// until ctx ends. The error names the conditions that are known, and the last failure; at ctx's end also ctx's cause.
func (r *Router) WaitReady(ctx context.Context, degraded bool, strategy retry.Strategy) error {
	w := wait{r: r, strategy: strategy, began: time.Now()}
	look := time.NewTimer(time.Hour)
	defer look.Stop()
	for {
		changed := r.Changed()
		ready, last := r.readiness(degraded)
		if ready {
			return nil
		}
		left, err := w.goesOn(ctx, degraded)
		if err != nil {
			if ready, _ := r.readiness(degraded); ready { // the strategy may have taken its time
				return nil
			}
			return &NotReadyError{Nodes: r.unconnected(), Cause: err}
		}
		var again <-chan time.Time
		if left > 0 {
			look.Reset(left)
			again = look.C
		}
		select {
		case <-changed:
		case <-again:
		case <-r.ctx.Done():
			return &NotReadyError{Nodes: r.unconnected(), Cause: last, Err: retry.ErrClosed}
		case <-ctx.Done():
			_, last = r.readiness(degraded) // as it is now
			return &NotReadyError{r.unconnected(), r.o.Health.Known(r.o.Bucket, last), context.Cause(ctx)}
		}
	}
}

// wait is one WaitReady as its strategy sees it: an operation that no server sees.
type wait struct {
	r        *Router
	strategy retry.Strategy // nil: the cluster's
	began    time.Time
	retries  int
	reasons  retry.Reasons
	delay    time.Duration // that the strategy has named last
	next     time.Time     // until then it is not asked again
	final    bool          // the wait ends then
}

// goesOn asks the strategy about the terminal condition that is known, if one is. The error ends the wait; left is when
// to look again, 0 for no such time.
func (w *wait) goesOn(ctx context.Context, degraded bool) (left time.Duration, err error) {
	until, why, known := w.r.terminal(degraded)
	if known == nil {
		return 0, nil
	}
	left = max(time.Duration(until-w.r.now()), time.Until(w.next))
	switch {
	case left > 0:
		return left, nil
	case w.final:
		return 0, known
	}
	a, err := w.ask(ctx, why, known)
	switch {
	case ctx.Err() != nil || w.r.ctx.Err() != nil: // the caller looks for that
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("%w: %w", err, known)
	}
	var again bool
	if w.delay, again = a.Delay(); !again {
		if w.delay, w.final = a.TimesOut(); !w.final {
			return 0, known
		}
	}
	w.retries, w.reasons = w.retries+1, w.reasons.With(why)
	w.delay = max(w.delay, retry.Floor)
	w.next = time.Now().Add(w.delay)
	return w.delay, nil
}

// ask is what the strategy says. The error is its panic, unless ctx or the router has ended.
func (w *wait) ask(ctx context.Context, why retry.Reason, known error) (retry.Action, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.r.ctx, cancel)()
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = w.began.Add(endless)
	}
	waited := time.Since(w.began)
	return w.r.o.Orchestrator.Ask(ctx, retry.Request{
		Service: retry.KV, Operation: "wait-ready", Bucket: w.r.o.Bucket, Idempotent: true, Transparent: w.retries,
		BackoffStep: w.retries, Reasons: w.reasons, Started: w.began, Deadline: deadline, LastDelay: w.delay,
		Waited: waited, WaitedUnseen: waited, Err: known, Strategy: w.strategy,
	}, why)
}

// endless is how long a wait may take whose context has no deadline, as strategies see it.
const endless = 365 * 24 * time.Hour

// readiness says whether the bucket is ready, and what is known of why it is not.
func (r *Router) readiness(degraded bool) (ready bool, last error) {
	s := r.Snapshot()
	routable := s != nil && (r.o.Bucket == "" || s.Routable())
	if routable && s.DataNodes() == 0 { // services are all that it has
		return true, nil
	}
	up, all := 0, true
	var met health.Conditions
	for _, n := range r.Status() {
		if n.Connected {
			up++
			continue
		}
		all = false
		if n.Err != nil {
			met = append(met, n.Err)
		}
	}
	ready = routable && up > 0 && (all || degraded)
	if e := r.maps.refusal.Load(); e != nil {
		return ready, e
	}
	if err, _ := r.sourceState(); err != nil {
		met = append(met, err)
	}
	if len(met) == 0 {
		met = r.connecting()
	}
	if err := r.unfound(); err != nil && up == 0 {
		met = append(met, err)
	}
	switch {
	case len(met) > 0:
	case s == nil:
		return ready, errNoMap
	case !routable:
		return ready, r.picker.Load().noRoute(retry.NotReady, 0)
	}
	return ready, met.Err()
}

// unconnected are the addresses that have no connection, each once.
func (r *Router) unconnected() (addrs []string) {
	for _, n := range r.Status() {
		if !n.Connected && !slices.Contains(addrs, n.Addr) {
			addrs = append(addrs, n.Addr)
		}
	}
	return addrs
}

// WhyNoMap is why there is no cluster map, or no newer one than the one in use: a map that is not used, or without one
// in use what connections and the source have failed with last; nil when nothing is known.
func (r *Router) WhyNoMap() error {
	if e := r.maps.refusal.Load(); e != nil {
		return e
	}
	if r.picker.Load() != nil {
		return nil
	}
	_, last := r.readiness(true)
	return last
}

// terminal is the condition that keeps the bucket from being ready, with its reason, and until when, since the base,
// other nodes may still make it so. A node of the map that has met one will not be connected; without a map any other
// seed may have a map.
func (r *Router) terminal(degraded bool) (until int64, why retry.Reason, known error) {
	condition := func(node string) error {
		why, known = r.o.Health.Refine(retry.NotReady, r.o.Bucket, node)
		return known
	}
	r.nodes.mu.Lock() // what comes, comes before this look or after it
	defer r.nodes.mu.Unlock()
	if pk := r.picker.Load(); pk != nil && !degraded {
		for _, n := range pk.nodes {
			if n != nil && !n.connected() && condition(n.addr) != nil {
				return 0, why, known
			}
		}
		return 0, retry.Unknown, nil
	}
	if condition("") == nil {
		return 0, retry.Unknown, nil
	}
	_, hope := r.mayCome()
	switch {
	case !hope:
		return 0, why, known
	case r.maps.offers.pending(): // or is being looked at, which is no attempt to connect
		return r.now() + int64(patience), why, known
	}
	return r.now() + int64(r.goesOn(patience)), why, known
}

// Reconnect ends the pauses between attempts to connect: there are new credentials.
func (r *Router) Reconnect() {
	r.logins.happens()
	for _, p := range r.nodes.list() {
		p.mu.Lock()
		p.forgive()
		p.mu.Unlock()
	}
}

// Explain implements call.Explainer: it adds what keeps the call from its node now, the terminal conditions, and the
// map that is not used.
func (r *Router) Explain(c *call.Call, cause error) error {
	return r.beside(r.o.Health.Known(r.o.Bucket, newest(r.present(c), cause)))
}

// present is what keeps a call from its node now; nil when nothing is known to do that.
func (r *Router) present(c *call.Call) error {
	pk := r.picker.Load()
	if pk == nil {
		return r.WhyNoMap()
	}
	if !c.Spec().Has(call.Keyed) || c.Req.ByVBucket || c.Req.Replica() != 0 {
		return nil
	}
	n, _ := pk.active(c.Route.Hash)
	if n == nil || n.connected() {
		return nil
	}
	return n.trouble()
}

// newest puts what is known now before what was met last, unless both are of the same node: then that is over.
func newest(now, met error) error {
	var a, b *handshake.Error
	switch {
	case now == nil:
		return met
	case met == nil || errors.Is(met, now):
		return cmp.Or(met, now)
	case errors.As(now, &a) && errors.As(met, &b) && a.Addr == b.Addr:
		return now
	}
	return health.Conditions{now, met}
}

// unfound is why the last lookup of seeds failed.
func (r *Router) unfound() error {
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	return r.nodes.unfound
}

// connecting are the nodes whose first attempt to connect is under way, or has failed just now.
func (r *Router) connecting() (all health.Conditions) {
	for _, p := range r.nodes.list() {
		if !p.first {
			continue
		}
		if err := p.node.trouble(); err != nil { // connected in the meantime
			all = append(all, err)
		}
	}
	slices.SortFunc(all, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return all
}

// trouble is why the node is not connected; nil when it is, or is closed.
func (n *node) trouble() error {
	p := n.conns[0]
	err, trying := p.state()
	if err != nil || !trying {
		return err
	}
	since := time.Duration(n.r.now() - p.progress.Load())
	return &handshake.Error{
		Addr: n.addr, Bucket: n.r.o.Bucket, Step: handshake.StepDial,
		Err: fmt.Errorf("the attempt to connect is under way, without an answer for %v", since.Round(time.Millisecond)),
	}
}
