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

// turns is the pipelines that connect, and those that wait for their turn to. The table's lock guards it.
type turns struct {
	connecting int
	queue      []*pipeline
	newcomers  newcomers
	timer      *time.Timer // for the first in the queue, when that waits for time to pass; otherwise nil
}

// take has p run now, or when its turn comes. The lock is held.
func (t *nodes) take(p *pipeline) {
	t.turns.queue = append(t.turns.queue, p)
	t.fill()
}

// fill starts those in the queue that may connect now. A pipeline that does for the first time keeps to the newcomers'
// pace; one whose node has left is left out. The lock is held.
func (t *nodes) fill() {
	for len(t.turns.queue) > 0 && t.turns.connecting < mostConnecting && !t.closed {
		p := t.turns.queue[0]
		left := p.ctx.Err() != nil
		if !left && !p.begun && p.first { // not for each connection of a pool
			now := time.Since(t.r.o.Base)
			if wait := t.turns.newcomers.wait(now); wait > 0 {
				t.fillAfter(wait)
				return
			}
			t.turns.newcomers.take(now)
		}
		t.turns.queue[0] = nil
		t.turns.queue = t.turns.queue[1:]
		if !left {
			t.turns.connecting++
			p.begun, p.connects = true, true
			p.progress.Store(t.r.now()) // before its goroutine runs: a call that comes meanwhile waits for it
			t.r.tasks.Go(p.node.addr, func() { p.run(p.ctx, nil) })
		}
	}
}

// fillAfter fills again after that time. The lock is held. Close stops the timer.
func (t *nodes) fillAfter(wait time.Duration) {
	if t.turns.timer != nil {
		return
	}
	t.turns.timer = time.AfterFunc(wait, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.turns.timer = nil
		t.fill()
	})
}

// giveTurn notes that p does not connect any more: it has a connection, or its goroutine ends. The next one has its
// turn. The lock is held.
func (t *nodes) giveTurn(p *pipeline) {
	if p.connects {
		p.connects = false
		t.turns.connecting--
		t.fill()
	}
}

// stepsBack has p, which has failed, wait for another turn if others wait for theirs. Its goroutine must end then.
func (t *nodes) stepsBack(p *pipeline) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.turns.queue) == 0 || t.closed || p.demand != nil || p.ctx.Err() != nil {
		return false
	}
	t.turns.queue = append(t.turns.queue, p)
	t.giveTurn(p)
	return true
}

// connects notes that p, whose connection has ended, is about to make the next one: it had one, so it does not wait for
// a turn. Or that it does not connect any more, because its goroutine ends.
func (t *nodes) connects(p *pipeline, does bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case !does:
		t.giveTurn(p)
	case p.demand == nil && !p.connects:
		p.connects = true
		t.turns.connecting++
	}
}

// newNodes is how many nodes of cluster maps are connected to without a pause, as many as a large cluster has; after
// that one follows each newNodeEvery. Maps that name other nodes each time would otherwise make the client dial as fast
// as they come: no server may drive the client. docs/retry.md lists every loop that a server could drive.
const (
	newNodes     = 256
	newNodeEvery = 125 * time.Millisecond
)

// newcomers paces the nodes that a router connects to for the first time. The table's lock guards it.
type newcomers struct{ next time.Duration }

// wait is how long the next one waits, at that time since the router's base.
func (n *newcomers) wait(now time.Duration) time.Duration {
	return max(max(n.next, now)-(newNodes-1)*newNodeEvery-now, 0)
}

// take notes that one connects now.
func (n *newcomers) take(now time.Duration) { n.next = max(n.next, now) + newNodeEvery }
