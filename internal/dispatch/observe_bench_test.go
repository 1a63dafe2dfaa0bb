package dispatch

import (
	"context"
	"testing"

	"go.opentelemetry.io/otel/metric"
	noopmetric "go.opentelemetry.io/otel/metric/noop"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/internal/observe"
	"github.com/couchcore/couchcore/memd"
)

type (
	dropping          struct{ noopmetric.MeterProvider }
	droppingMeter     struct{ noopmetric.Meter }
	droppingHistogram struct{ noopmetric.Float64Histogram }
)

func (dropping) Meter(string, ...metric.MeterOption) metric.Meter { return droppingMeter{} }

func (droppingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return droppingHistogram{}, nil
}

func (droppingHistogram) Enabled(context.Context) bool { return true }

// BenchmarkObserve is what metrics cost a call that succeeds at once, but for the meter's own work: the operation, the
// attempt, and their durations.
func BenchmarkObserve(b *testing.B) {
	r := &Router{o: Options{Bucket: "b", Instruments: observe.New(observe.Options{MeterProvider: dropping{}})}}
	c, via := call.NewCall(), &call.Via{Endpoint: "10.0.0.1:11210", Local: "a/b", LocalAddr: "10.0.0.2:1"}
	c.Req.Opcode, c.Req.Key = memd.OpGet, []byte("k")
	if err := c.Prepare(b.Context()); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		r.observe(c)
		w := c.Watcher()
		w.Sent(via, 1)
		w.Done(nil)
	}
}

// BenchmarkReportOff is what the reports cost a call that was answered at once.
func BenchmarkReportOff(b *testing.B) {
	c := call.NewCall()
	b.ReportAllocs()
	for b.Loop() {
		_ = c.Told(nil)
	}
}
