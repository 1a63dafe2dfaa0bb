package core_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tnoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// telemetry records spans and durations.
type telemetry struct {
	tnoop.TracerProvider
	mu        sync.Mutex
	started   []string
	ended     map[string]codes.Code
	durations int
	attempts  [2]int // spans and durations of attempts
}

type testTracer struct {
	tnoop.Tracer
	t *telemetry
}

type testSpan struct {
	tnoop.Span
	t    *telemetry
	name string
	code codes.Code
}

func (t *telemetry) Tracer(string, ...trace.TracerOption) trace.Tracer { return testTracer{t: t} }

func (tr testTracer) Start(ctx context.Context, name string, _ ...trace.SpanStartOption) (context.Context, trace.Span) {
	tr.t.mu.Lock()
	defer tr.t.mu.Unlock()
	if name == "dispatch_to_server" {
		tr.t.attempts[0]++
		return ctx, trace.SpanFromContext(context.Background())
	}
	tr.t.started = append(tr.t.started, name)
	s := &testSpan{t: tr.t, name: name}
	return trace.ContextWithSpan(ctx, s), s
}

func (s *testSpan) IsRecording() bool                   { return true }
func (s *testSpan) SetStatus(c codes.Code, _ string)    { s.code = c }
func (s *testSpan) SetAttributes(...attribute.KeyValue) {}

func (s *testSpan) End(...trace.SpanEndOption) {
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.t.ended[s.name] = s.code
}

type testMeters struct {
	mnoop.MeterProvider
	t *telemetry
}

type testMeter struct {
	mnoop.Meter
	t *telemetry
}

type testHistogram struct {
	mnoop.Float64Histogram
	t    *telemetry
	name string
}

func (m testMeters) Meter(string, ...metric.MeterOption) metric.Meter { return testMeter{t: m.t} }

func (m testMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return testHistogram{t: m.t, name: name}, nil
}

func (h testHistogram) Record(context.Context, float64, ...metric.RecordOption) {
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	if h.name == "couchbase.client.dispatch.duration" {
		h.t.attempts[1]++
		return
	}
	h.t.durations++
}

func (h testHistogram) Enabled(context.Context) bool { return true }

// P15: every operation has one span that ends once, with the status of its outcome, and one duration, in all three
// forms, and so has each of its attempts; the client's own requests have none.
func TestEveryOperationHasOneSpanAndOneDuration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := &telemetry{ended: map[string]codes.Code{}}
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 8), mock.Virtual())
		b := open(t, m, func(c *core.Config) {
			c.Observe.TracerProvider, c.Observe.MeterProvider = rec,
				testMeters{t: rec}
		}).Bucket("default")
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		kv.Start(ctx(t), b, kv.Get{Key: []byte("k")}) // without a waiter
		done := make(chan error, 1)
		m.Inject(only(memd.OpTouch, 1), mock.Status(memd.StatusInternal))
		kv.Go(ctx(t), b, kv.Touch{Key: []byte("k")}, func(_ kv.MutationResult, err error) { done <- err })
		require.Error(t, <-done)
		_, err = kv.Do(ctx(t), b, kv.Remove{Key: []byte("absent")})
		require.Error(t, err)
		// The first of all waited for the map; these have nothing to wait for but their answer.
		_, err = kv.Do(ctx(t), b, kv.Insert{Key: []byte("another")})
		require.NoError(t, err)
		require.NoError(t, kv.GetMulti(ctx(t), b, kv.Common{}, [][]byte{[]byte("k")})[0].Err)
		synctest.Wait()
		rec.mu.Lock()
		defer rec.mu.Unlock()
		require.Len(t, rec.started, 7, "%v: one is of the batch, whose get has its own", rec.started)
		require.Len(t, rec.ended, 6, "two are of a get")
		require.Equal(t, 6, rec.durations)
		require.Equal(t, [2]int{6, 6}, rec.attempts, "each was sent once")
		failed := 0
		for _, code := range rec.ended {
			if code == codes.Error {
				failed++
			}
		}
		require.Equal(t, 1, failed) // "not found" is an answer
	})
}
