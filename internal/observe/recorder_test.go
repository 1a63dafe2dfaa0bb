package observe_test

import (
	"context"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
)

// recordedSpan is a span that remembers what was done to it.
type recordedSpan struct {
	nooptrace.Span
	r       *tracers
	id      int
	parent  int // 0: none
	name    string
	kind    trace.SpanKind
	start   map[attribute.Key]attribute.Value // given at start
	late    map[attribute.Key]attribute.Value
	events  []map[attribute.Key]attribute.Value
	status  codes.Code
	ended   int
	elapsed time.Duration
	begin   time.Time
	off     bool
}

// tracers is a recording tracer provider and its tracer.
type tracers struct {
	nooptrace.TracerProvider
	mu     sync.Mutex
	scope  string
	config trace.TracerConfig
	spans  []*recordedSpan
	off    bool // spans are made but do not record
	broken bool // everything panics
}

type tracer struct {
	nooptrace.Tracer
	r *tracers
}

func (r *tracers) Tracer(name string, o ...trace.TracerOption) trace.Tracer {
	r.scope, r.config = name, trace.NewTracerConfig(o...)
	return tracer{r: r}
}

func toMap(kv []attribute.KeyValue) map[attribute.Key]attribute.Value {
	out := map[attribute.Key]attribute.Value{}
	for _, a := range kv {
		out[a.Key] = a.Value
	}
	return out
}

func (t tracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t.r.broken {
		panic("tracer")
	}
	t.r.mu.Lock()
	defer t.r.mu.Unlock()
	c := trace.NewSpanStartConfig(o...)
	s := &recordedSpan{
		r: t.r, id: len(t.r.spans) + 1, name: name, kind: c.SpanKind(), start: toMap(c.Attributes()),
		late: map[attribute.Key]attribute.Value{}, begin: c.Timestamp(), off: t.r.off,
	}
	if p, ok := trace.SpanFromContext(ctx).(*recordedSpan); ok {
		s.parent = p.id
	}
	t.r.spans = append(t.r.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *recordedSpan) IsRecording() bool { return !s.off && s.ended == 0 }

func (s *recordedSpan) SetAttributes(kv ...attribute.KeyValue) {
	for k, v := range toMap(kv) {
		s.late[k] = v
	}
}

func (s *recordedSpan) AddEvent(_ string, o ...trace.EventOption) {
	c := trace.NewEventConfig(o...)
	s.events = append(s.events, toMap(c.Attributes()))
}

func (s *recordedSpan) SetStatus(c codes.Code, _ string) { s.status = c }

func (s *recordedSpan) End(o ...trace.SpanEndOption) {
	if s.r.broken {
		panic("span")
	}
	s.ended++
	c := trace.NewSpanEndConfig(o...)
	s.elapsed = c.Timestamp().Sub(s.begin)
}

// meters is a recording meter provider with its histograms.
type meters struct {
	noopmetric.MeterProvider
	mu         sync.Mutex
	histograms map[string]*recordedHistogram
	broken     bool
	discard    bool // measurements are taken and dropped
}

type meter struct {
	noopmetric.Meter
	r *meters
}

type recordedHistogram struct {
	noopmetric.Float64Histogram
	r      *meters
	unit   string
	bounds []float64
	points []point
}

type point struct {
	value float64
	attrs map[attribute.Key]attribute.Value
}

func (r *meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{r: r} }

func (m meter) Float64Histogram(name string, o ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	c := metric.NewFloat64HistogramConfig(o...)
	h := &recordedHistogram{r: m.r, unit: c.Unit(), bounds: c.ExplicitBucketBoundaries()}
	if m.r.histograms == nil {
		m.r.histograms = map[string]*recordedHistogram{}
	}
	m.r.histograms[name] = h
	return h, nil
}

func (h *recordedHistogram) Enabled(context.Context) bool { return true }

func (h *recordedHistogram) Record(_ context.Context, v float64, o ...metric.RecordOption) {
	if h.r.broken {
		panic("meter")
	}
	if h.r.discard {
		return
	}
	h.r.mu.Lock()
	defer h.r.mu.Unlock()
	set := metric.NewRecordConfig(o).Attributes()
	h.points = append(h.points, point{v, toMap(set.ToSlice())})
}
