package dispatch

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/health"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// drainLimit is how long the calls in flight on a connection have when its node has left.
const drainLimit = 10 * time.Second

// pipeline is one connection of a node, or the attempts to get it, and the calls that wait for it. It starts one
// goroutine, which connects and then reads; close ends it, and the router's Close waits for it.
type pipeline struct {
	r     *Router
	node  *node
	name  string                    // among the node's: a number, or "ordered"
	first bool                      // of the node's connections
	conn  atomic.Pointer[conn.Conn] // nil without one

	probed   atomic.Pointer[conn.Conn] // is being asked for a sign of life; see Silent
	retiring atomic.Pointer[conn.Conn] // is taken out of use; see retire
	renewed  atomic.Int64              // when one was replaced last because of an answer; see renew
	demand   *demand                   // of a connection that is there while requests need it; see ordered.go

	confirms atomic.Bool // the connection came with a map; see confirmed

	track    *health.Track // of terminal conditions
	progress atomic.Int64  // when the current attempt to connect did its last step, since the router's base

	mu      sync.RWMutex
	waiting room // for the connection, and for room on it
	failed  bool // the current attempts to connect have failed at least once
	closed  bool
	lastErr error
	ctx     context.Context
	stop    context.CancelCauseFunc
	active  time.Time  // see NoteActivity
	served  bool       // has had a connection
	serves  *conn.Conn // whose goroutine goes on when it has ended; another one's ends with its connection

	backoff backoff

	after    time.Duration // before the first attempt to connect, of the goroutine that does
	connects bool          // counts among the router's turns; this and the next under the table's lock
	begun    bool          // has had a turn

	reads int64 // of the connection, at the last look at it
	idle  int   // looks at it without much to read
}

// state gives the last failure, and whether a first attempt is under way.
func (p *pipeline) state() (err error, trying bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.lastErr, p.conn.Load() == nil && !p.failed && !p.closed
}

// trying reports whether a first attempt to connect is under way.
func (p *pipeline) trying() bool {
	_, trying := p.state()
	return trying
}

// submit sends the call, or queues it while a first handshake is under way, or names the reason why neither is
// possible.
func (p *pipeline) submit(c *call.Call) {
	if cn := p.connFor(c); cn == nil || cn.Submit(c) != nil {
		p.submitSlow(c)
	}
}

// connFor is the connection that takes the call without a further question; nil when there is one.
func (p *pipeline) connFor(c *call.Call) *conn.Conn {
	if cn := p.conn.Load(); p.node.breaker.shut() && p.demand == nil && cn != nil && c.Route.Map >= cn.Map {
		return cn
	}
	return nil
}

// refuse gives a call that the pipeline cannot take to its strategy, unless a newer map may have another node for it.
// For since see noWay.
func (p *pipeline) refuse(c *call.Call, since uint64, why retry.Reason, cause error) {
	if pk := p.r.picker.Load(); pk != nil && pk.number != c.Route.Map {
		c.Taken()
		p.r.route(c)
		return
	}
	p.r.noWay(c, since, why, cause, p.explained())
}

// explained is the address to ask Health about for a call that the pipeline cannot take: conditions of the node count
// as long as it has no connection.
func (p *pipeline) explained() string {
	if p.node.connected() {
		return ""
	}
	return p.node.addr
}

// submitSlow is the slow path of submit: no connection has taken the call at once.
func (p *pipeline) submitSlow(c *call.Call) {
	if p.demand != nil {
		p.want()
	}
	since := p.r.o.Orchestrator.Wakes()
	if p.node.breaker != nil && p.broken(c) {
		p.refuse(c, since, retry.CircuitBreakerOpen, errBreakerOpen)
		return
	}
	cn := p.conn.Load()
	if cn != nil {
		// the bucket was created again since the call was routed, with other ids for its collections
		if c.Route.Map < cn.Map {
			p.r.route(c)
			return
		}
		switch err := cn.Submit(c); {
		case err == nil:
			return
		case errors.Is(err, conn.ErrFull):
			if !c.Req.Block() || !p.awaitRoom(cn, c) {
				p.refuse(c, since, retry.EndpointNotWritable, err)
			}
			return
		case !errors.Is(err, conn.ErrClosed):
			c.Fail(err) // the request itself cannot be sent; the connection is not at fault
			return
		}
	}
	if c.Req.Connection() != "" { // it has ended, and no other one will do
		c.Fail(&call.ConnectionGoneError{Connection: c.Req.Connection()})
		return
	}
	if cn != nil { // it has died, and its goroutine is about to reconnect
		p.drop(cn)
	}
	limit := p.r.o.QueueLimit
	if c.Req.Block() {
		limit = p.r.o.blockLimit()
	}
	routed, anywhere := c.Route.Map, !keyed(c) && !c.Req.Pinned
	p.waiting.enter(c, call.StageConnection, limit, since)
	if pk := p.r.picker.Load(); pk != nil && (pk.number != routed || anywhere) {
		p.moveOn() // a map or a connection may have come before the call, and has moved only those that had waited
	}
}

// look implements door: a call does not wait for a connection that could not be made. A pipeline that has been closed
// lets it pass, too: to another one. The lock is held.
func (p *pipeline) look() (open bool, cause error) {
	switch {
	case p.closed, p.conn.Load() != nil:
		return true, nil
	case p.failed:
		return false, p.lastErr
	}
	return false, p.hopeless()
}

// pass implements door. The id of a call's collection may be another one now.
func (p *pipeline) pass(c *call.Call) *pipeline {
	p.mu.Lock()
	closed := p.closed
	p.mu.Unlock()
	switch {
	case closed:
		return p.r.reroute(c, p)
	case c.Req.InDefaultCollection():
		return p
	}
	return p.r.find(c)
}

// turnAway implements door.
func (p *pipeline) turnAway(c *call.Call, since uint64, cause error) {
	p.refuse(c, since, reasonOf(cause), cause)
}

// blockLimit is how many calls may wait for their turn on one connection.
func (o *Options) blockLimit() int { return 16 * o.QueueLimit }

// awaitRoom lets a call wait for its turn on a connection that is full; false when too many do already.
func (p *pipeline) awaitRoom(cn *conn.Conn, c *call.Call) bool {
	c.Share()
	p.mu.Lock()
	here := p.conn.Load() == cn
	seated := here && p.waiting.seat(c, call.StageRoom, p.r.o.blockLimit())
	p.mu.Unlock()
	switch {
	case !here: // no goroutine would look after a call that waits for this one
		p.submit(c)
	case !seated:
		return false
	default:
		p.r.hold(c)
		if cn.WantRoom() {
			p.Room(cn)
		}
	}
	return true
}

// Room implements conn.Handler: those that wait for their turn get it, as many as the connection takes.
func (p *pipeline) Room(cn *conn.Conn) {
	for {
		p.mu.Lock()
		var c *call.Call
		if p.conn.Load() == cn { // otherwise a new connection takes all of them, or the next failure does
			c = p.waiting.next()
		}
		p.mu.Unlock()
		if c == nil {
			return
		}
		if c.Ended() {
			continue
		}
		c.Begin(p.r.now())
		if err := cn.Submit(c); errors.Is(err, conn.ErrFull) {
			p.mu.Lock()
			p.waiting.back(c)
			p.mu.Unlock()
			if !cn.WantRoom() {
				return
			}
			continue
		} else if err != nil {
			p.submit(c)
		}
		c.Taken()
	}
}

// moveOn has the calls go on that wait for a connection while the map has another node for them, or any connected node
// would do. That uses no attempt.
func (p *pipeline) moveOn() {
	pk := p.r.picker.Load()
	p.mu.Lock()
	var calls []*call.Call
	if pk != nil && p.conn.Load() == nil && !p.closed {
		calls = p.waiting.takeIf(func(c *call.Call) bool { return !c.Ended() && pk.leadsElsewhere(c, p.node) })
	}
	p.mu.Unlock()
	p.r.goOn(calls, p.r.find)
}

// reroute finds another way, as find does, for a call whose pipeline has left. That uses no attempt.
func (r *Router) reroute(c *call.Call, from *pipeline) *pipeline {
	if pk := r.picker.Load(); pk != nil {
		// closing: no other way will come
		if pk.nodeFor(c, &r.view, r.next.Load()).node == from.node || r.ctx.Err() != nil {
			r.notSent(c, retry.SocketNotAvailable, retry.ErrClosed)
			return nil
		}
	}
	return r.find(c)
}

// feedback is what is told of the node's successes, nil for nothing.
func (p *pipeline) feedback() conn.Feedback {
	var tokens conn.Feedback
	if ps := p.r.policies.Load(); ps != nil && ps.Feedback != nil {
		tokens = ps.Feedback(p.node.addr)
	}
	switch {
	case p.node.breaker == nil:
		return tokens
	case tokens == nil:
		return p.node.breaker
	}
	return both{tokens, p.node.breaker}
}

type both struct{ a, b conn.Feedback }

func (f both) Success() {
	f.a.Success()
	f.b.Success()
}

// connected has calls take a new connection, and tells all waiters; false when the pipeline has been closed meanwhile.
func (p *pipeline) connected(cn *conn.Conn) bool {
	r, info := p.r, cn.Info()
	config := info.Config
	calls, considered, err := p.publish(cn, config, r.readErrorMap(p.node.addr, info.ErrorMap))
	switch {
	case errors.Is(err, errLeft):
		r.wake() // the map may have another way
		return false
	case err != nil: // the next connection is made in the bucket that our map is of now
		cn.Close(err)
		return true
	}
	r.o.Log.Info(r.ctx, observe.MsgConnected, slog.String(observe.KeyEndpoint, p.node.addr),
		slog.String(observe.KeyLocal, info.Local), slog.String(observe.KeyConnectionID, info.ID),
		slog.Duration(observe.KeyElapsed, info.Took))
	considered() // those that look for a way now are to look in the map that came with this one
	switch {
	case r.maps.foreign(config, p.node.addr): // another seed's map was the first
		cn.Close(errForeign)
	case config != nil:
		r.nodes.trim()
	}
	if info.NoConfig && r.o.Source != nil {
		r.o.Source.Needed()
	}
	if config == nil {
		if !info.NoConfig && !r.o.NoConfig {
			r.maps.wanted.sign()
		}
		r.first.review()
	}
	p.waiting.release(calls, 0, nil)
	r.nodes.moveOn() // what any node may take and waits for another one
	r.wake()
	r.notify()
	return true
}

// publish makes cn the pipeline's connection, unless that has been closed, or a map of another bucket than cn was made
// in has been applied meanwhile; none is while it runs. It gives the calls that have waited, and what waits until the
// map that came with cn was considered.
func (p *pipeline) publish(cn *conn.Conn, config []byte, errorMap *errormap.Map) (calls []*call.Call,
	considered func(), err error,
) {
	r := p.r
	r.nodes.mu.Lock()
	defer r.nodes.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, nil, errLeft
	}
	p.failed, p.lastErr = false, nil
	p.serves = cn
	if r.nodes.byAddr[p.node.addr] == p.node { // otherwise the node has left, and nothing of it is kept
		r.o.ErrorMaps.Offer(p.node.addr, errorMap)
	}
	if r.maps.foreign(config, p.node.addr) {
		return nil, nil, errForeign
	}
	// before the connection is seen: calls that wait for a map see this one coming
	considered = r.offerAndTell(config, p.node.addr)
	if pk := r.picker.Load(); pk != nil {
		cn.Map = pk.since
	}
	cn.Forget()
	p.confirms.Store(config != nil)
	if p.demand == nil {
		p.track.Up()
	}
	if config != nil {
		r.maps.barren.Store(false) // our caller tells those that wait for a change
	}
	p.conn.Store(cn)
	if p.served {
		r.reconnects.Add(1)
	}
	p.served = true
	r.nodes.giveTurn(p)
	cn.SetFeedback(p.feedback()) // which may be another one than when the connection was begun
	return p.waiting.take(), considered, nil
}

// lost withdraws the connection after its end, and says whether the goroutine that has served it goes on.
func (p *pipeline) lost(cn *conn.Conn, err error) (goesOn bool) {
	closed, serves := p.drop(cn)
	if !closed && !errors.Is(err, errOrderedIdle) {
		p.r.o.Log.Info(p.r.ctx, observe.MsgConnectionLost, about(p.node.addr, err)...)
		p.r.maps.suspect()
		p.r.maps.wanted.sign()
	}
	p.r.notify()
	p.r.Explained() // a condition may explain now what works no more
	return closed || serves
}

// drop takes a connection that has died out of use, and says whether it was the one that the pipeline's goroutine
// serves.
func (p *pipeline) drop(cn *conn.Conn) (closed, served bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn.CompareAndSwap(cn, nil) {
		p.failed = false
		p.progress.Store(p.r.now())
	}
	if p.conn.Load() == nil {
		p.track.Down()
	}
	return p.closed, p.serves == cn
}

// close ends the pipeline at once.
func (p *pipeline) close(cause error) {
	p.mu.Lock()
	p.closed = true
	cn := p.conn.Swap(nil)
	p.mu.Unlock()
	p.stop(cause)
	if q := p.node.ordered.Load(); q != nil && p.first {
		q.close(cause)
	}
	if cn != nil {
		cn.Close(cause)
	}
	p.waiting.review()
	p.track.Leave()
}

// drain ends the pipeline of a node that has left: queued calls go elsewhere, those in flight have until drainLimit to
// finish.
func (p *pipeline) drain() {
	p.mu.Lock()
	p.closed = true
	cn := p.conn.Load()
	p.mu.Unlock()
	p.waiting.review()
	if cn != nil {
		cn.Refuse()
		closeWhenIdle(p.r.ctx, cn, drainLimit, errLeft)
	}
	p.close(errLeft)
}

// pushes reports whether the node tells of new maps by itself.
func (p *pipeline) pushes() bool {
	cn := p.conn.Load()
	if cn == nil {
		return false
	}
	f := cn.Info().Features
	return f.Has(memd.FeatureClustermapChangeBrief) || f.Has(memd.FeatureClustermapChange)
}

var errLeft = errors.New("the node has left the cluster")
