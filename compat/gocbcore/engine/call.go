//go:build ignore

package gocbcore

import (
	"context"
	"time"

	"github.com/couchbase/gocbcore/v10/memd"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	ccmemd "github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// crudComponent runs the key-value operations of one bucket.
type crudComponent struct {
	client  *client
	bucket  *core.Bucket
	mux     *kvMux
	tracer  *tracerComponent
	traced  bool // there is a tracer
	metered bool // there is a meter
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

func (k *kvCall) common(t *target) kv.Common {
	d := left(t.deadline)
	k.late = d == 1
	return kv.Common{
		Scope: t.scope, Collection: t.collection, CollectionID: t.cid, Retry: k.c.client.strategy.of(t.strategy),
		OnBehalfOf: t.user, Timeout: d,
	}
}

// kvCall is one operation under way, and what its program cancels it by: one piece of memory for both.
type kvCall struct {
	c       *crudComponent
	name    string
	cmd     memd.CmdCode
	inserts bool // a document that is there is an error
	late    bool // its deadline has passed: nothing is sent
	blocks  bool // the program's callback may: it does not run on the connection's reader
	key     []byte
	cas     uint64
	began   time.Time    // zero unless a duration is asked for
	own     *spanWrapper // of the operation, nil where the program makes it
	spans   *spans       // nil without spans
	running interface{ Cancel() bool }
}

func (c *crudComponent) begin(name string, cmd memd.CmdCode, t *target) *kvCall {
	k := &kvCall{c: c, name: name, cmd: cmd, key: t.key}
	if c.metered {
		k.began = time.Now()
	}
	if c.traced && !silent(t.trace) {
		parent := t.trace
		if !c.tracer.noRootTraceSpans {
			k.own = labelled(c.tracer, parent, name)
			parent = k.own.Context()
		}
		if parent != nil {
			k.spans = newSpans(c.tracer, parent, cmd.Name())
		}
	}
	return k
}

// facts are what every result of couchcore's says.
type facts interface {
	Endpoint() string
	Connection() string
	LocalAddr() string
	Opaque() uint32
	ServerDuration() (time.Duration, bool)
	Units() (reads, writes uint32)
	RetryInfo() retry.Info
}

// run starts an operation. cb gets what conv makes of its result, or its error.
func run[R facts, O kv.Op[R], T any](k *kvCall, op O, conv func(*kvCall, R) *T, cb func(*T, error)) (PendingOp, error) {
	if k.c.mux.closed.Load() {
		k.finish()
		return nil, errShutdown
	}
	done := func(r R, err error) {
		if err != nil {
			err = k.failed(err)
			cb(nil, err)
			return
		}
		if k.observed() { // a result that is a facts takes memory
			k.succeeded(r)
		}
		cb(conv(k, r), nil)
	}
	ctx := k.spans.context(context.Background())
	if k.late { // an answer may come before a deadline of now is noticed
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, time.Time{})
		defer cancel()
	}
	if k.blocks {
		k.running = kv.Go(ctx, k.c.bucket, op, done)
	} else {
		k.running = kv.GoInline(ctx, k.c.bucket, op, done)
	}
	return k, nil
}

// Cancel implements PendingOp.
func (k *kvCall) Cancel() { k.running.Cancel() }

// observed reports whether the end of the operation is of interest to others than the program.
func (k *kvCall) observed() bool { return k.own != nil || k.spans != nil || !k.began.IsZero() }

func (k *kvCall) succeeded(r facts) {
	k.ended(r, true)
	k.finish()
}

func (k *kvCall) failed(err error) error {
	made := k.callError(err)
	if !k.observed() {
		return made
	}
	var last kv.Result
	if e, ok := err.(*kv.Error); ok { //nolint:errorlint // it is one as a rule
		last = kv.ResultOf(e)
	}
	k.ended(last, false)
	k.finish()
	return made
}

// ended ends the spans of the last attempt.
func (k *kvCall) ended(r facts, made bool) {
	if k.spans == nil {
		return
	}
	a := attemptOf(r)
	a.retries = r.RetryInfo().Retries()
	k.spans.stop(a, made, true)
}

// finish ends the operation's own span, and those below it if they have not ended, and notes its duration.
func (k *kvCall) finish() {
	k.spans.stop(attempt{}, false, true)
	if k.own != nil {
		k.own.End()
	}
	if !k.began.IsZero() {
		k.c.tracer.ResponseValueRecord(metricValueServiceKeyValue, k.name, k.began)
	}
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
