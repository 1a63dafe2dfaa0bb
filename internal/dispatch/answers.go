package dispatch

import (
	"log/slog"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// answered handles an answer that is not success. The connection's reader, which has claimed the attempt, calls it.
func (r *Router) answered(p *pipeline, cn *conn.Conn, c *call.Call, pkt *memd.Packet) {
	c.Lend()
	j := c.Judge(pkt, r.o.ErrorMaps.For(p.node.addr))
	d, err := &j.Disposition, j.Err
	if r.o.Slow != nil && err != nil {
		c.Spend(r.now(), serverTimeOf(err.ServerTime()))
	}
	if d.Class == call.ClassSuccess {
		p.node.breaker.Success()
		r.well(p.node.addr)
		c.Succeed(pkt, false)
		return
	}
	p.counts(false, err)
	if j.Entry.FetchConfig() {
		r.maps.wanted.sign()
	}
	switch {
	case d.Reconnect:
		p.retire(cn, &uselessError{err.Status, err.Name})
	case j.Entry.InvalidatesConnection():
		p.renew(cn, &uselessError{err.Status, err.Name})
	}
	switch {
	case d.Class != call.ClassRetry:
		r.refused(c, d, err)
	case d.Reason == retry.KVNotMyVBucket:
		r.notMyVBucket(p, c, pkt, err)
	case d.Reason == retry.KVCollectionOutdated:
		r.collectionOutdated(c, err)
	case pkt.Status == memd.StatusAuthStale && r.o.Stale != nil:
		r.o.Stale(cn.Info().ID)
		fallthrough
	default:
		r.judge(c, d.Reason, err, j.Hint)
	}
}

// readErrorMap reads a node's error map. A malformed one gives nil, as if the node had sent none: the connection stays.
func (r *Router) readErrorMap(addr string, raw []byte) *errormap.Map {
	if raw == nil {
		return nil
	}
	m, err := errormap.Parse(raw, r.o.ErrorMapLimit)
	if err != nil {
		r.o.Log.Warn(r.ctx, observe.MsgErrorMapRefused, about(addr, err)...)
		return nil
	}
	return m
}

// notMyVBucket offers the map that came with the answer to the map goroutine. The call is judged after the map
// goroutine has considered the map: only then it is known whether the vbucket has moved.
func (r *Router) notMyVBucket(p *pipeline, c *call.Call, pkt *memd.Packet, err *call.Error) {
	if len(pkt.Value) == 0 {
		r.maps.wanted.sign()
		r.judgeMoved(claimed{c: c, err: err})
		return
	}
	cl := claimed{c: c, err: err}
	if r.maps.offers.latest(pkt.Value) {
		r.judgeMoved(cl)
		return
	}
	r.hold(c)
	if r.maps.offers.offer(pkt.Value, pkt.Datatype, p.node.addr, &cl) {
		r.judgeMoved(cl)
	}
}

// claimed waits until the map goroutine has considered an offered map. It is either a call, which judgeMoved then
// judges, or a goroutine, which considered then wakes.
type claimed struct {
	c          *call.Call    // its attempt was refused with NOT_MY_VBUCKET and is claimed; nil for a goroutine
	err        *call.Error   // the refusal
	considered chan struct{} // closed for a goroutine; nil for a call
	tell       bool          // the goroutine wakes parked calls itself, so that the map goroutine need not
}

// judgeMoved asks the orchestrator about a call that was refused with NOT_MY_VBUCKET, and tells it whether the map in
// use has another node for the call than the one that refused it.
func (r *Router) judgeMoved(cl claimed) {
	moved := false
	if pk := r.picker.Load(); pk != nil {
		t := pk.nodeFor(cl.c, &r.view, r.next.Load())
		moved = t.node != nil && t.node.addr != cl.err.Endpoint
		if !moved && pk.forward(cl.c, t.vbucket, cl.err.Endpoint) != nil {
			cl.c.Route.Forward, cl.c.Slow().ForwardRev = true, pk.snap.Rev
			moved = true
		}
	}
	hint := retry.Hint{Moved: moved, Code: uint32(memd.StatusNotMyVBucket)}
	r.judge(cl.c, retry.KVNotMyVBucket, r.beside(cl.err), hint)
}

// collectionOutdated forgets the id that the node does not know, unless the node is the one that lags.
func (r *Router) collectionOutdated(c *call.Call, err *call.Error) {
	switch {
	case c.Req.CollectionID() != 0 && c.Req.Scope() == "" && c.Req.Collection() == "":
		c.Fail(err) // there is no name to look another id up by
		return
	case c.Req.CollectionID() != 0: // from now on the names count
		c.Req.Own().CollectionID, c.Route.CollectionID = 0, 0
	default:
		c.Req.LookUp()
		uid, ok := err.ManifestUID()
		if !ok || !r.view.ids.Stale(uid, pathOf(c)) {
			if ok {
				r.view.ids.Refuse(pathOf(c), uid)
			}
			r.view.ids.Invalidate(pathOf(c), c.Route.CollectionID)
		}
	}
	r.judge(c, retry.KVCollectionOutdated, err, retry.Hint{Code: uint32(memd.StatusUnknownCollection)})
}

// about gives the attributes of a log line about a node. No error of this module holds credentials.
func about(node string, err error) []slog.Attr {
	return []slog.Attr{slog.String(observe.KeyEndpoint, node), slog.Any(observe.KeyCause, err)}
}

// Answered implements conn.Handler.
func (p *pipeline) Answered(cn *conn.Conn, c *call.Call, pkt *memd.Packet) {
	p.r.answered(p, cn, c, pkt)
}

// Unanswered implements conn.Handler.
func (p *pipeline) Unanswered(n int, cause error) {
	if cause == nil {
		cause = cberr.Timeout
	}
	for range n {
		p.counts(true, cause)
	}
}

// Lost implements conn.Handler.
func (p *pipeline) Lost(c *call.Call, epoch uint32, cause error) {
	c.Share()
	if p.r.o.Slow != nil {
		c.Spend(p.r.now(), 0)
	}
	if p.r.over(c) {
		return
	}
	p.r.hold(c)
	p.r.o.Orchestrator.ConnLost(c, epoch, cause)
}

// Unsent implements conn.Handler. The server has not seen the whole request, so that every call may be sent again: a
// call whose frame was cut asks its strategy; any other is routed again, at most four times.
func (p *pipeline) Unsent(c *call.Call, cut bool, cause error) {
	c.Share()
	c.NotSent()
	since := p.r.o.Orchestrator.Wakes()
	s := c.Slow()
	if s.LostRaces++; cut || s.LostRaces > 4 {
		why := retry.WriteFailed
		if !cut {
			why = retry.SocketNotAvailable
		}
		p.refuse(c, since, why, cause)
		return
	}
	p.r.route(c)
}

// Expired implements conn.Handler.
func (p *pipeline) Expired(calls []*call.Call) { p.r.expireAll(calls) }

// Push implements conn.Handler. A pushed map that is newer than ours is offered to the map goroutine; a pushed version
// that is newer has the bucket's poll ask for the map.
func (p *pipeline) Push(_ *conn.Conn, pkt *memd.Packet) {
	if pkt.Magic != memd.MagicServerReq || pkt.Opcode != memd.ServerOpClustermapChange {
		return
	}
	// Nodes push the maps of the whole cluster and of other buckets, too.
	if string(pkt.Key) != p.r.o.Bucket {
		return
	}
	epoch, rev, named := handshake.MapVersion(pkt)
	if s := p.r.Snapshot(); named && s != nil && !(version{epoch, rev}).newer(versionOf(s)) {
		return
	}
	if len(pkt.Value) > 0 {
		p.r.maps.offers.offer(pkt.Value, pkt.Datatype, p.node.addr, nil)
		p.r.SetBarren(false)
		return
	}
	if named {
		p.r.maps.wanted.named(version{epoch, rev}, p.node)
		return
	}
	p.r.maps.wanted.sign()
}
