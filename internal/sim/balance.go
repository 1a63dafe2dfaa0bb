package sim

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/internal/call"
)

// balance is a hook and a provider of traces that counts: each operation that has begun ends once, and so does each
// span, with the status that the end of its call has (P15).
type balance struct {
	noop.TracerProvider
	w      *world
	mu     sync.Mutex
	open   map[string]int // operations and spans that have begun and not ended, by name
	twice  map[string]int
	scans  map[string]int // requests of scans and calls of others that have begun, by name
	counts int
	spans  []*balancedSpan // those of operations
}

type balancedTracer struct {
	noop.Tracer
	b *balance
}

type balancedSpan struct {
	noop.Span
	b      *balance
	name   string
	ended  bool
	status codes.Code
	told   *balancedSpan // of an operation's span: the same operation as the hook knows it
	of     *entry        // of that: the call; nil where several have one context

	// of what the hook knows
	parts, spanned bool
	err            error
}

func newBalance(w *world) *balance {
	return &balance{w: w, open: map[string]int{}, twice: map[string]int{}, scans: map[string]int{}}
}

func (b *balance) began(name string) *balancedSpan {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open[name]++
	b.counts++
	return &balancedSpan{b: b, name: name}
}

// End implements trace.Span.
func (s *balancedSpan) End(...trace.SpanEndOption) {
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	if s.ended {
		s.b.twice[s.name]++
		return
	}
	s.ended = true
	s.b.open[s.name]--
}

// SetStatus implements trace.Span. As the SDK's spans do, it keeps to Ok.
func (s *balancedSpan) SetStatus(c codes.Code, what string) {
	s.b.w.says("a span", []byte(what))
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.status = max(s.status, c)
}

// SetAttributes implements trace.Span.
func (s *balancedSpan) SetAttributes(as ...attribute.KeyValue) {
	for _, a := range as {
		s.b.w.says("a span", []byte(a.Value.String()))
	}
}

// RecordError implements trace.Span.
func (s *balancedSpan) RecordError(err error, _ ...trace.EventOption) {
	s.b.w.says("a span", []byte(err.Error()))
}

// AddEvent implements trace.Span.
func (s *balancedSpan) AddEvent(name string, o ...trace.EventOption) {
	s.b.w.says("a span", []byte(name))
	cfg := trace.NewEventConfig(o...)
	s.SetAttributes(cfg.Attributes()...)
}

// IsRecording implements trace.Span.
func (*balancedSpan) IsRecording() bool { return true }

// Tracer implements trace.TracerProvider.
func (b *balance) Tracer(string, ...trace.TracerOption) trace.Tracer { return balancedTracer{b: b} }

// Start implements trace.Tracer.
func (t balancedTracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context,
	trace.Span,
) {
	s := t.b.began("span " + name)
	cfg := trace.NewSpanStartConfig(o...)
	s.SetAttributes(cfg.Attributes()...)
	told, _ := ctx.Value(balanceKey{}).(*balancedSpan)
	t.b.mu.Lock()
	defer t.b.mu.Unlock()
	if told != nil && !told.spanned { // its attempts' spans come later; where the hook has panicked it knows nothing
		told.spanned, s.told = true, told
		if e, ok := ctx.Value(callKey{}).(*entry); ok && !told.parts && !e.verb.composed() {
			s.of = e
		}
		t.b.spans = append(t.b.spans, s)
	}
	return trace.ContextWithSpan(ctx, s), s
}

type balanceKey struct{}

// Begin implements core.OperationHook.
func (b *balance) Begin(ctx context.Context, of core.Operation) context.Context {
	b.scanning(ctx, of)
	if ctx.Value(balanceKey{}) == nil { // the End of a part would be taken for that of its whole
		b.w.behave(ctx, hooking, 0)
	}
	if b.w.tight && strings.HasPrefix(of.Operation, scanPrefix) {
		// A scan sends its next request at the instant at which the answer to the last one, or the end of its context,
		// wakes it. At that instant the connection frees the place of the last one, and it may have no other.
		sleep(context.Background(), b.w.d.between(time.Nanosecond, 100*time.Microsecond, text("scanning"),
			uint64(time.Now().UnixNano())))
	}
	told := b.began("operation " + of.Operation)
	told.parts = of.Parts
	return context.WithValue(ctx, balanceKey{}, told)
}

// scanPrefix is before the names of the requests of a scan.
const scanPrefix = "range_scan_"

// scanning counts a request of a scan, or a call of one that consists of several. Neither says how many it makes.
func (b *balance) scanning(ctx context.Context, of core.Operation) {
	e, ok := ctx.Value(callKey{}).(*entry)
	if strings.HasPrefix(of.Operation, scanPrefix) || ok && e.verb.composed() && !of.Parts {
		b.mu.Lock()
		b.scans[of.Operation]++
		b.mu.Unlock()
	}
}

// End implements core.OperationHook.
func (b *balance) End(ctx context.Context, _ core.Operation, how core.OperationEnd) {
	if s, ok := ctx.Value(balanceKey{}).(*balancedSpan); ok {
		s.err = how.Err
		s.End()
	}
	b.w.behave(ctx, hooking, 0)
}

// checkBalance judges what was told of operations, once the client is closed.
func (w *world) checkBalance() {
	w.balance.mu.Lock()
	defer w.balance.mu.Unlock()
	for name, n := range w.balance.open {
		if n != 0 {
			w.report.violate("P15", "%s: %d have begun and not ended", name, n)
		}
	}
	for name, n := range w.balance.twice {
		w.report.violate("P15", "%s: %d have ended twice", name, n)
	}
	if w.balance.counts == 0 {
		w.report.violate("P15", "no operation was told of")
	}
	w.checkSpans()
}

// checkSpans judges the statuses of the operations' spans: by the ends of their calls, where each has a context of its
// own, and by what the hook was told.
func (w *world) checkSpans() {
	for _, s := range w.balance.spans {
		if s.told.ended && (s.status == codes.Ok) != (s.told.err == nil) {
			w.report.violate("P15", "%s: its status is %v, the hook was told %v", s.name, s.status, s.told.err)
			return
		}
		if s.of == nil || s.of.ends.Load() == 0 {
			continue
		}
		if want := statusAfter(s.of.err); s.status != want {
			w.report.violateWith("P15", func() []string { return w.history(s.of.key) },
				"%s: the status of its span is %v, not %v", s.of, s.status, want)
			return
		}
	}
}

// statusAfter is the status of the span of a call that ended with err: none for an answer about the document.
func statusAfter(err error) codes.Code {
	var e *call.Error
	switch {
	case err == nil:
		return codes.Ok
	case errors.As(err, &e) && e.Answered && !errors.Is(err, cberr.Timeout) &&
		!errors.Is(err, cberr.TemporaryFailure) && !errors.Is(err, cberr.InternalServerFailure):
		return codes.Unset
	}
	return codes.Error
}
