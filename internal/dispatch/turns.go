package dispatch

import (
	"time"
)

// A map may name thousands of nodes that are not there. So only some of the pipelines without a connection have a
// goroutine and an attempt to connect at a time; the others wait in a queue, without either. One that has failed goes
// to the queue's end after its pause while others wait, so that a node that is there has its turn whatever the others
// are.

// mostConnecting is how many pipelines may be without a connection and not in the queue: more than the nodes of large
// clusters.
const mostConnecting = 256

// turns is who connects and who waits for that. The router's lock guards it.
type turns struct {
	connecting int
	queue      []*pipeline
	newcomers  newcomers
	timer      *time.Timer // for the first in the queue, when that waits for time to pass; otherwise nil
}

// take has p run now, or when its turn comes. The router's lock is held.
func (r *Router) take(p *pipeline) {
	r.turns.queue = append(r.turns.queue, p)
	r.fill()
}

// fill starts those in the queue that may connect now. A pipeline that does for the first time keeps to the newcomers'
// pace; one whose node has left is left out. The router's lock is held.
func (r *Router) fill() {
	t := &r.turns
	for len(t.queue) > 0 && t.connecting < mostConnecting && !r.closed {
		p := t.queue[0]
		if p.ctx.Err() == nil && !p.begun && p.first { // not for each connection of a pool
			now := time.Since(r.o.Base)
			if wait := t.newcomers.wait(now); wait > 0 {
				r.fillAfter(wait)
				return
			}
			t.newcomers.take(now)
		}
		t.queue[0] = nil
		t.queue = t.queue[1:]
		if p.ctx.Err() != nil {
			continue
		}
		t.connecting++
		p.begun, p.connects = true, true
		r.tasks.Go(p.node.addr, func() { p.run(p.ctx, nil) })
	}
}

// fillAfter fills again after that time. The router's lock is held. Close stops the timer.
func (r *Router) fillAfter(wait time.Duration) {
	if r.turns.timer != nil {
		return
	}
	r.turns.timer = time.AfterFunc(wait, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turns.timer = nil
		r.fill()
	})
}

// giveTurn notes that p does not connect any more: it has a connection, or its goroutine ends. The next one has its
// turn. The router's lock is held.
func (r *Router) giveTurn(p *pipeline) {
	if p.connects {
		p.connects = false
		r.turns.connecting--
		r.fill()
	}
}

// stepsBack has p, which has failed, wait for another turn if others wait for theirs. Its goroutine must end then.
func (p *pipeline) stepsBack() bool {
	r := p.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.turns.queue) == 0 || r.closed || p.demand != nil || p.ctx.Err() != nil {
		return false
	}
	r.turns.queue = append(r.turns.queue, p)
	r.giveTurn(p)
	return true
}

// ends gives back the turn of a pipeline whose goroutine ends.
func (p *pipeline) ends() {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	p.r.giveTurn(p)
}

// reconnecting notes that p, whose connection has ended, is about to make the next one. It had one, so it does not wait
// for a turn.
func (p *pipeline) reconnecting() {
	if p.demand != nil {
		return
	}
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if !p.connects {
		p.connects = true
		p.r.turns.connecting++
	}
}

// newNodes is how many nodes of cluster maps are connected to without a pause, as many as a large cluster has; after
// that one follows each newNodeEvery. Maps that name other nodes each time would otherwise make the client dial as fast
// as they come: no server may drive the client. docs/retry.md lists every loop that a server could drive.
const (
	newNodes     = 256
	newNodeEvery = 125 * time.Millisecond
)

// newcomers paces the nodes that a router connects to for the first time. The router's lock guards it.
type newcomers struct{ next time.Duration }

// wait is how long the next one waits, at that time since the router's base.
func (n *newcomers) wait(now time.Duration) time.Duration {
	return max(max(n.next, now)-(newNodes-1)*newNodeEvery-now, 0)
}

// take notes that one connects now.
func (n *newcomers) take(now time.Duration) { n.next = max(n.next, now) + newNodeEvery }
