package dispatch

import (
	"context"
	"errors"
	"runtime"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
)

// A node whose one connection is crowded gets a second one, unless there is a node for each processor anyway. With one, all
// callers are woken on the processor of its reader and moved to the others from there, with all of their memory. With two,
// callers of a processor keep to one of them, and its reader keeps to them. The second connection ends when it is lost or
// has nothing to do for some time; the node may get another one then.

const (
	// backlog is how many calls in flight are a queue: no number of connections makes a node faster.
	backlog = 8192
	// secondAgain is how long after a second connection was begun another one may be.
	secondAgain = 10 * time.Second
)

var errUnused = errors.New("the node's second connection has had nothing to do")

// crowded is called by the reader of a node's first connection while very many calls are in flight on it.
func (p *pipeline) crowded() {
	r := p.r
	if p.second.Load() != nil || int(r.serving.Load()) >= runtime.GOMAXPROCS(0) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Since(r.o.Base)
	if r.closed || r.pipes[p.addr] != p || p.widened != 0 && now-p.widened < secondAgain {
		return
	}
	p.widened = max(now, 1)
	q := &pipeline{r: r, addr: p.addr, breaker: p.breaker, head: p, extra: true}
	q.ctx, q.stop = context.WithCancelCause(p.ctx)
	r.wg.Go(func() { q.run(q.ctx, nil) })
}

// join shows the second connection to calls; false when the node has left meanwhile, or everything is being closed.
func (p *pipeline) join() bool {
	p.r.mu.Lock()
	defer p.r.mu.Unlock()
	if p.r.closed || p.r.pipes[p.addr] != p.head {
		return false
	}
	p.head.second.Store(p)
	return true
}

// leave is the end of join: calls that have chosen this connection go over the first one.
func (p *pipeline) leave() {
	p.head.second.CompareAndSwap(p, nil)
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop(errLeft)
}

// either gives the pipeline of a node with one connection, or two, that is to have the call.
func (p *pipeline) either(c *kv.Call) *pipeline {
	q := p.second.Load()
	switch {
	case q == nil:
		return p
	case c.Req.Connection == "":
		return p.share(q)
	}
	if cn := q.conn.Load(); cn != nil && cn.Info().ID == c.Req.Connection {
		return q
	}
	return p
}

// side is which of a node's two connections the callers of one processor take.
type side struct {
	second bool
	turns  uint32
}

// sideTurns is after how many calls a processor looks whether it had better change sides.
const sideTurns = 1024

// share gives p or q, its second.
func (p *pipeline) share(q *pipeline) *pipeline {
	first, second := p.conn.Load(), q.conn.Load()
	if first == nil || second == nil {
		if second != nil {
			return q
		}
		return p
	}
	if together(first.Load() + second.Load()) {
		return p
	}
	s, _ := p.r.sides.Get().(*side) // a pool gives each processor its own
	if s == nil {
		s = &side{second: p.r.sided.Add(1)%2 == 0}
	}
	is := s.turn(first, second)
	p.r.sides.Put(s)
	if is {
		return q
	}
	return p
}

// turn is one call's, and says whether it is for the second connection.
func (s *side) turn(first, second *conn.Conn) bool {
	if s.turns++; s.turns%sideTurns == 0 {
		here, there := first.InFlight(), second.InFlight()
		if s.second {
			here, there = there, here
		}
		if crammed(here, there) {
			s.second = !s.second
		}
	}
	return s.second
}

// together reports whether all callers take the same connection: few because one write has more of them then, and more than
// there should be because the limit is one connection's.
func together(inFlight int) bool { return inFlight < conn.Crowd/2 || inFlight >= backlog }

// crammed reports whether nearly all calls are on one side. It comes to that when a pool has forgotten a processor's side,
// as it does with what is not used for long, and has given it the other one's.
func crammed(here, there int) bool { return here > conn.Crowd/2 && there < here/8 }
