package observe

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Meter is an instrument that is read whenever the meter provider collects: a row of the table below.
type Meter uint8

// The meters.
const (
	MeterRetries Meter = iota
	MeterFailed
	MeterTransparent
	MeterHedges
	MeterHistogram
	MeterExhausted
	MeterThrottled
	MeterDelay
	MeterInFlight
	MeterQueued
	MeterParked
	MeterConnections
	MeterReconnects
	MeterOrphans
	MeterMaps
	MeterPool
	meterCount
)

// meters has the names, which are this module's own, and the units. A gauge may fall.
var meters = [meterCount]struct {
	name, unit, what string
	gauge            bool
}{
	MeterRetries: {
		"couchbase.client.retries", "{retry}",
		"Requests that were sent again, those apart that no server logic had seen.", false,
	},
	MeterFailed: {
		"couchbase.client.retries.failed", "{retry}", "Retries and hedges whose attempt failed in turn.", false,
	},
	MeterTransparent: {
		"couchbase.client.retries.transparent", "{retry}",
		"Requests that were sent again without a server's logic having seen them.", false,
	},
	MeterHedges: {
		"couchbase.client.hedges", "{retry}", "Requests that were sent besides one that was still out.", false,
	},
	MeterHistogram: {
		"couchbase.client.retries.histogram", "{retry}",
		"The n-th resend or hedge of an operation, in the last bucket whose bound is at most n.", false,
	},
	MeterExhausted: {
		"couchbase.client.retries.exhausted", "{operation}", "Operations that failed for a reason to retry.", false,
	},
	MeterThrottled: {
		"couchbase.client.retries.throttled", "{operation}", "Operations that a budget or a throttle ended.", false,
	},
	MeterDelay: {"couchbase.client.retries.delay", "us", "Time that operations waited for retries.", false},
	MeterInFlight: {
		"couchbase.client.requests.in_flight", "{request}", "Key-value requests that wait for an answer.", true,
	},
	MeterQueued: {
		"couchbase.client.requests.queued", "{request}", "Key-value requests that wait for a connection.", true,
	},
	MeterParked:      {"couchbase.client.requests.parked", "{request}", "Operations that wait for a retry.", true},
	MeterConnections: {"couchbase.client.connections", "{connection}", "Key-value connections, by state.", true},
	MeterReconnects: {
		"couchbase.client.reconnects", "{connection}", "Key-value connections that took the place of lost ones.", false,
	},
	MeterOrphans: {
		"couchbase.client.orphans", "{response}", "Responses to calls that had ended.", false,
	},
	MeterMaps: {"couchbase.client.config.changes", "{change}", "Cluster maps that were applied.", false},
	MeterPool: {"couchbase.client.http.connections", "{connection}", "Open connections to other services.", true},
}

// Fact is an attribute of a value: a text, or else a number.
type Fact struct {
	Field  Field
	Text   string
	Number int64
}

// Export has the meter provider read the meters whenever it collects: read gives each value to add, and must not block.
// stop ends it, and is called once. Without metrics it does nothing.
func (i *Instruments) Export(read func(add func(m Meter, v int64, facts ...Fact))) (stop func()) {
	stop = func() {}
	if i == nil || i.meter == nil {
		return stop
	}
	defer i.contain()
	var instruments [meterCount]metric.Int64Observable
	for m, row := range meters {
		var err error
		if row.gauge {
			instruments[m], err = i.meter.Int64ObservableUpDownCounter(row.name, metric.WithUnit(row.unit),
				metric.WithDescription(row.what))
		} else {
			instruments[m], err = i.meter.Int64ObservableCounter(row.name, metric.WithUnit(row.unit),
				metric.WithDescription(row.what))
		}
		if err != nil {
			return stop
		}
	}
	all := make([]metric.Observable, 0, meterCount)
	for _, o := range instruments {
		all = append(all, o)
	}
	registered, err := i.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		read(func(m Meter, v int64, facts ...Fact) {
			a := attrs{c: i.o.Conventions}
			a.text(FieldSystem, system)
			for _, f := range facts {
				if f.Number != 0 {
					a.number(f.Field, f.Number)
				} else {
					a.text(f.Field, f.Text)
				}
			}
			o.ObserveInt64(instruments[m], v, metric.WithAttributeSet(attribute.NewSet(a.kv...)))
		})
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
