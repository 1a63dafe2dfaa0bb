package dispatch

import (
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/conn"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

// Orphan implements conn.Handler.
func (p *pipeline) Orphan(cn *conn.Conn, pkt *memd.Packet, late call.Late) {
	p.r.orphans.Add(1)
	if p.r.o.Orphans == nil {
		return
	}
	if late.Via == nil { // nothing is known of the call
		late = call.Late{Operation: pkt.Opcode.String(), Opaque: pkt.Opaque, Via: &call.Via{
			Endpoint: p.node.addr, Local: cn.Info().ID, LocalAddr: cn.Info().Local,
		}}
		if s := call.SpecOf(pkt.Opcode); s != nil {
			late.Operation = s.Name
		}
	}
	q := p.r.request(&late)
	q.LastServer = serverTimeOf(call.ServerTime(pkt))
	q.TotalServer = late.Served + q.LastServer
	p.r.o.Orphans.Add(q)
}

// Report implements call.Reporter.
func (r *Router) Report(c *call.Call) {
	if r.o.Slow == nil || hidden(c.Context(), c) {
		return
	}
	limit := r.o.SlowCall
	switch c.Req.Opcode {
	case memd.OpRangeScanCreate, memd.OpRangeScanContinue, memd.OpRangeScanCancel:
		limit = r.o.SlowScan
	}
	if r.now()-c.Started >= int64(limit) {
		late := c.Late()
		r.o.Slow.Add(r.request(&late))
	}
}

// request is what reports say of a call that is over now.
func (r *Router) request(l *call.Late) observe.Request {
	q := observe.Request{
		Service: "kv", Operation: observe.Name(l.Operation), OperationID: observe.OpaqueID(l.Opaque),
		LastDispatch: l.Last, TotalDispatch: l.Spent, LastServer: l.LastServed, TotalServer: l.Served,
	}
	if l.Via == nil { // it was never sent
		q.OperationID = ""
	} else {
		q.LocalID, q.LocalSocket, q.RemoteSocket = l.Via.Local, l.Via.LocalAddr, l.Via.Endpoint
	}
	if l.Deadline == 0 {
		return q
	}
	now := r.now()
	q.Total, q.Timeout = time.Duration(now-l.Started), time.Duration(l.Deadline-l.Started)
	if l.Via != nil && l.Began >= 0 { // an attempt was out until now
		q.LastDispatch, q.LastServer = time.Duration(now-l.Began), serverTimeOf(l.Server)
		q.TotalDispatch += q.LastDispatch
		q.TotalServer += q.LastServer
	}
	return q
}
