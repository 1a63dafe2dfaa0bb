package dispatch

import (
	"context"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
)

// How long handshakes may go on without a step while another node has met a terminal condition, which may be a node that has
// left the cluster: for WaitReady, and for a call. Nodes that are equally far away are connected at about the same time.
const (
	patience     = 250 * time.Millisecond
	callPatience = 20 * time.Millisecond
)

// WaitReady blocks until the bucket has a map with vbuckets and every node of it is connected, or with degraded any; with
// failFast until a terminal condition says that it will not be, or until ctx ends. The error names the conditions that are
// known, and the last failure; at ctx's end also ctx's cause.
func (r *Router) WaitReady(ctx context.Context, degraded, failFast bool) error {
	for {
		changed := r.Changed()
		ready, last := r.readiness(degraded)
		if ready {
			return nil
		}
		var enough <-chan time.Time
		if until, known := r.terminal(degraded); known != nil && failFast {
			left := time.Duration(until - r.now())
			if left <= 0 {
				return known
			}
			t := time.NewTimer(left)
			defer t.Stop()
			enough = t.C
		}
		select {
		case <-changed:
		case <-enough:
		case <-r.ctx.Done():
			return conn.ErrClosed
		case <-ctx.Done():
			return &NotReadyError{Cause: r.o.Health.Known(r.o.Bucket, last), Err: context.Cause(ctx)}
		}
	}
}

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
			err = &bothFailed{last, err}
		}
		last = err
	}
	if e := r.refusal.Load(); e != nil {
		last = e
	}
	return ready && up > 0, last
}

// WhyNoMap is why there is no cluster map, or no newer one than the one in use: a map that is not used, or without one in use what
// connections and the source have failed with last; nil when nothing is known.
func (r *Router) WhyNoMap() error {
	if e := r.refusal.Load(); e != nil {
		return e
	}
	if r.picker.Load() != nil {
		return nil
	}
	_, last := r.readiness(true)
	return last
}

// terminal is the condition that keeps the bucket from being ready, and until when, since the base, other nodes may still
// make it so. A node of the map that has met one will not be connected; without a map any other seed may have a map.
func (r *Router) terminal(degraded bool) (until int64, known error) {
	if pk := r.picker.Load(); pk != nil && !degraded {
		for _, p := range pk.nodes {
			if p != nil && !p.connectedAny() {
				if known = r.o.Health.Condition(r.o.Bucket, p.addr); known != nil {
					return 0, known
				}
			}
		}
		return 0, nil
	}
	if known = r.o.Health.Condition(r.o.Bucket, ""); known == nil {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, hope := r.mayCome(); !hope {
		return 0, known
	}
	return r.now() + int64(r.goesOn(patience)), known
}

// goesOn is how much longer than now a map may come from a first handshake, or a lookup of the seeds, that must take a step
// within limit. The lock is held.
func (r *Router) goesOn(limit time.Duration) time.Duration {
	last := -int64(limit)
	if r.resolving {
		last = int64(r.seeded.Sub(r.o.Base))
	}
	for _, p := range r.pipes {
		p.each(func(q *pipeline) {
			if _, trying := q.state(); trying {
				last = max(last, q.progress.Load())
			}
		})
	}
	return limit - time.Duration(r.now()-last)
}

// lookAgain has Explained called after that time, or sooner.
func (r *Router) lookAgain(after time.Duration) {
	if r.looking.CompareAndSwap(false, true) {
		r.look.Reset(after)
	}
}

func (r *Router) looked() {
	r.looking.Store(false)
	if r.ctx.Err() == nil {
		r.Explained()
	}
}

// Explained is called when a terminal condition was met, or a connection has ended: calls that wait for a handshake or a
// map although a condition explains its absence are given to their strategies, unless the handshake has just taken a step.
func (r *Router) Explained() {
	if r.o.Health.Condition(r.o.Bucket, "") == nil {
		return
	}
	r.releaseWaiting()
	r.mu.Lock()
	var down []*pipeline
	for _, p := range r.pipes {
		p.each(func(q *pipeline) {
			if q.conn.Load() == nil {
				down = append(down, q)
			}
		})
	}
	r.mu.Unlock()
	for _, p := range down {
		p.mu.Lock()
		err := p.hopeless()
		p.mu.Unlock()
		if err != nil {
			p.flushQueue(err)
		}
	}
}

// hopeless is the terminal condition that a call need not wait behind for a handshake that is under way; nil: no condition. The
// lock is held.
func (p *pipeline) hopeless() error {
	err := p.r.o.Health.Condition(p.r.o.Bucket, p.explained())
	if left := callPatience - time.Duration(p.r.now()-p.progress.Load()); err != nil && !p.failed && left > 0 {
		p.r.lookAgain(left)
		return nil
	}
	return err
}

// Reconnect ends the pauses between attempts to connect: there are new credentials.
func (r *Router) Reconnect() {
	r.mu.Lock()
	close(r.logins)
	r.logins = make(chan struct{})
	r.mu.Unlock()
}

// reconnects is closed by the next Reconnect.
func (r *Router) reconnects() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.logins
}

// Explain implements retry.Explainer for the bucket's calls: it adds the terminal conditions, and the map that is not used.
func (r *Router) Explain(cause error) error { return r.beside(r.o.Health.Known(r.o.Bucket, cause)) }
