package sim

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"
)

// meters is a provider of metrics. No password may be in what they are labelled with (P13), and as many durations of
// operations are measured as calls have ended (P15).
type meters struct {
	noop.MeterProvider
	w *world

	mu        sync.Mutex
	durations map[string]int // of operations, by name
	labels    map[attribute.Distinct]bool
	collect   []*registration // in their order
}

func newMeters(w *world) *meters {
	return &meters{w: w, durations: map[string]int{}, labels: map[attribute.Distinct]bool{}}
}

// Meter implements metric.MeterProvider.
func (m *meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{of: m} }

type meter struct {
	noop.Meter
	of *meters
}

// Float64Histogram implements metric.Meter.
func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return durations{of: m.of, operations: name == "db.client.operation.duration"}, nil
}

// RegisterCallback implements metric.Meter.
func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.of.mu.Lock()
	defer m.of.mu.Unlock()
	r := &registration{of: m.of, f: f}
	m.of.collect = append(m.of.collect, r)
	return r, nil
}

// registration is a function that gives what is measured.
type registration struct {
	noop.Registration
	of *meters
	f  metric.Callback
}

// Unregister implements metric.Registration.
func (r *registration) Unregister() error {
	r.of.mu.Lock()
	defer r.of.mu.Unlock()
	r.of.collect = slices.DeleteFunc(r.of.collect, func(o *registration) bool { return o == r })
	return nil
}

// durations is a histogram.
type durations struct {
	noop.Float64Histogram
	of         *meters
	operations bool // not attempts
}

// Enabled implements metric.Float64Histogram.
func (durations) Enabled(context.Context) bool { return true }

// Record implements metric.Float64Histogram.
func (d durations) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	set := metric.NewRecordConfig(o).Attributes()
	d.of.labelled(set)
	if name, ok := set.Value("db.operation.name"); ok && d.operations {
		d.of.mu.Lock()
		d.of.durations[name.AsString()]++
		d.of.mu.Unlock()
	}
}

// labelled looks at labels that it has not seen.
func (m *meters) labelled(set attribute.Set) {
	m.mu.Lock()
	seen := m.labels[set.Equivalent()]
	m.labels[set.Equivalent()] = true
	m.mu.Unlock()
	if !seen {
		m.w.says("a metric", []byte(set.Encoded(attribute.DefaultEncoder())))
	}
}

// collected takes what is measured when the metrics are collected.
type collected struct {
	noop.Observer
	of *meters
}

// ObserveInt64 implements metric.Observer.
func (o collected) ObserveInt64(_ metric.Int64Observable, _ int64, opts ...metric.ObserveOption) {
	o.of.labelled(metric.NewObserveConfig(opts).Attributes())
}

// read collects the metrics.
func (m *meters) read() {
	m.mu.Lock()
	rs := slices.Clone(m.collect)
	m.mu.Unlock()
	for _, r := range rs {
		if err := r.f(context.Background(), collected{of: m}); err != nil {
			m.w.report.violate("setup", "%v", err)
		}
	}
}

// checkDurations judges how many there are.
func (w *world) checkDurations() {
	calls := maps.Clone(w.balance.scans)
	for _, e := range w.ledger {
		if !e.verb.composed() {
			calls[strings.ReplaceAll(verbTable[e.verb].operation, "-", "_")]++
		}
	}
	for _, a := range w.askings() {
		calls[serviceNames[a.of]]++
	}
	for name, n := range calls {
		if got := w.meters.durations[name]; got != n {
			w.report.violate("P15", "%s: %d durations were measured, of %d calls", name, got, n)
		}
	}
}
