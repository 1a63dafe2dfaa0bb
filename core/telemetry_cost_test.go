package core_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	tnoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

// droppingMeters are a provider of metrics that takes values and keeps none.
type (
	droppingMeters    struct{ mnoop.MeterProvider }
	droppingMeter     struct{ mnoop.Meter }
	droppingHistogram struct{ mnoop.Float64Histogram }
)

func (droppingMeters) Meter(string, ...metric.MeterOption) metric.Meter { return droppingMeter{} }

func (droppingMeter) Float64Histogram(string, ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return droppingHistogram{}, nil
}

func (droppingHistogram) Enabled(context.Context) bool { return true }

// observed are ways to observe a client that must cost no memory.
func observed() map[string]func(*core.Config) {
	return map[string]func(*core.Config){
		"off": func(*core.Config) {},
		"a log, and with it the reports": func(c *core.Config) {
			c.Observe.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		},
		"a tracer that does nothing": func(c *core.Config) { c.Observe.TracerProvider = tnoop.NewTracerProvider() },
		"metrics":                    func(c *core.Config) { c.Observe.MeterProvider = droppingMeters{} },
	}
}

// What is observed without spans and hooks allocates nothing on the success path.
func TestObservingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	for name, change := range observed() {
		b, key := observedBucket(t, change), []byte("k")
		upsert := func() {
			if _, err := kv.Do(context.Background(), b, kv.Upsert{Key: key}); err != nil {
				t.Fatal(err)
			}
		}
		upsert()
		require.Zero(t, testing.AllocsPerRun(2000, upsert), name)
	}
}

// Attempts are counted without allocating, too, once a connection asks for reports.
func TestApplicationTelemetryAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates on its own")
	}
	ask, reports := make(chan struct{}), make(chan []byte)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		for range ask {
			_ = ws.Write(t.Context(), websocket.MessageBinary, []byte{0})
			_, report, _ := ws.Read(t.Context())
			reports <- report
		}
	}))
	t.Cleanup(collector.Close)
	t.Cleanup(func() { close(ask) })
	b, key := observedBucket(t, func(c *core.Config) {
		c.Observe.AppTelemetry.Endpoint = strings.Replace(collector.URL, "http", "ws", 1)
	}), []byte("k")
	ask <- struct{}{}
	<-reports // from here on attempts are counted
	require.Zero(t, testing.AllocsPerRun(2000, func() {
		if _, err := kv.Do(context.Background(), b, kv.Upsert{Key: key}); err != nil {
			t.Fatal(err)
		}
	}))
	ask <- struct{}{}
	require.Regexp(t, `sdk_kv_r_total\{[^}]*\} 2001\n`, string(<-reports))
}

// BenchmarkObserved is a whole write with each of these: what they differ in is the cost of observing.
func BenchmarkObserved(b *testing.B) {
	for name, change := range observed() {
		bucket, key := observedBucket(b, change), []byte("k")
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := kv.Do(context.Background(), bucket, kv.Upsert{Key: key}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func observedBucket(t testing.TB, change func(*core.Config)) *core.Bucket {
	t.Helper()
	cfg := core.Config{Seeds: core.SeedConfig{Hosts: []string{cannedNode(t)}}}
	change(&cfg)
	c, err := core.Open(context.Background(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	b := c.Bucket("default")
	require.NoError(t, b.WaitReady(context.Background()))
	return b
}
