package dispatch

import (
	"context"
	"time"
)

// No server may drive the client: whatever nodes answer, announce or hang up on, they are connected to a handful of
// times a second at most. docs/retry.md lists every loop that a server could drive, with its bound.

const (
	// newNodes is how many nodes of cluster maps are connected to without a pause, as many as a large cluster has;
	// after that one follows each newNodeEvery. Maps that name other nodes each time would otherwise make the client
	// dial as fast as they come.
	newNodes     = 256
	newNodeEvery = 125 * time.Millisecond
)

// begins notes an attempt to connect that begins now.
func (p *pipeline) begins() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.connecting.Begin()
}

// awaitTurn waits until the pipeline may connect again after the loss of a connection, or after another event that a
// server causes.
func (p *pipeline) awaitTurn(ctx context.Context) {
	p.mu.Lock()
	wait := p.connecting.Wait()
	p.mu.Unlock()
	if wait > 0 {
		pause(ctx, wait, nil)
	}
}

// newcomers paces the nodes that a router connects to for the first time. The router's lock guards it.
type newcomers struct{ next time.Duration }

// wait is how long the next one waits, at that time since the router's base.
func (n *newcomers) wait(now time.Duration) time.Duration {
	return max(max(n.next, now)-(newNodes-1)*newNodeEvery-now, 0)
}

// take notes that one connects now.
func (n *newcomers) take(now time.Duration) { n.next = max(n.next, now) + newNodeEvery }
