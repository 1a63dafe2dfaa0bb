package promises_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/trace"
	tnoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// telemetry is a provider of traces and of metrics that keeps what it is given.
type telemetry struct {
	tnoop.TracerProvider
	mu       sync.Mutex
	spans    []*span
	attempts []map[attribute.Key]string // of the attempts' histogram, one for each value
	callback metric.Callback
}

// span is one span, with the one that it is in.
type span struct {
	tnoop.Span
	t      *telemetry
	name   string
	parent *span
	begin  time.Time
	took   time.Duration
	late   map[attribute.Key]string
	events []event
	ended  int
}

// event is one of a span's.
type event struct {
	name string
	at   time.Time
	has  map[attribute.Key]string
}

type (
	tracer struct {
		tnoop.Tracer
		t *telemetry
	}
	meters struct {
		mnoop.MeterProvider
		t *telemetry
	}
	meter struct {
		mnoop.Meter
		t *telemetry
	}
	histogram struct {
		mnoop.Float64Histogram
		t    *telemetry
		name string
	}
	counter struct {
		mnoop.Int64ObservableCounter
		name string
	}
	registration struct {
		mnoop.Registration
		t *telemetry
	}
	collection struct {
		mnoop.Observer
		seen map[string]int64
	}
)

func texts(kv []attribute.KeyValue) map[attribute.Key]string {
	all := map[attribute.Key]string{}
	for _, a := range kv {
		all[a.Key] = a.Value.String()
	}
	return all
}

func (t *telemetry) Tracer(string, ...trace.TracerOption) trace.Tracer { return tracer{t: t} }

func (tr tracer) Start(ctx context.Context, name string, o ...trace.SpanStartOption) (context.Context, trace.Span) {
	c := trace.NewSpanStartConfig(o...)
	parent, _ := trace.SpanFromContext(ctx).(*span)
	s := &span{t: tr.t, name: name, parent: parent, begin: c.Timestamp(), late: texts(c.Attributes())}
	tr.t.mu.Lock()
	defer tr.t.mu.Unlock()
	tr.t.spans = append(tr.t.spans, s)
	return trace.ContextWithSpan(ctx, s), s
}

func (s *span) IsRecording() bool { return true }

func (s *span) SetAttributes(kv ...attribute.KeyValue) { maps.Copy(s.late, texts(kv)) }

func (s *span) AddEvent(name string, o ...trace.EventOption) {
	c := trace.NewEventConfig(o...)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.events = append(s.events, event{name, c.Timestamp(), texts(c.Attributes())})
}

func (s *span) End(o ...trace.SpanEndOption) {
	c := trace.NewSpanEndConfig(o...)
	s.t.mu.Lock()
	defer s.t.mu.Unlock()
	s.ended++
	s.took = c.Timestamp().Sub(s.begin)
}

func (m meters) Meter(string, ...metric.MeterOption) metric.Meter { return meter{t: m.t} }

func (m meter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram, error) {
	return histogram{t: m.t, name: name}, nil
}

func (m meter) Int64ObservableCounter(name string,
	_ ...metric.Int64ObservableCounterOption,
) (metric.Int64ObservableCounter, error) {
	return counter{name: name}, nil
}

func (m meter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.t.callback = f
	return registration{t: m.t}, nil
}

func (r registration) Unregister() error {
	r.t.callback = nil
	return nil
}

func (h histogram) Enabled(context.Context) bool { return true }

func (h histogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	if h.name != "couchbase.client.dispatch.duration" {
		return
	}
	set := metric.NewRecordConfig(o).Attributes()
	h.t.mu.Lock()
	defer h.t.mu.Unlock()
	h.t.attempts = append(h.t.attempts, texts(set.ToSlice()))
}

func (c collection) ObserveInt64(i metric.Int64Observable, v int64, o ...metric.ObserveOption) {
	set := metric.NewObserveConfig(o).Attributes()
	a := texts(set.ToSlice())
	if a["db.operation.name"] == "" { // of the client as a whole
		return
	}
	key := i.(counter).name + " " + a["couchbase.service"] + " " + a["db.operation.name"]
	if at := a["couchbase.retry.at_least"]; at != "" {
		key += " " + at
	}
	c.seen[key] += v
	if why := a["couchbase.retry.reason"]; why != "" {
		c.seen[key+" for "+why] += v
	}
}

// collect is what a reader of the metrics sees of the retry statistics.
func (t *telemetry) collect(ts *testing.T) map[string]int64 {
	ts.Helper()
	require.NotNil(ts, t.callback)
	c := collection{seen: map[string]int64{}}
	require.NoError(ts, t.callback(context.Background(), c))
	return c.seen
}

// take gives the attempts' spans and durations since it was called last, and checks that they are parts of one
// operation.
func (t *telemetry) take(ts *testing.T, operation string) (spans []*span, durations []map[attribute.Key]string) {
	ts.Helper()
	t.mu.Lock()
	defer t.mu.Unlock()
	outer := 0
	for _, s := range t.spans {
		require.Equal(ts, 1, s.ended, s.name)
		switch s.name {
		case operation:
			outer++
			continue
		case "request_encoding":
			continue
		}
		require.Equal(ts, "dispatch_to_server", s.name)
		require.NotNil(ts, s.parent)
		require.Equal(ts, operation, s.parent.name)
		spans = append(spans, s)
	}
	require.Equal(ts, 1, outer, "one operation")
	durations = t.attempts
	t.spans, t.attempts = nil, nil
	return spans, durations
}

func (t *telemetry) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spans, t.attempts = nil, nil
}

// observedClient is a client that is ready, and what its providers are given from then on.
func observedClient(t *testing.T, m *mock.Cluster) (*core.Cluster, *telemetry) {
	t.Helper()
	rec := &telemetry{}
	cl := client(t, m, func(cfg *core.Config) {
		cfg.Observe.TracerProvider, cfg.Observe.MeterProvider = rec,
			meters{t: rec}
	})
	require.NoError(t, cl.Bucket("default").WaitReady(within(t, time.Second)))
	rec.reset()
	return cl, rec
}

// Each retry is an attempt of its own in the metrics and spans of attempts, key-value as HTTP.
func TestEveryAttemptHasASpanAndADurationOfItsOwn(t *testing.T) {
	t.Run("key-value", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Inject(times(2, memd.StatusTmpFail, memd.OpSet))
			_, err := kv.Do(within(t, time.Second), cl.Bucket("default"), kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			spans, durations := rec.take(t, "upsert")
			require.Len(t, spans, 3)
			require.Len(t, durations, 3)
			for i, d := range durations {
				require.Equal(t, "upsert", d["db.operation.name"])
				require.Equal(t, "kv", d["couchbase.service"])
				require.NotEmpty(t, d["network.peer.address"])
				failed := i < 2
				require.Equal(t, failed, d["error.type"] == "TemporaryFailure", d)
				require.Equal(t, failed, spans[i].late["db.response.status_code"] == "0x86")
				require.NotEmpty(t, spans[i].late["couchbase.operation_id"])
				require.Less(t, spans[i].took, time.Millisecond, "the delays are no part of an attempt")
				if i > 0 {
					require.True(t, spans[i].begin.After(spans[i-1].begin))
				}
			}
		})
	})
	t.Run("key-value, an attempt that is lost and one that is out when the time is over", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Drop())
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 1}, mock.CloseBefore())
			_, err := kv.Do(context.Background(), cl.Bucket("default"), kv.Get{
				Key:    []byte("k"),
				Common: kv.Common{Timeout: 500 * time.Millisecond},
			})
			require.Error(t, err)
			_, durations := rec.take(t, "get")
			require.Len(t, durations, 2)
			require.Equal(t, "RequestCanceled", durations[0]["error.type"])
			require.Equal(t, "UnambiguousTimeout", durations[1]["error.type"])
		})
	})
	t.Run("key-value, many attempts", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Inject(times(50, memd.StatusTmpFail, memd.OpSet))
			_, err := kv.Do(within(t, 2*time.Second), cl.Bucket("default"), kv.Upsert{
				Key: []byte("k"), Common: kv.Common{Retry: retry.BestEffort{Backoff: retry.Constant(time.Millisecond)}},
			})
			require.NoError(t, err)
			_, durations := rec.take(t, "upsert")
			require.Len(t, durations, 51)
		})
	})
	t.Run("key-value, never sent", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Network().Refuse(m.Node(0).Addr())
			m.Network().Refuse(m.Node(1).Addr())
			m.Network().ResetAll()
			time.Sleep(10 * time.Millisecond)
			require.Error(t, get(within(t, time.Second), cl.Bucket("default"), "k"))
			spans, durations := rec.take(t, "get")
			require.Empty(t, spans)
			require.Empty(t, durations)
		})
	})
	t.Run("a query", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 2}, mock.Answer{Status: 429})
			require.NoError(t, calls["query"](within(t, time.Second), cl))
			spans, durations := rec.take(t, "query")
			require.Len(t, spans, 3)
			require.Len(t, durations, 3)
			require.Equal(t, "429", durations[0]["error.type"])
			require.Empty(t, durations[2]["error.type"])
		})
	})
	t.Run("a query, an attempt that is lost", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Close: true})
			require.NoError(t, drained(cl.Query(within(t, time.Second), &query.Request{
				Statement: "SELECT 1", Readonly: true,
			})))
			spans, durations := rec.take(t, "query")
			require.Len(t, spans, 2)
			require.Len(t, durations, 2)
			require.Equal(t, "RequestCanceled", durations[0]["error.type"])
			require.Empty(t, durations[1]["error.type"])
		})
	})
}

// Each hedge is an attempt of its own, too, of the one operation that is hedged.
func TestEveryHedgeHasASpanAndADurationOfItsOwn(t *testing.T) {
	t.Run("key-value", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			b := cl.Bucket("default")
			_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
			require.NoError(t, err)
			rec.reset()
			m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}}, mock.Status(memd.StatusTmpFail))
			_, err = kv.Do(within(t, time.Second), b, kv.Get{Key: []byte("k"), Hedge: &kv.Hedge{
				MaxAttempts: 2,
				Delay:       time.Second,
			}})
			require.NoError(t, err)
			spans, durations := rec.take(t, "get")
			require.Len(t, spans, 2)
			require.Len(t, durations, 2)
			require.NotEqual(t, durations[0]["network.peer.address"], durations[1]["network.peer.address"])
		}, mock.Replicas(1))
	})
	t.Run("HTTP", func(t *testing.T) {
		inBubble(t, func(t *testing.T, m *mock.Cluster) {
			cl, rec := observedClient(t, m)
			m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Status: 503})
			resp, err := cl.Do(within(t, time.Second), &core.HTTPRequest{
				Service: core.Query, Method: "POST", Path: "/query/service", Body: []byte(`{"statement":"SELECT 1"}`), ContentType: "application/json",
				Idempotent: true, Hedge: &core.Hedge{MaxAttempts: 2, Delay: time.Second},
			})
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			spans, durations := rec.take(t, "post")
			require.Len(t, spans, 2)
			require.Len(t, durations, 2)
		})
	})
}

// The statistics of retries are read through OpenTelemetry as through Cluster.RetryStats: retries made, retries failed,
// and the histogram of eight buckets, each resend in one of them.
func TestRetryStatisticsAreExported(t *testing.T) {
	inBubble(t, func(t *testing.T, m *mock.Cluster) {
		cl, rec := observedClient(t, m)
		b := cl.Bucket("default")
		_, err := kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		require.Empty(t, rec.collect(t), "nothing was retried")
		m.Inject(times(6, memd.StatusTmpFail, memd.OpSet))
		_, err = kv.Do(within(t, 2*time.Second), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
		m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, mock.Answer{Status: 429})
		require.NoError(t, calls["query"](within(t, time.Second), cl))
		seen := rec.collect(t)
		require.EqualValues(t, 6, seen["couchbase.client.retries kv upsert"])
		require.EqualValues(t, 5, seen["couchbase.client.retries.failed kv upsert"])
		require.EqualValues(t, 1, seen["couchbase.client.retries query query"])
		for at, n := range map[string]int64{"1": 1, "2": 1, "3": 1, "4": 1, "5": 2} {
			require.Equal(t, n, seen["couchbase.client.retries.histogram kv upsert "+at], at)
		}
		require.NotContains(t, seen, "couchbase.client.retries.histogram kv upsert 10")
		require.NoError(t, cl.Close())
		require.Nil(t, rec.callback, "the export ends with the client")
	})
}
