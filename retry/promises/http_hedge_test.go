package promises_test

import (
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	mnoop "go.opentelemetry.io/otel/metric/noop"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// hedgedRequests sends a request that only reads to each service, hedged.
func hedgedRequests(ctx context.Context, w *world, h *core.Hedge) map[mock.Service]func() error {
	return map[mock.Service]func() error{
		mock.QueryService: func() error {
			return drained(w.c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true, Hedge: h}))
		},
		mock.AnalyticsService: func() error {
			return drained(w.c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: true, Hedge: h}))
		},
		mock.SearchService: func() error {
			return drained(w.c.Search(ctx, &search.Request{Index: "i", Query: map[string]any{"match": "x"}, Hedge: h}))
		},
		mock.ViewsService: func() error {
			return drained(w.b.View(ctx, &views.Request{Design: "d", View: "v", Hedge: h}))
		},
	}
}

var hedgedServices = []mock.Service{mock.QueryService, mock.AnalyticsService, mock.SearchService, mock.ViewsService}

// since is when requests came to a service, in milliseconds.
func (w *world) since(s mock.Service, began time.Time) []int {
	at := []int{}
	for _, r := range w.m.ServiceLog(s) {
		at = append(at, int(r.At.Sub(began)/ms))
	}
	return at
}

// TestTypedRequestsThatOnlyReadAreHedged: after each delay one more node is asked, and the first good answer wins.
func TestTypedRequestsThatOnlyReadAreHedged(t *testing.T) {
	for _, s := range hedgedServices {
		virtual(t, func(t *testing.T, w *world) {
			w.m.Script(mock.ServiceMatch{Service: s}, mock.Answer{Never: true}, mock.Answer{Never: true}, mock.Answer{})
			began := time.Now()
			require.NoError(t, hedgedRequests(within(t, time.Minute), w, &core.Hedge{
				MaxAttempts: 3,
				Delay:       100 * ms,
			})[s](), s)
			require.Equal(t, []int{0, 100, 200}, w.since(s, began), s)
			nodes := map[int]bool{}
			for _, r := range w.m.ServiceLog(s) {
				nodes[r.Node] = true
			}
			require.Len(t, nodes, 3, "distinct nodes")
		})
	}
}

// TestWhatDoesNotOnlyReadIsNotHedged: it is an error that names the field, and nothing is sent.
func TestWhatDoesNotOnlyReadIsNotHedged(t *testing.T) {
	h := &core.Hedge{MaxAttempts: 2}
	virtual(t, func(t *testing.T, w *world) {
		ctx := within(t, time.Minute)
		for _, err := range []error{
			drained(w.c.Query(ctx, &query.Request{Statement: "DELETE FROM a", Hedge: h})),
			drained(w.c.Analytics(ctx, &analytics.Request{Statement: "DELETE FROM a", Hedge: h})),
			drained(w.c.Query(ctx, &query.Request{
				Statement: "SELECT 1", Readonly: true, Hedge: h,
				Endpoint: w.c.Endpoints(core.Query)[0],
			})),
			func() error { _, err := w.do(core.HTTPRequest{Method: "PUT", Hedge: h}); return err }(),
		} {
			require.ErrorIs(t, err, cberr.InvalidArgument)
			require.ErrorContains(t, err, "Hedge")
		}
		require.Empty(t, w.m.ServiceLog(mock.QueryService, mock.AnalyticsService))
	})
}

// TestAPushbackDelaysTheNextHedgeExactlySoLong: neither at once, as after other failures, nor after the hedging delay;
// the one after it comes when that delay has passed too.
func TestAPushbackDelaysTheNextHedgeExactlySoLong(t *testing.T) {
	for _, s := range hedgedServices {
		virtual(t, func(t *testing.T, w *world) {
			w.m.Script(mock.ServiceMatch{Service: s}, busy(2), mock.Answer{Never: true}, mock.Answer{})
			began := time.Now()
			require.NoError(t, hedgedRequests(within(t, time.Minute), w, &core.Hedge{
				MaxAttempts: 3,
				Delay:       100 * ms,
			})[s](), s)
			require.Equal(t, []int{0, 2000, 2100}, w.since(s, began), s)
		})
	}
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(http.StatusTooManyRequests, "", pushback, "350"), done())
		began := time.Now()
		_, err := w.do(core.HTTPRequest{Method: "GET", Timeout: time.Minute, Hedge: &core.Hedge{
			MaxAttempts: 3,
			Delay:       time.Second,
		}})
		require.NoError(t, err)
		require.Equal(t, []int{0, 350}, w.arrivals(mock.ManagementService, "/x", began))
	})
}

// TestAPushbackNotToRetryEndsHedging: no further request is sent.
func TestAPushbackNotToRetryEndsHedging(t *testing.T) {
	for _, s := range hedgedServices {
		virtual(t, func(t *testing.T, w *world) {
			sc := w.m.Script(mock.ServiceMatch{Service: s}, answered(http.StatusTooManyRequests, "", pushback, "-1"),
				mock.Answer{})
			require.Error(t, hedgedRequests(within(t, time.Minute), w, &core.Hedge{
				MaxAttempts: 3,
				Delay:       100 * ms,
			})[s](), s)
			require.Equal(t, 1, sc.Fired(), s)
		})
	}
}

// TestHedgesAreCountedAsRetriesAndFailedOnesAsFailed: the first request is the operation, each further one a retry.
func TestHedgesAreCountedAsRetriesAndFailedOnesAsFailed(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, answered(503, ""), answered(503, ""), mock.Answer{})
		require.NoError(t, hedgedRequests(within(t, time.Minute), w, &core.Hedge{
			MaxAttempts: 3,
			Delay:       time.Second,
		})[mock.QueryService]())
		s := w.c.RetryStats().Operations[retry.OperationKey{Service: retry.Query, Operation: "query"}]
		require.EqualValues(t, 2, s.Hedges)
		require.EqualValues(t, 1, s.Failed, "of the two hedges one failed")
		require.EqualValues(t, 1, s.Histogram[0])
		require.EqualValues(t, 1, s.Histogram[1])
	})
}

// durations counts the durations of operations that were recorded.
type durations struct {
	mnoop.MeterProvider
	n atomic.Int32
}

type durationMeter struct {
	mnoop.Meter
	d *durations
}

type durationHistogram struct {
	mnoop.Float64Histogram
	d *durations
}

func (d *durations) Meter(string, ...metric.MeterOption) metric.Meter { return durationMeter{d: d} }

func (m durationMeter) Float64Histogram(name string, _ ...metric.Float64HistogramOption) (metric.Float64Histogram,
	error,
) {
	if name != "db.client.operation.duration" { // that of attempts
		return mnoop.Float64Histogram{}, nil
	}
	return durationHistogram{d: m.d}, nil
}

func (h durationHistogram) Enabled(context.Context) bool { return true }

func (h durationHistogram) Record(context.Context, float64, ...metric.RecordOption) { h.d.n.Add(1) }

// TestAHedgedRequestIsOneOperation: it has one duration, as it would have without hedges.
func TestAHedgedRequestIsOneOperation(t *testing.T) {
	count := func(h *core.Hedge) (n int32) {
		d := &durations{}
		virtual(t, func(t *testing.T, w *world) {
			w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, mock.Answer{Delay: time.Second})
			before := d.n.Load()
			require.NoError(t, hedgedRequests(within(t, time.Minute), w, h)[mock.QueryService]())
			time.Sleep(5 * time.Second)
			n = d.n.Load() - before
		}, func(c *core.Config) { c.Observe.MeterProvider = d })
		return n
	}
	unhedged := count(nil)
	require.Positive(t, unhedged)
	require.Equal(t, unhedged, count(&core.Hedge{MaxAttempts: 3, Delay: 100 * ms}))
}
