package promises_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// TestTheStrategyCanBeOverriddenOnAPerOperationBasis: every public request to a service takes one, and is retried as it
// says.
func TestTheStrategyCanBeOverriddenOnAPerOperationBasis(t *testing.T) {
	own := policy.Limit{MaxAttempts: 4, Base: every(ms)}
	for name, c := range map[string]struct {
		service mock.Service
		run     func(ctx context.Context, w *world) error
	}{
		"query": {mock.QueryService, func(ctx context.Context, w *world) error {
			return drained(w.c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true, Retry: own}))
		}},
		"analytics": {mock.AnalyticsService, func(ctx context.Context, w *world) error {
			return drained(w.c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: true, Retry: own}))
		}},
		"search": {mock.SearchService, func(ctx context.Context, w *world) error {
			return drained(w.c.Search(ctx, &search.Request{
				Index: "i", Query: map[string]any{"match": "x"},
				Retry: own,
			}))
		}},
		"views": {mock.ViewsService, func(ctx context.Context, w *world) error {
			return drained(w.b.View(ctx, &views.Request{Design: "d", View: "v", Retry: own}))
		}},
		"raw": {mock.ManagementService, func(_ context.Context, w *world) error {
			_, err := w.do(core.HTTPRequest{Method: "GET", Retry: own, Timeout: time.Minute})
			return err
		}},
		"manifest": {mock.ManagementService, func(ctx context.Context, w *world) error {
			_, err := w.b.Manifest(ctx, core.ManagementOptions{Retry: own})
			return err
		}},
		"buckets": {mock.ManagementService, func(ctx context.Context, w *world) error {
			_, err := w.c.Buckets(ctx, core.ManagementOptions{Retry: own})
			return err
		}},
	} {
		virtual(t, func(t *testing.T, w *world) {
			sc := w.m.Script(mock.ServiceMatch{Service: c.service}, answered(503, "busy"))
			err := c.run(within(t, time.Minute), w)
			require.ErrorIs(t, err, retry.ErrExhausted, name)
			require.Equal(t, 4, sc.Fired(), name)
		})
	}
}

// TestTheOptionsOfARequestToTheManager: a timeout and a node of its own, beside the strategy.
func TestTheOptionsOfARequestToTheManager(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/pools/default/buckets"},
			answered(503, "busy"))
		began := time.Now()
		_, err := w.c.Buckets(context.Background(), core.ManagementOptions{Timeout: 3 * time.Second})
		require.ErrorIs(t, err, retry.ErrTimeout)
		require.Equal(t, 3*time.Second, time.Since(began))
		node := w.c.Endpoints(core.Management)[2]
		_, err = w.b.Manifest(context.Background(), core.ManagementOptions{Retry: never{}, Endpoint: node})
		require.Equal(t, node, failedWith(t, err).Endpoint)
	})
}

// TestAPingAsksOnce: its answer is what it is for.
func TestAPingAsksOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		s := w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/whoami"}, answered(503, "busy"))
		_, err := w.c.PingService(within(t, time.Minute), core.Management, w.c.Endpoints(core.Management)[0])
		require.Error(t, err)
		require.Equal(t, 1, s.Fired())
	})
}
