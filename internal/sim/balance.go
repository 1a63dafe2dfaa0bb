package sim

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
)

// balance is a hook and a provider of traces that counts: each operation that has begun ends once, and so does each
// span (P15).
type balance struct {
	noop.TracerProvider
	w      *world
	mu     sync.Mutex
	open   map[string]int // operations and spans that have begun and not ended, by name
	twice  map[string]int
	counts int
}

type balancedTracer struct {
	noop.Tracer
	b *balance
}

type balancedSpan struct {
	noop.Span
	b     *balance
	name  string
	ended bool
}

func newBalance(w *world) *balance {
	return &balance{w: w, open: map[string]int{}, twice: map[string]int{}}
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

// IsRecording implements trace.Span.
func (*balancedSpan) IsRecording() bool { return true }

// Tracer implements trace.TracerProvider.
func (b *balance) Tracer(string, ...trace.TracerOption) trace.Tracer { return balancedTracer{b: b} }

// Start implements trace.Tracer.
func (t balancedTracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context,
	trace.Span,
) {
	s := t.b.began("span " + name)
	return trace.ContextWithSpan(ctx, s), s
}

type balanceKey struct{}

// Begin implements core.OperationHook.
func (b *balance) Begin(ctx context.Context, of core.Operation) context.Context {
	if ctx.Value(balanceKey{}) == nil { // the End of a part would be taken for that of its whole
		b.w.behave(ctx, hooking, 0)
	}
	if b.w.tight && strings.HasPrefix(of.Operation, "range_scan_") {
		// A scan sends its next request at the instant at which the answer to the last one, or the end of its context,
		// wakes it. At that instant the connection frees the place of the last one, and it may have no other.
		sleep(context.Background(), b.w.d.between(time.Nanosecond, 100*time.Microsecond, text("scanning"),
			uint64(time.Now().UnixNano())))
	}
	return context.WithValue(ctx, balanceKey{}, b.began("operation "+of.Operation))
}

// End implements core.OperationHook.
func (b *balance) End(ctx context.Context, _ core.Operation, _ core.OperationEnd) {
	if s, ok := ctx.Value(balanceKey{}).(*balancedSpan); ok {
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
}
