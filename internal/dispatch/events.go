package dispatch

import (
	"log/slog"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

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
	if c.LostRaces++; cut || c.LostRaces > 4 {
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
	if s := p.r.Snapshot(); named && s != nil && !newer(epoch, rev, s) {
		return
	}
	if len(pkt.Value) > 0 {
		p.r.offers.offer(pkt.Value, pkt.Datatype, p.node.addr, nil)
		p.r.SetBarren(false)
		return
	}
	if named {
		p.r.wantVersion(epoch, rev, p.node)
		return
	}
	p.r.want()
}
