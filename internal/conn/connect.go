package conn

import (
	"context"
	"net"
	"time"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/handshake"
	"github.com/couchcore/couchcore/internal/telemetry"
)

// Options say how to connect, and how the connection works then. Base and Handler must be set, and what
// handshake.Options say.
type Options struct {
	handshake.Options
	Compression  call.Compression // of documents' values, where the node grants it
	WriteTimeout time.Duration    // of a write that the peer does not take; 0 means 10 s
	MaxInFlight  int              // 0 means 32768
	ReadBuffer   int              // bytes, at least as many as a buffer that grows has at most; 0: it grows and shrinks
	Base         time.Time        // the calls' deadlines count from here
	Slow         time.Duration    // after which a call is shared, so that its owner is asked to report it; 0: never
	Handler      Handler
	Feedback     Feedback         // is told of every success; nil: no receiver
	Telemetry    *telemetry.Meter // counts attempts; nil: none
}

// Feedback is told that the node has answered with success. Success is called by the reader and must not block.
type Feedback interface{ Success() }

// SetFeedback replaces what is told of successes from now on; with nil they are not told.
func (c *Conn) SetFeedback(f Feedback) {
	if f == nil {
		c.feedback.Store(nil)
		return
	}
	c.feedback.Store(&f)
}

// Connect makes a connection to the node at addr. It blocks until the handshake is done, ctx has ended or the timeout
// has passed. The error is a *handshake.Error. The caller runs Serve on the connection it gets.
func Connect(ctx context.Context, addr string, o *Options) (*Conn, error) {
	made, err := handshake.Connect(ctx, addr, &o.Options)
	if err != nil {
		return nil, err
	}
	return newConn(made.Conn, o, made), nil
}

func newConn(nc net.Conn, o *Options, made *handshake.Result) *Conn {
	c := &Conn{nc: nc, h: o.Handler, info: made.Info, packer: call.Packer{Compression: o.Compression}}
	c.SetFeedback(o.Feedback)
	c.counts = o.Telemetry.Of(telemetry.Where{Service: telemetry.KV, Addr: c.info.Addr, Bucket: o.Bucket})
	c.slots.max = o.MaxInFlight
	if c.slots.max <= 0 {
		c.slots.max = 32768
	}
	via := &call.Via{Endpoint: c.info.Addr, Local: c.info.ID, LocalAddr: c.info.Local, Bucket: o.Bucket}
	c.writer = writer{wire: call.Wire{Features: c.info.Features, Via: via}, limit: o.WriteTimeout, backlog: c.backlog}
	if c.writer.limit <= 0 {
		c.writer.limit = 10 * time.Second
	}
	if o.TLS == nil {
		c.writer.try = newTry(nc)
	}
	r := &c.reader
	r.nc, r.reads, r.limit, r.pushed = nc, &c.Stats.Reads, o.FrameLimit, made.Pushed
	r.fixed = o.ReadBuffer > 0
	r.buf = make([]byte, max(minRead, o.ReadBuffer, len(made.Unread)))
	r.n = copy(r.buf, made.Unread)
	c.deadlines = deadlines{base: o.Base, slow: int64(o.Slow), timer: time.AfterFunc(time.Hour, c.sweep), at: never}
	c.deadlines.timer.Stop()
	return c
}
