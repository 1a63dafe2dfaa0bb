package dispatch

import (
	"log/slog"

	"github.com/couchcore/couchcore/errormap"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// answered is what becomes of a call whose attempt was answered with something else than success. It runs on the
// connection's reader; the attempt is claimed.
func (r *Router) answered(p *pipeline, cn *conn.Conn, c *call.Call, pkt *memd.Packet) {
	c.Lend()
	j := c.Judge(pkt, r.o.ErrorMaps.For(p.node.addr))
	d, err := &j.Disposition, j.Err
	if d.Class == call.ClassSuccess {
		r.well(p.node.addr)
		c.Succeed(pkt, false)
		return
	}
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

// readErrorMap reads a node's map. A malformed one is as good as none: the connection stays.
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

// notMyVBucket offers the map that came with the answer and has the call judged once that map was considered, so that
// it is a fact whether the vbucket has moved.
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

// claimed is a call whose attempt was refused, and what it was refused with; or no call, but a waiter until a
// map was considered.
type claimed struct {
	c          *call.Call
	err        *call.Error
	considered chan struct{}
	tell       bool // it wakes parked calls by itself
}

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
	r.judge(cl.c, retry.KVNotMyVBucket, r.beside(cl.err), retry.Hint{
		Moved: moved,
		Code:  uint32(memd.StatusNotMyVBucket),
	})
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
		c.Req.NotSimple() // the default collection, too, is looked up before it is used again
		uid, ok := err.ManifestUID()
		if !ok || !r.view.ids.Stale(uid, pathOf(c)) {
			r.view.ids.Invalidate(pathOf(c), c.Route.CollectionID)
		}
	}
	r.judge(c, retry.KVCollectionOutdated, err, retry.Hint{Code: uint32(memd.StatusUnknownCollection)})
}

// about are the attributes of a line about a node. No error of this module holds credentials.
func about(node string, err error) []slog.Attr {
	return []slog.Attr{slog.String(observe.KeyEndpoint, node), slog.Any(observe.KeyCause, err)}
}

// Answered implements conn.Handler.
func (p *pipeline) Answered(cn *conn.Conn, c *call.Call, pkt *memd.Packet) {
	p.node.breaker.Success() // whatever it says, the node has answered
	p.r.answered(p, cn, c, pkt)
}

// Lost implements conn.Handler.
func (p *pipeline) Lost(c *call.Call, epoch uint32, cause error) {
	p.tripped()
	c.Share()
	p.r.hold(c)
	p.r.o.Orchestrator.ConnLost(c, epoch, cause)
}

// Unsent implements conn.Handler: the frame never became whole on the wire, so any call may go again.
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
func (p *pipeline) Expired(c *call.Call) {
	p.tripped()
	p.r.expire(c)
}

// Orphan implements conn.Handler. What is gathered for the report costs something only when a log reads it.
func (p *pipeline) Orphan(cn *conn.Conn, pkt *memd.Packet) {
	p.r.orphans.Add(1)
	if p.r.o.NoOrphans || !p.r.o.Log.Enabled(p.r.ctx, slog.LevelWarn) {
		return
	}
	name := pkt.Opcode.String()
	if s := call.SpecOf(pkt.Opcode); s != nil {
		name = s.Name
	}
	p.r.reports.Add(observe.Orphan{
		Service: "kv", Operation: name, OperationID: observe.OpaqueID(pkt.Opaque), LocalID: cn.Info().ID,
		LocalSocket: cn.Info().Local, RemoteSocket: p.node.addr,
	})
}

// Push implements conn.Handler: a newer map is taken, or its version makes us ask for it. One that is not newer than
// ours costs nothing.
func (p *pipeline) Push(_ *conn.Conn, pkt *memd.Packet) {
	if pkt.Magic != memd.MagicServerReq || pkt.Opcode != memd.ServerOpClustermapChange {
		return
	}
	// of the whole cluster, which nodes tell all connections of, or of another bucket
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
