package call

import (
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Late is what reports of slow calls, and of answers to calls that have ended, need of a call. Times are in nanoseconds
// since its home's base.
type Late struct {
	Operation      string
	Started, Began int64 // the call, and the attempt that is out; -1 when none is
	Deadline       int64
	Opaque         uint32
	Via            *Via          // of the last attempt; nil without one
	Server         uint16        // how long the server has worked on the attempt that is out, as the protocol encodes it
	Spent, Last    time.Duration // by the attempts before, and by the last of them
	Durable        bool          // the request asks for durability
	Served         time.Duration // how long servers have worked on those
	LastServed     time.Duration
}

// Late gives those facts. A call that is not its caller's any more must have ended.
func (c *Call) Late() Late {
	l := Late{
		Operation: c.Name(), Started: c.Started, Began: c.Began(), Deadline: c.Deadline, Opaque: c.Route.Opaque,
		Via: c.via, Server: c.Res.duration, Durable: c.Req.Durability != 0,
	}
	if s := c.slow.Load(); s != nil {
		l.Spent, l.Last = time.Duration(s.spent.Load()), time.Duration(s.last.Load())
		l.Served, l.LastServed = time.Duration(s.served.Load()), time.Duration(s.lastServed.Load())
	}
	return l
}

// Spend notes that an attempt which was sent is over now, and how long the server has worked on it.
func (c *Call) Spend(now int64, server time.Duration) {
	s := c.Slow()
	took := now - c.Began()
	s.spent.Add(took)
	s.last.Store(took)
	s.served.Add(int64(server))
	s.lastServed.Store(int64(server))
	s.began.Store(-1)
}

// Began is when the attempt that is out began, in nanoseconds since the home's base; -1 when none is. The first begins
// with the call.
func (c *Call) Began() int64 {
	if s := c.slow.Load(); s != nil {
		if at := s.began.Load(); at != 0 {
			return at
		}
	}
	return c.Started
}

// Begin says when an attempt begins that was not sent when the call started. The call may end at the same time, and its
// report be written, so the instant is not in Route.
func (c *Call) Begin(now int64) { c.Slow().began.Store(now) }

// Reporter is an Owner that reports calls which have taken long.
type Reporter interface {
	// Report is asked about a call that has ended and that was not answered at once.
	Report(c *Call)
}

// ServerTime is how long a server has worked, as it says in an answer and the protocol encodes it.
func ServerTime(p *memd.Packet) uint16 {
	var f frames
	f.set(p.Frames)
	return f.duration
}

// ServerTime is that of the answer that the call has failed with.
func (e *Error) ServerTime() uint16 { return e.duration }

// Known is what is known of an answer without its body, which belongs to the call and may still change.
func Known(e *Error) *Error {
	return &Error{
		Op: e.Op, Bucket: e.Bucket, Scope: e.Scope, Collection: e.Collection, Answered: e.Answered, Status: e.Status,
		Name: e.Name, Description: e.Description, Context: e.Context, Ref: e.Ref, CollectionID: e.CollectionID,
		Endpoint: e.Endpoint, Connection: e.Connection, LocalAddr: e.LocalAddr, Opaque: e.Opaque, Elapsed: e.Elapsed,
		Stage: e.Stage, InDoubt: e.InDoubt, Retry: e.Retry, Err: e.Err, Cause: e.Cause,
		hasDuration: e.hasDuration, duration: e.duration,
	}
}
