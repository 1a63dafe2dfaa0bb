package promises_test

import (
	"context"
	"net"
	"net/http"
	"strings"
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

// TestAnErrorSaysItsCauseOnce: an answer that is not retried, because the server or the strategy said so, or at a
// limit, or at the deadline, is in the error's text once, with its kind and its node.
func TestAnErrorSaysItsCauseOnce(t *testing.T) {
	const said = "the server's own words"
	do := map[mock.Service]func(context.Context, *core.Cluster, retry.Strategy, *core.Hedge) error{
		mock.QueryService: func(ctx context.Context, c *core.Cluster, s retry.Strategy, h *core.Hedge) error {
			_, err := c.Query(ctx, &query.Request{Statement: "SELECT 1", Readonly: true, Retry: s, Hedge: h})
			return err
		},
		mock.SearchService: func(ctx context.Context, c *core.Cluster, s retry.Strategy, h *core.Hedge) error {
			_, err := c.Search(ctx, &search.Request{Index: "i", Query: []byte("{}"), Retry: s, Hedge: h})
			return err
		},
		mock.AnalyticsService: func(ctx context.Context, c *core.Cluster, s retry.Strategy, h *core.Hedge) error {
			_, err := c.Analytics(ctx, &analytics.Request{Statement: "SELECT 1", Readonly: true, Retry: s, Hedge: h})
			return err
		},
		mock.ViewsService: func(ctx context.Context, c *core.Cluster, s retry.Strategy, h *core.Hedge) error {
			_, err := c.Bucket("default").View(ctx, &views.Request{Design: "d", View: "v", Retry: s, Hedge: h})
			return err
		},
		mock.ManagementService: func(ctx context.Context, c *core.Cluster, s retry.Strategy, _ *core.Hedge) error {
			_, err := c.Buckets(ctx, core.ManagementOptions{Retry: s})
			return err
		},
	}
	for _, by := range []struct {
		name, pushback string
		strategy       retry.Strategy
		hedge          *core.Hedge
		end            error
		timeout        time.Duration
	}{
		{"the server", "-1", nil, nil, nil, time.Minute},
		{"the strategy", "", stops{}, nil, nil, time.Minute},
		{"a limit", "", policy.Limit{Base: every(ms), MaxAttempts: 2}, nil, retry.ErrExhausted, time.Minute},
		{"the deadline", "", every(time.Hour), nil, retry.ErrTimeout, time.Second},
		{"the server, of a hedge", "-1", nil, &core.Hedge{MaxAttempts: 2}, nil, time.Minute},
	} {
		virtualOf(t, oneNode(), func(t *testing.T, w *world) {
			host, _, err := net.SplitHostPort(w.m.Node(0).Addr())
			require.NoError(t, err)
			answer := answered(http.StatusServiceUnavailable,
				`{"errors":[{"code":23000,"msg":"`+said+`","retry":true}],"status":"fatal"}`)
			if by.pushback != "" {
				answer.Header.Set(pushback, by.pushback)
			}
			for service, f := range do {
				w.m.Script(mock.ServiceMatch{Service: service}, answer)
				err := f(within(t, by.timeout), w.c, by.strategy, by.hedge)
				text := by.name + ": " + err.Error()
				_, after, _ := strings.Cut(err.Error(), ": ")
				kind, _, _ := strings.Cut(after, " on ")
				for _, once := range []string{said, kind, " on " + host + ":"} {
					require.Equal(t, 1, strings.Count(err.Error(), once), text)
				}
				require.NotContains(t, text, ": ,")
				require.False(t, strings.HasSuffix(text, ": "), text)
				if by.end != nil {
					require.ErrorIs(t, err, by.end, text)
					require.ErrorContains(t, err, ", because: "+by.end.Error())
				}
				info, ok := retry.InfoOf(err)
				require.True(t, ok, text)
				require.NotZero(t, info.Reason, text)
			}
		})
	}
}
