package dispatch

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/kv"
)

// A node whose one connection is crowded gets a second one, unless there is a node for each processor anyway. With one, all
// callers are woken on the processor of its reader and moved to the others from there, with all of their memory. With two,
// each reader keeps to a processor (see the relay of a connection), and so do the callers that it wakes: what belongs to a
// connection is not their processor, which they do not know, but their calls, which they find where they have left them. The
// second connection ends when it is lost or has nothing to do for some time; the node may get another one then.

const (
	// backlog is how many calls in flight are a queue: no number of connections makes a node faster.
	backlog = 8192
	// secondAgain is how long after a second connection was begun another one may be.
	secondAgain = 10 * time.Second
)

var errUnused = errors.New("the node's second connection has had nothing to do")

// crowded is called by the reader of a node's first connection while there is a crowd on it.
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
	p.head.pair.Begin(runtime.GOMAXPROCS(0))
	return true
}

// leave is the end of join: calls that have chosen this connection go over the first one.
func (p *pipeline) leave() {
	p.hide()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.stop(errLeft)
}

// hide is the end of join for calls that choose a connection from now on.
func (p *pipeline) hide() {
	if p.head.second.CompareAndSwap(p, nil) {
		p.head.pair.End()
		p.r.sides.again.Store(false)
	}
}

// either gives the pipeline of a node with one connection, or two, that is to have the call.
func (p *pipeline) either(c *kv.Call) *pipeline {
	q := p.second.Load()
	switch {
	case q == nil:
		return p
	case c.Req.Connection == "":
		return p.shareCall(q, c)
	}
	if cn := q.conn.Load(); cn != nil && cn.Info().ID == c.Req.Connection {
		return q
	}
	return p
}

// nextSide says which of two connections is to be a new call's, or a new batch's: the one and the other in turn.
func nextSide(n *atomic.Uint32) (second bool) { return n.Add(1)%2 == 0 }

// share gives p or q, its second, which is what a call asks for that has second set.
func (p *pipeline) share(q *pipeline, second bool) *pipeline {
	here, there := p.conn.Load(), q.conn.Load()
	switch {
	case there == nil:
		return p
	case here == nil:
		return q
	case together(here.Load()+there.Load(), here.Few()):
		return p
	}
	// It comes to that when the pools have forgotten the calls of one side, as they do with what is not used for long.
	if is := p.pair.Lopsided(); is != p.r.sides.again.Load() {
		p.r.sides.again.Store(is)
	}
	if second {
		return q
	}
	return p
}

// shareCall is share for one call.
func (p *pipeline) shareCall(q *pipeline, c *kv.Call) *pipeline {
	if c.Once() {
		return p.shareOnce(q)
	}
	return p.share(q, c.Second())
}

// shareOnce is share for a future's call, which is not used again. There are many before they are spread.
func (p *pipeline) shareOnce(q *pipeline) *pipeline {
	here, there := p.conn.Load(), q.conn.Load()
	if here == nil || there == nil || together(here.Load()+there.Load(), manyOnce) {
		return p.share(q, false)
	}
	s, _ := p.r.sides.processors.Get().(*side) // a pool gives each processor its own
	if s == nil {
		s = &side{second: nextSide(&p.r.sides.calls)}
	}
	second := s.turn(here, there)
	p.r.sides.processors.Put(s)
	return p.share(q, second)
}

// side is which of a node's two connections the calls of one processor take that are not used again.
type side struct {
	second bool
	turns  uint32
}

const (
	// sideTurns is after how many calls a processor looks whether it had better change sides.
	sideTurns = 1024
	// manyOnce is how many calls in flight are too few to spread those.
	manyOnce = 128
)

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
func together(inFlight, few int) bool { return inFlight < few || inFlight >= backlog }

// crammed reports whether nearly all calls are on one side. It comes to that when a pool has forgotten a processor's side,
// as it does with what is not used for long, and has given it the other one's.
func crammed(here, there int) bool { return here > manyOnce && there < here/8 }
