//go:build ignore

package gocbcore

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// spans are those of an operation's attempts: of each one that is dispatched to a server, and of a key-value operation
// also one of the command above that. gocbcore's tracers take no times, so that each begins and ends when that happens:
// couchcore's observer says when an attempt has failed and when the next one is due. Nil has no spans.
type spans struct {
	tc     *tracerComponent
	parent RequestSpanContext
	cmd    string // the name of the command's span; "" for a request to a service

	lock sync.Mutex
	now  *tried // the attempt that is out, or due; nil once it has ended
	over bool
}

// tried is one attempt. A timer begins it when it is due, unless its end is known before that.
type tried struct {
	s     *spans
	due   *time.Timer // nil for the first
	begun bool        // its spans are made, or about to be; this and the next two under the lock
	open  *opened     // nil before they are made
	end   *attempt    // nil before its end is known
}

// opened are the spans of one attempt.
type opened struct{ cmd, net *spanWrapper }

// newSpans begins the first attempt.
func newSpans(tc *tracerComponent, parent RequestSpanContext, cmd string) *spans {
	s := &spans{tc: tc, parent: parent, cmd: cmd}
	s.now = &tried{s: s}
	s.now.begin()
	return s
}

// labelled begins a span.
func labelled(tc *tracerComponent, parent RequestSpanContext, name string) *spanWrapper {
	s, l := tc.tracer.StartSpan(parent, name), tc.ClusterLabels()
	s.SetSystemName()
	if l.ClusterName != "" {
		s.SetClusterName(l.ClusterName)
	}
	if l.ClusterUUID != "" {
		s.SetClusterUUID(l.ClusterUUID)
	}
	return s
}

// silent reports whether a span is of gocb's NoopTracer, which makes nothing of those below it either.
func silent(parent RequestSpanContext) bool {
	t := reflect.TypeOf(parent)
	return t != nil && t.Size() == 0 && t.Name() == "noopSpanContext" && t.PkgPath() == "github.com/couchbase/gocb/v2"
}

func (s *spans) open() opened {
	var o opened
	parent := s.parent
	if s.cmd != "" {
		o.cmd = labelled(s.tc, parent, s.cmd)
		parent = o.cmd.Context()
	}
	o.net = labelled(s.tc, parent, spanNameDispatchToServer)
	return o
}

// begin makes the attempt's spans, and ends them if its end has become known meanwhile.
func (t *tried) begin() {
	t.s.lock.Lock()
	was := t.begun
	t.begun = true
	t.s.lock.Unlock()
	if was {
		return
	}
	o := t.s.open()
	t.s.lock.Lock()
	t.open = &o
	end := t.end
	t.s.lock.Unlock()
	if end != nil {
		o.end(*end)
	}
}

// again begins the next attempt after the delay.
func (s *spans) again(delay time.Duration) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.over {
		t := &tried{s: s}
		t.due, s.now = time.AfterFunc(delay, t.begin), t
	}
}

// stop ends the attempt that is out, if one is. made says that there was one, whose answer may have come before the
// timer that begins it. With over no other one begins.
func (s *spans) stop(a attempt, made, over bool) {
	if s == nil {
		return
	}
	s.lock.Lock()
	t := s.now
	s.now, s.over = nil, s.over || over
	var begun bool
	var open *opened
	if t != nil {
		begun, open = t.begun, t.open
		t.begun, t.end = true, &a
	}
	s.lock.Unlock()
	switch {
	case t == nil:
	case open != nil:
		open.end(a)
	case !begun:
		t.due.Stop()
		if made {
			s.open().end(a)
		}
	}
}

// attempt is what is known of an attempt that has ended.
type attempt struct {
	id, endpoint, localAddr, connection string

	server   time.Duration
	measured bool // server is what the server has said
	retries  int
}

func attemptOf(r facts) attempt {
	a := attempt{endpoint: r.Endpoint(), localAddr: r.LocalAddr(), connection: r.Connection()}
	a.server, a.measured = r.ServerDuration()
	if a.connection != "" {
		a.id = strconv.Itoa(int(r.Opaque()))
	}
	return a
}

func (o opened) end(a attempt) {
	o.net.SetNetworkTransportTCP()
	if a.id != "" {
		o.net.SetOperationID(a.id)
	}
	if a.connection != "" {
		o.net.SetLocalID(a.connection)
	}
	host, port, _ := net.SplitHostPort(a.endpoint)
	o.net.SetPeerAddress(host, port)
	o.net.SetServerAddress(host, port)
	if o.cmd == nil {
		o.net.SetNumRetries(uint32(a.retries))
		o.net.End()
		return
	}
	host, port, _ = net.SplitHostPort(a.localAddr)
	o.net.SetHostAddress(host, port)
	if a.measured {
		o.net.SetServerDuration(a.server)
	}
	o.net.End()
	o.cmd.SetNumRetries(uint32(a.retries))
	o.cmd.End()
}

type spansKey struct{}

// context is ctx with the spans, for the observer.
func (s *spans) context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, spansKey{}, s)
}

func spansIn(ctx context.Context) *spans {
	if ctx == nil {
		return nil
	}
	s, _ := ctx.Value(spansKey{}).(*spans)
	return s
}

// observer implements retry.Observer: it tells the spans of a call's context what becomes of its attempts.
type observer struct{}

// Attempt implements retry.Observer. The last attempt of an operation that succeeds ends with the operation.
func (observer) Attempt(a retry.AttemptInfo) {
	s := spansIn(a.Context)
	if s == nil || a.Err == nil {
		return
	}
	last := attempt{endpoint: a.Endpoint}
	var e *kv.Error
	if errors.As(a.Err, &e) {
		last = attemptOf(kv.ResultOf(e))
	}
	last.retries = max(a.Number-1, 0)
	s.stop(last, true, false)
}

// Retry implements retry.Observer. A retry that waits for the deadline has no attempt.
func (observer) Retry(r *retry.Request, _ retry.Reason, delay time.Duration) {
	if s := spansIn(r.Context); s != nil && time.Until(r.Deadline) > delay {
		s.again(delay)
	}
}

// GaveUp implements retry.Observer.
func (observer) GaveUp(*retry.Request, retry.Reason, error) {}
