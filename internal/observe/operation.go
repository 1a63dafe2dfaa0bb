package observe

import (
	"context"
	"strings"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
)

const (
	system       = "couchbase"
	spanDispatch = "dispatch_to_server"
	spanEncoding = "request_encoding"
	eventRetry   = "retry"
)

// MostRetryEvents is how many retries of one operation its owner tells of.
const MostRetryEvents = 16

// Operation is one operation under observation. The zero Operation is not observed and all its methods do nothing. It
// belongs to the goroutine that has the operation; End is called once. It takes whole pieces of 16 bytes, in which it
// is copied: of one that is longer by 8 the last two overlap, and the reader of the one waits until the other has been
// written.
type Operation struct {
	i     *Instruments
	p     *prepared
	span  trace.Span // nil: no span is recorded
	start time.Time
	outer bool // the span is ours to end
	kept  bool // the span records: its attempts get spans, those too that end after it
}

// Outcome is how an operation ended.
type Outcome struct {
	// ErrorName is the failure's name without prefix or suffix, as in DocumentLocked; empty for success. What has no
	// name is _OTHER.
	ErrorName string
	// Answer says that the failure is an answer about the data, such as "document not found": the span's status stays
	// unset then.
	Answer bool
	// Status is the last answer's status of a failed operation, as in 0x86; empty when there was none.
	Status  string
	Retries int

	// For a hook: the error itself, and the attempts.
	Err      error
	Attempts []Tried
}

// ErrorName makes an Outcome's ErrorName of a kind's name: DocumentNotFound of document_not_found.
func ErrorName(kind string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(kind, "_") {
		if part != "" {
			b.WriteString(strings.ToUpper(part[:1]) + part[1:])
		}
	}
	return b.String()
}

// StartOperation begins to observe an operation. It returns the context that its inner spans, and nothing else, are
// made with: ctx itself when no span is recorded and there is no hook. A nil receiver does nothing and allocates
// nothing.
func (i *Instruments) StartOperation(ctx context.Context, t Target) (context.Context, Operation) {
	return i.StartStatement(ctx, t, "")
}

// StartStatement is StartOperation for a statement whose text is for spans; "" shows none.
func (i *Instruments) StartStatement(ctx context.Context, t Target, text string) (context.Context, Operation) {
	if i == nil {
		return ctx, Operation{}
	}
	return i.startOperation(ctx, i.lookup(ctx, t), text) // a call of its own: without observers nothing is copied
}

// Last is what an operation leaves for the next one of the same memory. Its zero value has nothing.
type Last struct{ p *prepared }

// Last gives that.
func (o *Operation) Last() Last { return Last{o.p} }

// StartAgain is StartOperation for one that is probably on the same target as the last one.
func (i *Instruments) StartAgain(ctx context.Context, t Target, last Last) (context.Context, Operation) {
	p := last.p
	if p == nil || p.labels != i.labels.Load() || p.given != t {
		p = i.lookup(ctx, t)
	}
	return i.startOperation(ctx, p, "")
}

func (i *Instruments) startOperation(ctx context.Context, p *prepared, text string) (context.Context, Operation) {
	o := Operation{i: i, p: p, start: time.Now()}
	if i.o.Hook != nil {
		ctx = i.begin(ctx, o.p.target)
	}
	if i.tracer == nil {
		return ctx, o
	}
	if i.o.OuterIsCallers {
		if s := trace.SpanFromContext(ctx); s.IsRecording() {
			o.span, o.kept = s, true
		}
		return ctx, o
	}
	inner := o.startSpan(ctx, text)
	return inner, o
}

func (o *Operation) startSpan(ctx context.Context, text string) (inner context.Context) {
	inner = ctx
	defer o.i.contain()
	// The full slice expression makes append copy: start is shared.
	//nolint:gocritic // a copy is meant
	opts := append(o.p.start[:len(o.p.start):len(o.p.start)], trace.WithTimestamp(o.start))
	if text != "" {
		a := attrs{c: o.i.o.Conventions}
		a.text(FieldStatement, text)
		opts = append(opts, trace.WithAttributes(a.kv...))
	}
	c, span := o.i.tracer.Start(ctx, o.p.target.Operation, opts...)
	if c != nil {
		inner = c
	}
	if span != nil {
		o.span, o.outer, o.kept = span, true, span.IsRecording()
	}
	return inner
}

// Recording reports whether attempts of the operation get spans.
func (o *Operation) Recording() bool { return o.kept && !o.i.o.NoInnerSpans }

// recording reports whether anything added to the operation's span would be kept.
func (o *Operation) recording() bool { return o.span != nil && o.span.IsRecording() }

// Retry notes that the operation is tried again now, as RetryAt does.
func (o *Operation) Retry(reason string, attempt int, delay time.Duration) {
	if o.i != nil {
		o.RetryAt(time.Now(), reason, attempt, delay)
	}
}

// RetryAt notes that the operation was tried again for the reason, for the attempt-th time and after the delay, as an
// event of its span. It may be called by several goroutines at once.
func (o *Operation) RetryAt(at time.Time, reason string, attempt int, delay time.Duration) {
	if o.i == nil || !o.outer {
		return
	}
	defer o.i.contain()
	if !o.recording() {
		return
	}
	a := attrs{c: o.i.o.Conventions}
	a.text(FieldRetryReason, reason)
	a.number(FieldRetryAttempt, int64(attempt))
	a.number(FieldRetryDelay, delay.Microseconds())
	o.span.AddEvent(eventRetry, trace.WithTimestamp(at), trace.WithAttributes(a.kv...))
}

// End closes the operation's span and records its duration. Call it after the outcome is known and before the caller
// gets it, with the context that StartOperation was given.
func (o *Operation) End(ctx context.Context, out Outcome) {
	if o.i != nil {
		o.EndAt(ctx, time.Now(), out)
	}
}

// EndAt is End for an operation that has instruments and has ended at end.
func (o *Operation) EndAt(ctx context.Context, end time.Time, out Outcome) {
	if o.outer {
		o.endSpan(end, out)
	}
	took := end.Sub(o.start)
	if !o.p.target.Parts {
		o.record(ctx, took, out.ErrorName)
	}
	if o.i.o.Hook != nil {
		o.tellHook(ctx, took, &out)
	}
}

func (o *Operation) endSpan(end time.Time, out Outcome) {
	defer o.i.contain()
	if o.recording() {
		a := attrs{c: o.i.o.Conventions}
		a.number(FieldRetries, int64(out.Retries))
		a.outcome(out.ErrorName)
		if out.ErrorName != "" {
			a.text(FieldStatus, out.Status)
		}
		o.span.SetAttributes(a.kv...)
		switch {
		case out.ErrorName == "":
			o.span.SetStatus(codes.Ok, "")
		case !out.Answer:
			o.span.SetStatus(codes.Error, out.ErrorName)
		}
	}
	o.span.End(trace.WithTimestamp(end))
}

func (o *Operation) record(ctx context.Context, d time.Duration, errorName string) {
	defer o.i.contain()
	ctx = lasting(ctx)
	if h := o.i.duration; h != nil && h.Enabled(ctx) {
		h.Record(ctx, d.Seconds(), o.p.stable.options(errorName)...)
	}
	if h := o.i.legacy; h != nil && h.Enabled(ctx) {
		h.Record(ctx, float64(d)/float64(time.Microsecond), o.p.legacy.options(errorName)...)
	}
}

// Dispatch says where one attempt goes. Server is the node's name in the config, never an alternate address; Peer is
// what the socket is connected to. Parts without a value are left out.
type Dispatch struct {
	Server, Peer, Local             string
	ServerPort, PeerPort, LocalPort int
	LocalID                         string // client id/connection id, as in HELLO
}

// DispatchSpan is one attempt under observation. The zero value is not observed.
type DispatchSpan struct {
	i     *Instruments
	span  trace.Span // nil: no span is recorded
	p     *prepared
	ctx   context.Context // of the operation
	peer  string
	start time.Time
}

// Attempt is how one attempt ended.
type Attempt struct {
	Opaque    uint32
	HasOpaque bool
	ContextID string // the client context id of a query; set instead of Opaque
	// What the socket was connected to and its own end, where that is known only now.
	Peer, Local         string
	PeerPort, LocalPort int
	ServerDuration      time.Duration // 0: not reported
	Status              string        // of an answer that is not success
	ErrorName           string        // as in Outcome
}

// Dispatch begins an attempt now. See DispatchAt.
func (o *Operation) Dispatch(ctx context.Context, d Dispatch) DispatchSpan {
	if o.i == nil {
		return DispatchSpan{}
	}
	return o.DispatchAt(ctx, d, time.Now())
}

// DispatchAt begins an attempt that began at start: for a key-value operation when its frame is appended to a
// connection's buffer. It makes a span unless the operation's own is not recording. It may be called by several
// goroutines at once.
func (o *Operation) DispatchAt(ctx context.Context, d Dispatch, start time.Time) DispatchSpan {
	if o.i == nil {
		return DispatchSpan{}
	}
	s := DispatchSpan{i: o.i, p: o.p, ctx: ctx, peer: d.Peer, start: start}
	if o.Recording() {
		s.span = o.dispatch(ctx, d, start)
	}
	return s
}

// Encoded tells that a request's body was made between the two times.
func (o *Operation) Encoded(ctx context.Context, start, end time.Time) {
	if o.i == nil || !o.Recording() {
		return
	}
	defer o.i.contain()
	_, span := o.i.tracer.Start(ctx, spanEncoding, trace.WithSpanKind(trace.SpanKindClient),
		trace.WithTimestamp(start), trace.WithAttributes(o.p.common...))
	span.End(trace.WithTimestamp(end))
}

func (o *Operation) dispatch(ctx context.Context, d Dispatch, start time.Time) (span trace.Span) {
	defer o.i.contain()
	a := attrs{c: o.i.o.Conventions}
	a.kv = append(a.kv, o.p.common...)
	a.transport()
	a.address(FieldServerAddress, FieldServerPort, d.Server, d.ServerPort)
	a.address(FieldPeerAddress, FieldPeerPort, d.Peer, d.PeerPort)
	a.address(FieldLocalAddress, FieldLocalPort, d.Local, d.LocalPort)
	a.text(FieldLocalID, d.LocalID)
	_, span = o.i.tracer.Start(ctx, spanDispatch, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(start),
		trace.WithAttributes(a.kv...))
	return span
}

func (a *attrs) address(host, port Field, name string, number int) {
	if name == "" {
		return
	}
	a.text(host, name)
	a.number(port, int64(number))
}

// End closes the attempt: when its answer has been matched, and also at a timeout, a cancel or a lost socket.
func (d DispatchSpan) End(out Attempt) {
	if d.i != nil {
		d.EndAt(time.Now(), out)
	}
}

// EndAt is End for an attempt that ended at end.
func (d DispatchSpan) EndAt(end time.Time, out Attempt) {
	if d.i == nil {
		return
	}
	if d.span != nil {
		d.endSpan(end, out)
	}
	d.record(end.Sub(d.start), out.ErrorName)
}

// lasting is ctx, unless it has ended: a meter may drop what comes with such a one.
func lasting(ctx context.Context) context.Context {
	if ctx.Err() != nil {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

func (d DispatchSpan) record(took time.Duration, errorName string) {
	defer d.i.contain()
	ctx := lasting(d.ctx)
	if h := d.i.attempts; h != nil && h.Enabled(ctx) {
		h.Record(ctx, took.Seconds(), d.p.attempt.options(attemptKey{d.peer, errorName})...)
	}
}

func (d DispatchSpan) endSpan(end time.Time, out Attempt) {
	defer d.i.contain()
	if d.span.IsRecording() {
		a := attrs{c: d.i.o.Conventions}
		if out.HasOpaque {
			a.number(FieldOperationID, int64(out.Opaque))
		} else {
			a.text(FieldOperationID, out.ContextID)
		}
		if out.ServerDuration > 0 {
			a.number(FieldServerDuration, out.ServerDuration.Microseconds())
		}
		a.text(FieldStatus, out.Status)
		a.address(FieldPeerAddress, FieldPeerPort, out.Peer, out.PeerPort)
		a.address(FieldLocalAddress, FieldLocalPort, out.Local, out.LocalPort)
		d.span.SetAttributes(a.kv...)
	}
	d.span.End(trace.WithTimestamp(end))
}
