package dispatch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
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
// until the cluster's strategy gives up because of a terminal condition that says that it will not be; or until ctx
// ends. The error names the conditions that are known, and the last failure; at ctx's end also ctx's cause.
func (r *Router) WaitReady(ctx context.Context, degraded bool) error {
	w := wait{r: r, began: time.Now()}
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
			return err
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
			return conn.ErrClosed
		case <-ctx.Done():
			return &NotReadyError{r.unconnected(), r.o.Health.Known(r.o.Bucket, last), context.Cause(ctx)}
		}
	}
}

// wait is one WaitReady as the cluster's strategy sees it: an operation that no server sees.
type wait struct {
	r       *Router
	began   time.Time
	retries int
	reasons retry.Reasons
	delay   time.Duration // that the strategy has named last
	next    time.Time     // until then it is not asked again
	final   bool          // the wait ends then
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

// ask is what the cluster's strategy says. The error is its panic, unless ctx or the router has ended.
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
		Waited: waited, WaitedUnseen: waited, Err: known,
	}, why)
}

// endless is how long a wait may take whose context has no deadline, as strategies see it.
const endless = 365 * 24 * time.Hour

// readiness says whether the bucket is ready, and what has failed last.
func (r *Router) readiness(degraded bool) (ready bool, last error) {
	s := r.Snapshot()
	ready = s != nil && (r.o.Bucket == "" || s.Routable())
	if ready && s.DataNodes() == 0 { // services are all that it has
		return true, nil
	}
	up := 0
	for _, n := range r.Status() {
		if n.Connected {
			up++
		} else if !degraded {
			ready = false
		}
		if n.Err != nil {
			last = n.Err
		}
	}
	if err, _ := r.sourceState(); err != nil {
		if last != nil {
			err = health.Conditions{last, err}
		}
		last = err
	}
	if e := r.maps.refusal.Load(); e != nil {
		last = e
	}
	return ready && up > 0, last
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
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	if _, hope := r.mayCome(); !hope {
		return 0, why, known
	}
	return r.now() + int64(r.goesOn(patience)), why, known
}

// Reconnect ends the pauses between attempts to connect: there are new credentials.
func (r *Router) Reconnect() { r.logins.happens() }

// Explain implements retry.Explainer for the bucket's calls: it adds the terminal conditions, and the map that is not
// used.
func (r *Router) Explain(cause error) error { return r.beside(r.o.Health.Known(r.o.Bucket, cause)) }
