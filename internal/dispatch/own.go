package dispatch

import (
	"context"
	"errors"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/memd"
)

// noop makes a request for a sign of life of the node, over its connection of that id, "" for any. It is to be run by
// run or send.
func (n *node) noop(connection string, limit time.Duration) *call.Call {
	c := n.r.own(memd.OpNoop, limit)
	o := c.Req.Own()
	c.Req.Pinned, o.Node, o.Connection = true, n.index(), connection
	return c
}

// own makes a request of the client's own.
func (r *Router) own(op memd.Opcode, limit time.Duration) *call.Call {
	c := r.NewCall()
	c.Req.Opcode, c.Req.Timeout, c.Req.Own().Retry = op, limit, call.Strict
	return c
}

// run runs a request of the client's own and waits for its outcome.
func (r *Router) run(ctx context.Context, c *call.Call) error {
	defer r.Release(c)
	return c.Run(ctx, r)
}

// send runs a request of the client's own and has done called with its outcome on a goroutine of the router's.
func (r *Router) send(c *call.Call, done func(error)) {
	c.Callback(&call.Started{}, func() { done(c.Told(c.Outcome())) })
	if err := c.Prepare(r.ctx); err != nil {
		r.Complete(func() { done(c.Unprepared(r.ctx, r, err)) })
		return
	}
	r.Dispatch(c)
}

// Silence is how long a connection must have brought nothing before it is replaced: with less than that the node may
// just be busy.
const Silence = time.Second

// Probe watches the connection to one node while a request to it is under way. Its zero value watches nothing.
type Probe struct {
	cn      *conn.Conn
	answers func(*conn.Conn) int64 // counts what shows that the other end is there
	seen    int64                  // its result in the beginning
}

var errSilent = errors.New("the node has sent nothing since the client sent it a NOOP")

// Probe begins to watch a connection to the node with index i, in turn those that it has. A request that is sent over
// the connection of that ID belongs to it.
func (r *Router) Probe(i, turn int) Probe {
	n := r.node(i)
	if n == nil {
		return Probe{}
	}
	cn := n.conns[turn%len(n.conns)].conn.Load()
	if cn == nil {
		return Probe{}
	}
	return Probe{cn, answers, answers(cn)}
}

// Connection is the watched connection's id, "" when nothing is watched.
func (p Probe) Connection() string {
	if p.cn == nil {
		return ""
	}
	return p.cn.Info().ID
}

// HeldUp reports whether a node may keep what is asked over the connection waiting behind something else.
func (p Probe) HeldUp() bool { return p.cn != nil && p.cn.HeldUp() }

func answers(cn *conn.Conn) int64 { return cn.Stats.Answers.Load() + cn.Stats.Orphans.Load() }

func reads(cn *conn.Conn) int64 { return cn.Stats.Reads.Load() }

// Unanswered is called when the request has timed out. A connection on which no other answer came meanwhile either is
// closed: its other end may be gone without a word, or the stream is out of step. Its pipeline makes a new one, and the
// calls in flight on it end as those of a lost connection do. One with a durable write in flight stays, or with a scan
// that waits for a mutation: what was asked may be waiting behind that.
func (p Probe) Unanswered() {
	if p.cn != nil && !p.cn.HeldUp() && p.answers(p.cn) == p.seen {
		p.cn.Close(errSilent)
	}
}

// Silent implements conn.Handler: the node is asked for a sign of life at once, over the connection, and one that
// brings nothing at all until the time is over is closed. That is how a socket that has vanished without a word is
// found out before the node's turn comes to be asked for its cluster map. One such request is under way per connection.
func (p *pipeline) Silent(cn *conn.Conn) {
	if p.probed.Swap(cn) == cn {
		return
	}
	probe := Probe{cn, reads, reads(cn)}
	p.r.send(p.node.noop(cn.Info().ID, Silence), func(err error) {
		if errors.Is(err, cberr.UnambiguousTimeout) {
			probe.Unanswered()
		}
		p.probed.CompareAndSwap(cn, nil)
	})
}
