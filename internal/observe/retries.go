package observe

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Names of the retry statistics. The names are this module's own. The first and the third have FieldRetryReason.
const (
	MetricRetries = "couchbase.client.retries"        // sent again, transparent resends apart
	MetricFailed  = "couchbase.client.retries.failed" // those retries and hedges whose attempt failed in turn
	// sent again without a server's logic having seen the request
	MetricTransparent = "couchbase.client.retries.transparent"
	MetricHedges      = "couchbase.client.hedges" // sent besides an attempt that was still out
	// the n-th resend or hedge of an operation, by FieldAtLeast
	MetricHistogram = "couchbase.client.retries.histogram"
)

const retryUnit = "{retry}"

// RetryCounts are the retry statistics of one kind of operation since the client was opened.
type RetryCounts struct {
	Service, Operation string
	Failed, Hedges     int64
	Histogram          []int64 // by the bounds that ExportRetries was given
	Reasons            []ReasonCounts
}

// ReasonCounts are those of Retries and Transparent that were made for one reason.
type ReasonCounts struct {
	Reason               string
	Retries, Transparent int64
}

// retryMeters are the instruments of the retry statistics.
type retryMeters struct {
	retries, failed, transparent, hedges, histogram metric.Int64ObservableCounter
}

// ExportRetries has the meter provider read the retry statistics whenever it collects. bounds are the lower bounds of
// RetryCounts.Histogram; read must not block. stop ends it, and is called once. Without metrics it does nothing.
func (i *Instruments) ExportRetries(bounds []int, read func() []RetryCounts) (stop func()) {
	stop = func() {}
	if i == nil || i.meter == nil {
		return stop
	}
	defer i.contain()
	var m retryMeters
	var all []metric.Observable
	for _, c := range []struct {
		to         *metric.Int64ObservableCounter
		name, what string
	}{
		{&m.retries, MetricRetries, "Requests that were sent again, those apart that no server logic had seen."},
		{&m.failed, MetricFailed, "Retries and hedges whose attempt failed in turn."},
		{&m.transparent, MetricTransparent, "Requests that were sent again without a server's logic having seen them."},
		{&m.hedges, MetricHedges, "Requests that were sent besides one that was still out."},
		{&m.histogram, MetricHistogram, "The n-th resend or hedge of an operation, in the last bucket whose bound is " +
			"at most n."},
	} {
		counter, err := i.meter.Int64ObservableCounter(c.name, metric.WithUnit(retryUnit),
			metric.WithDescription(c.what))
		if err != nil {
			return stop
		}
		*c.to = counter
		all = append(all, counter)
	}
	registered, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		for _, c := range read() {
			m.observe(o, i.o.Conventions, bounds, &c)
		}
		return nil
	}, all...)
	if err != nil || registered == nil {
		return stop
	}
	return func() {
		defer i.contain()
		_ = registered.Unregister()
	}
}

func (m *retryMeters) observe(o metric.Observer, c Conventions, bounds []int, n *RetryCounts) {
	a := attrs{c: c}
	a.text(FieldSystem, system)
	a.text(FieldService, n.Service)
	a.text(FieldOperation, n.Operation)
	set := metric.WithAttributeSet(attribute.NewSet(a.kv...))
	o.ObserveInt64(m.failed, n.Failed, set)
	o.ObserveInt64(m.hedges, n.Hedges, set)
	with := func(add func(*attrs)) metric.ObserveOption {
		b := attrs{c: c, kv: append([]attribute.KeyValue(nil), a.kv...)}
		add(&b)
		return metric.WithAttributeSet(attribute.NewSet(b.kv...))
	}
	for _, r := range n.Reasons {
		set := with(func(a *attrs) { a.text(FieldRetryReason, r.Reason) })
		if r.Retries != 0 {
			o.ObserveInt64(m.retries, r.Retries, set)
		}
		if r.Transparent != 0 {
			o.ObserveInt64(m.transparent, r.Transparent, set)
		}
	}
	for k, count := range n.Histogram {
		if count != 0 && k < len(bounds) {
			o.ObserveInt64(m.histogram, count, with(func(a *attrs) { a.number(FieldAtLeast, int64(bounds[k])) }))
		}
	}
}
