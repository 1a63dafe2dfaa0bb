package field_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
)

// keptMeters is a provider of metrics that keeps the values of each instrument by its attributes.
type keptMeters struct {
	noop.MeterProvider
	mu       sync.Mutex
	seen     map[string]int // values of histograms
	units    map[string]string
	callback metric.Callback
}

type (
	keepingMeter struct {
		noop.Meter
		of *keptMeters
	}
	keptHistogram struct {
		noop.Float64Histogram
		of   *keptMeters
		name string
	}
	keptCounter struct {
		noop.Int64ObservableCounter
		name string
	}
	keptGauge struct {
		noop.Int64ObservableUpDownCounter
		name string
	}
	keptValues struct {
		noop.Observer
		seen map[string]int64
	}
)

func (m *keptMeters) Meter(string, ...metric.MeterOption) metric.Meter { return keepingMeter{of: m} }

func (m keepingMeter) Float64Histogram(
	name string, o ...metric.Float64HistogramOption,
) (metric.Float64Histogram, error) {
	m.of.units[name] = metric.NewFloat64HistogramConfig(o...).Unit()
	return keptHistogram{of: m.of, name: name}, nil
}

func (m keepingMeter) Int64ObservableCounter(
	name string, _ ...metric.Int64ObservableCounterOption,
) (metric.Int64ObservableCounter, error) {
	return keptCounter{name: name}, nil
}

func (m keepingMeter) Int64ObservableUpDownCounter(
	name string, _ ...metric.Int64ObservableUpDownCounterOption,
) (metric.Int64ObservableUpDownCounter, error) {
	return keptGauge{name: name}, nil
}

func (m keepingMeter) RegisterCallback(f metric.Callback, _ ...metric.Observable) (metric.Registration, error) {
	m.of.callback = f
	return noop.Registration{}, nil
}

func (h keptHistogram) Enabled(context.Context) bool { return true }

func (h keptHistogram) Record(_ context.Context, _ float64, o ...metric.RecordOption) {
	set := metric.NewRecordConfig(o).Attributes()
	name := h.name
	for _, key := range []string{"db.operation.name", "db.operation", "error.type", "outcome"} {
		for _, a := range set.ToSlice() {
			if string(a.Key) == key {
				name += " " + a.Value.AsString()
			}
		}
	}
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	h.of.seen[name]++
}

func (v keptValues) ObserveInt64(i metric.Int64Observable, n int64, o ...metric.ObserveOption) {
	var name string
	switch i := i.(type) {
	case keptCounter:
		name = i.name
	case keptGauge:
		name = i.name
	}
	set := metric.NewObserveConfig(o).Attributes()
	for _, a := range set.ToSlice() {
		if a.Key == "couchbase.connection.state" || a.Key == "db.operation.name" {
			name += " " + a.Value.AsString()
		}
	}
	v.seen[name] += n
}

func metered(t *testing.T, m *mock.Cluster, change ...func(*core.Config)) (*core.Cluster, *keptMeters) {
	t.Helper()
	rec := &keptMeters{seen: map[string]int{}, units: map[string]string{}}
	c, _ := mocked(t, m, append([]func(*core.Config){func(cfg *core.Config) {
		cfg.Observe.TracerProvider, cfg.Observe.MeterProvider = nil, rec
	}}, change...)...)
	return c, rec
}

// Every operation has one duration, whatever form it has and however it ends: hedged and cancelled ones, too. What is
// made of parts has none of its own. In the mode for both conventions there is gocb's instrument as well.
func TestEveryOperationHasADuration_D154(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, rec := metered(t, m, func(cfg *core.Config) { cfg.Observe.Conventions = core.ConventionsBoth })
		b := c.Bucket("default")
		require.NoError(t, second(kv.Do(within(t, time.Second), b, kv.Upsert{Key: []byte("k"), Value: []byte("{}")})))
		hedged := kv.Get{Key: []byte("k"), Hedge: &kv.Hedge{MaxAttempts: 2}}
		require.NoError(t, second(kv.Do(within(t, time.Second), b, hedged)))
		require.NoError(t, kv.GetMulti(within(t, time.Second), b, kv.Common{}, [][]byte{[]byte("k")})[0].Err)
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpTouch}}, mock.Drop())
		require.True(t, kv.Start(context.Background(), b, kv.Touch{Key: []byte("k")}).Cancel())
		require.Error(t, second(kv.Do(within(t, time.Second), b, kv.GetAndTouch{})))
		require.NoError(t, drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})))
		require.Error(t, drain(c.Query(within(t, time.Second), &query.Request{})))
		synctest.Wait()
		for name, n := range map[string]int{
			"upsert": 1, "get": 2, "touch RequestCanceled": 1, "get_and_touch InvalidArgument": 1, "query": 1,
			"query InvalidArgument": 1,
		} {
			require.Equal(t, n, rec.of("db.client.operation.duration", name), name)
		}
		for _, name := range []string{"upsert Success", "touch RequestCanceled", "query Success"} {
			require.Equal(t, 1, rec.of("db.couchbase.operations", name), name)
		}
		require.Zero(t, rec.of("db.client.operation.duration", "batch"))
		require.Equal(t, "s", rec.units["db.client.operation.duration"])
		require.Equal(t, "us", rec.units["db.couchbase.operations"])
	})
}

func (m *keptMeters) of(instrument, name string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.seen[instrument+" "+name]
}

func (m *keptMeters) collect(t *testing.T) map[string]int64 {
	t.Helper()
	v := keptValues{seen: map[string]int64{}}
	require.NoError(t, m.callback(t.Context(), v))
	return v.seen
}

// What the client is made of now is read when the provider collects, also for an SDK that counts operations itself.
func TestTheClientsStateIsExported_D154(t *testing.T) {
	inMock(t, func(t *testing.T, m *mock.Cluster) {
		c, rec := metered(t, m, func(cfg *core.Config) { cfg.Observe.OuterIsCallers = true })
		b := c.Bucket("default")
		write := func() error {
			op := kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: time.Second}}
			return second(kv.Do(within(t, 10*time.Second), b, op))
		}
		require.NoError(t, write())
		seen := rec.collect(t)
		require.EqualValues(t, 2, seen["couchbase.client.connections connected"])
		require.Positive(t, seen["couchbase.client.config.changes"])
		require.Zero(t, seen["couchbase.client.requests.in_flight"])
		require.Zero(t, seen["couchbase.client.reconnects"])
		require.Zero(t, seen["couchbase.client.orphans"])
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Delay(1500*time.Millisecond))
		out := kv.Start(t.Context(), b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Timeout: time.Second}})
		synctest.Wait()
		require.EqualValues(t, 1, rec.collect(t)["couchbase.client.requests.in_flight"])
		require.Error(t, second(out.Wait(t.Context())))
		time.Sleep(time.Second)
		require.EqualValues(t, 1, rec.collect(t)["couchbase.client.orphans"])
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 1}, mock.Status(memd.StatusTmpFail),
			mock.Status(memd.StatusTmpFail))
		out = kv.Start(t.Context(), b, kv.Upsert{Key: []byte("k")})
		synctest.Wait()
		require.EqualValues(t, 1, rec.collect(t)["couchbase.client.requests.parked"])
		require.NoError(t, second(out.Wait(t.Context())))
		m.Network().ResetAll()
		time.Sleep(time.Second)
		require.NoError(t, write())
		seen = rec.collect(t)
		require.EqualValues(t, 2, seen["couchbase.client.reconnects"])
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
		require.Error(t, write())
		seen = rec.collect(t)
		require.EqualValues(t, 1, seen["couchbase.client.retries.exhausted upsert"])
		require.Positive(t, seen["couchbase.client.retries.delay upsert"])
		require.NoError(t, drain(c.Query(within(t, time.Second), &query.Request{Statement: "SELECT 1"})))
		require.EqualValues(t, 1, rec.collect(t)["couchbase.client.http.connections"])
	})
}
