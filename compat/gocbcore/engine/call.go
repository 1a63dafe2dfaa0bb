//go:build ignore

package gocbcore

import (
	"context"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	ccmemd "github.com/couchcore/couchcore/memd"
)

// crudComponent runs the key-value operations of one bucket.
type crudComponent struct {
	client    *client
	bucket    *core.Bucket
	mux       *kvMux
	tracer    *tracerComponent
	telemetry *telemetryComponent
	traced    bool
	judged    atomic.Bool // whether the tracer is silent
	silent    atomic.Bool
}

// target is what most operations name.
type target struct {
	key        []byte
	scope      string
	collection string
	cid        uint32
	strategy   RetryStrategy
	deadline   time.Time
	user       string
	trace      RequestSpanContext
}

// noDeadline is the timeout of operations that name no deadline: gocbcore has none for them.
const noDeadline = 10 * 365 * 24 * time.Hour

// left is the time until a deadline. It is never 0, which would be the client's own timeout.
func left(deadline time.Time) time.Duration {
	if deadline.IsZero() {
		return noDeadline
	}
	return max(time.Until(deadline), 1)
}

func (c *crudComponent) common(t *target) kv.Common {
	return kv.Common{
		Scope: t.scope, Collection: t.collection, CollectionID: t.cid, Retry: c.client.strategy.of(t.strategy),
		OnBehalfOf: t.user, Timeout: left(t.deadline),
	}
}

// kvCall is one operation under way.
type kvCall struct {
	c         *crudComponent
	name      string
	cmd       memd.CmdCode
	key       []byte
	cas       uint64
	inserts   bool // a document that is there is an error
	writes    bool
	durable   bool
	blocks    bool // the program's callback may: it does not run on the connection's reader
	telemetry *opTelemetryHandler
	spans     spans
}

func (c *crudComponent) begin(name string, cmd memd.CmdCode, t *target) *kvCall {
	k := &kvCall{c: c, name: name, cmd: cmd, key: t.key}
	k.telemetry = c.tracer.StartTelemeteryHandler(metricValueServiceKeyValue, name, t.trace)
	if c.traced && !c.silent.Load() {
		parent := k.telemetry.RootContext()
		k.spans.start(c.tracer, parent, cmd.Name())
		if k.spans.cmd != nil && !c.judged.Swap(true) {
			c.silent.Store(same(parent, k.spans.cmd.Context()))
		}
	}
	return k
}

// same reports whether a span has the context of its parent: then the tracer makes nothing of spans, and is given none.
func same(parent, child RequestSpanContext) (yes bool) {
	defer func() { _ = recover() }() // they cannot be compared
	return parent == child
}

// facts are what every result of couchcore's says.
type facts interface {
	Endpoint() string
	Connection() string
	LocalAddr() string
	Opaque() uint32
	ServerDuration() (time.Duration, bool)
	Units() (reads, writes uint32)
}

// run starts an operation. cb gets what conv makes of its result, or its error.
func run[R facts, O kv.Op[R], T any](k *kvCall, op O, conv func(*kvCall, R) *T, cb func(*T, error)) (PendingOp, error) {
	if k.c.mux.closed.Load() {
		k.spans.end(kv.Result{}, 0)
		k.telemetry.Finish()
		return nil, errShutdown
	}
	done := func(r R, err error) {
		if err != nil {
			err = k.failed(err)
			cb(nil, err)
			return
		}
		k.succeeded(r)
		cb(conv(k, r), nil)
	}
	if k.blocks {
		return pending{kv.Go(context.Background(), k.c.bucket, op, done)}, nil
	}
	return pending{kv.GoInline(context.Background(), k.c.bucket, op, done)}, nil
}

func (k *kvCall) succeeded(r facts) {
	if k.spans.cmd != nil {
		k.spans.end(r, 0)
	}
	k.report(telemetryOutcomeSuccess, r.Endpoint())
	k.telemetry.Finish()
}

func (k *kvCall) failed(err error) error {
	made := k.callError(err)
	var last kv.Result
	retries, outcome := uint32(0), telemetryOutcomeError
	if e, ok := err.(*kv.Error); ok { //nolint:errorlint // it is one as a rule
		last, retries, outcome = kv.ResultOf(e), uint32(e.Retry.Retries()), outcomeOf(e)
	}
	k.spans.end(last, retries)
	k.report(outcome, last.Endpoint())
	k.telemetry.Finish()
	return made
}

// pending is an operation that can be canceled.
type pending struct{ running interface{ Cancel() bool } }

// Cancel implements PendingOp.
func (p pending) Cancel() { p.running.Cancel() }

// spans are the two spans below an operation's own.
type spans struct{ cmd, net *spanWrapper }

func (s *spans) start(tc *tracerComponent, parent RequestSpanContext, name string) {
	if parent == nil {
		return
	}
	s.cmd = labelled(tc, tc.tracer.StartSpan(parent, name))
	s.net = labelled(tc, tc.tracer.StartSpan(s.cmd.Context(), spanNameDispatchToServer))
}

func labelled(tc *tracerComponent, s *spanWrapper) *spanWrapper {
	s.SetSystemName()
	l := tc.ClusterLabels()
	if l.ClusterName != "" {
		s.SetClusterName(l.ClusterName)
	}
	if l.ClusterUUID != "" {
		s.SetClusterUUID(l.ClusterUUID)
	}
	return s
}

// end ends both spans with what the last attempt says.
func (s *spans) end(last facts, retries uint32) {
	if s.cmd == nil {
		return
	}
	s.net.SetNetworkTransportTCP()
	if last.Connection() != "" {
		s.net.SetOperationID(strconv.Itoa(int(last.Opaque())))
		s.net.SetLocalID(last.Connection())
	}
	fromHost, fromPort, _ := net.SplitHostPort(last.LocalAddr())
	toHost, toPort, _ := net.SplitHostPort(last.Endpoint())
	s.net.SetHostAddress(fromHost, fromPort)
	s.net.SetPeerAddress(toHost, toPort)
	s.net.SetServerAddress(toHost, toPort)
	if d, said := last.ServerDuration(); said {
		s.net.SetServerDuration(d)
	}
	s.net.End()
	s.cmd.SetNumRetries(retries)
	s.cmd.End()
}

// expiryOf is an expiry as the protocol has it: seconds from now up to 30 days, otherwise a point in time.
func expiryOf(raw uint32) kv.Expiry {
	switch {
	case raw == 0:
		return kv.Expiry{}
	case raw <= 30*24*60*60:
		return kv.ExpireAfter(time.Duration(raw) * time.Second)
	}
	return kv.ExpireAt(time.Unix(int64(raw), 0))
}

// seconds is a point in time as the protocol has it.
func seconds(t time.Time) uint32 {
	if t.IsZero() {
		return 0
	}
	return uint32(t.Unix())
}

func level(l memd.DurabilityLevel) ccmemd.DurabilityLevel { return ccmemd.DurabilityLevel(l) }

func tokenOf(t kv.MutationToken) MutationToken {
	return MutationToken{VbID: t.VBucket, VbUUID: VbUUID(t.UUID), SeqNo: SeqNo(t.Seqno)}
}

// value is never nil: gocbcore has an empty value where there is nothing.
func value(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}
