package observe

import (
	"context"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	nooptrace "go.opentelemetry.io/otel/trace/noop"
)

// The instrumentation scope (RFC 67: prefix and language) and the schema that the stable names belong to.
const (
	ScopeName = "com.couchbase.client.go"
	SchemaURL = "https://opentelemetry.io/schemas/1.43.0"
)

// Names and units of the two histograms of operation durations.
const (
	MetricDuration       = "db.client.operation.duration"
	MetricDurationUnit   = "s"
	MetricLegacyDuration = "db.couchbase.operations"
	MetricLegacyUnit     = "us"
	// MetricAttempt is the histogram of the durations of single attempts; the name is this module's own.
	MetricAttempt = "couchbase.client.dispatch.duration"
)

// durationBounds is the advice for the histogram's buckets in seconds: the conventions start at 1 ms, and key-value
// operations answer in 50 to 500 us. A View of the application still wins.
func durationBounds() []float64 {
	return []float64{
		0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
		75,
	}
}

// preparedLimit is how many targets keep prepared attributes; beyond it the collection is left out.
const preparedLimit = 1000

// Options of New. The zero value observes nothing.
type Options struct {
	TracerProvider trace.TracerProvider // nil or no-op: no spans
	MeterProvider  metric.MeterProvider // nil or no-op: no metrics
	Version        string               // of this module
	Conventions    Conventions
	NoInnerSpans   bool   // operation spans only
	OuterIsCallers bool   // an SDK on top makes the operation spans and durations
	Scope          string // of the instruments; "" means ScopeName and Version
	ScopeVersion   string // of a Scope that is given
	Hook           Hook   // nil: none is told
	Log            Log    // for the warnings that are given once
}

// Instruments makes the spans and metrics of one cluster object. A nil *Instruments makes none, and every method of it
// is a nil check: no allocation, no clock. All methods may be used by several goroutines at once and do not block
// longer than the providers do. A provider that panics is contained and counted.
type Instruments struct {
	tracer   trace.Tracer
	duration metric.Float64Histogram // nil: off
	legacy   metric.Float64Histogram
	attempts metric.Float64Histogram // of single attempts; nil: off
	meter    metric.Meter            // nil: no metrics
	o        Options

	panics   atomic.Int64
	labels   atomic.Int32 // counts the changes of the cluster's
	told     atomic.Bool  // the attribute limit was reported
	prepared atomic.Pointer[map[Target]*prepared]

	mu      sync.Mutex // guards what follows and replacing prepared
	cluster clusterLabels
}

type clusterLabels struct{ name, uuid string }

// New builds the instruments, or returns nil when there is nothing to observe with.
func New(o Options) *Instruments {
	if o.Scope == "" {
		o.Scope, o.ScopeVersion = ScopeName, o.Version
	}
	if _, off := o.TracerProvider.(nooptrace.TracerProvider); off {
		o.TracerProvider = nil
	}
	if _, off := o.MeterProvider.(noopmetric.MeterProvider); off {
		o.MeterProvider = nil
	}
	i := &Instruments{o: o}
	i.prepared.Store(new(map[Target]*prepared))
	i.openTracer()
	i.openMeter()
	if i.tracer == nil && i.meter == nil && o.Hook == nil {
		return nil
	}
	return i
}

func (i *Instruments) openTracer() {
	if i.o.TracerProvider == nil {
		return
	}
	defer i.contain()
	i.tracer = i.o.TracerProvider.Tracer(i.o.Scope,
		trace.WithInstrumentationVersion(i.o.ScopeVersion), trace.WithSchemaURL(SchemaURL))
}

func (i *Instruments) openMeter() {
	if i.o.MeterProvider == nil {
		return
	}
	defer i.contain()
	meter := i.o.MeterProvider.Meter(i.o.Scope,
		metric.WithInstrumentationVersion(i.o.ScopeVersion), metric.WithSchemaURL(SchemaURL))
	i.meter = meter
	i.attempts = histogram(meter, MetricAttempt, MetricDurationUnit, wholeAttempt, durationBounds())
	if i.o.OuterIsCallers {
		return
	}
	if i.o.Conventions != Legacy {
		i.duration = histogram(meter, MetricDuration, MetricDurationUnit, wholeOperation, durationBounds())
	}
	if i.o.Conventions != Stable {
		var bounds []float64
		for _, s := range durationBounds() {
			bounds = append(bounds, s*1e6)
		}
		i.legacy = histogram(meter, MetricLegacyDuration, MetricLegacyUnit, wholeOperation, bounds)
	}
}

// What the histograms are of.
const (
	wholeOperation = "Duration of an operation, all attempts and waits included."
	wholeAttempt   = "Duration of one attempt of an operation, each retry and hedge being one."
)

func histogram(m metric.Meter, name, unit, what string, bounds []float64) metric.Float64Histogram {
	h, err := m.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what),
		metric.WithExplicitBucketBoundaries(bounds...))
	if err != nil {
		return nil
	}
	return h
}

// Panics returns how often a provider panicked.
func (i *Instruments) Panics() int64 {
	if i == nil {
		return 0
	}
	return i.panics.Load()
}

// contain is deferred around every call of a provider.
func (i *Instruments) contain() {
	if recover() == nil {
		return
	}
	if i.panics.Add(1) == 1 {
		i.o.Log.Warn(context.Background(), MsgTelemetryPanicked)
	}
}

// SetCluster names the cluster for all spans and metrics from now on. Call it with every config; it does nothing when
// nothing has changed.
func (i *Instruments) SetCluster(name, uuid string) {
	if i == nil {
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if l := (clusterLabels{name, uuid}); l != i.cluster {
		i.cluster = l
		i.labels.Add(1)
		i.prepared.Store(new(map[Target]*prepared))
	}
}
