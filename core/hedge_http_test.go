package core_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// managed runs f in a bubble with a cluster of three nodes whose first request to a service goes to the first of nodes.
func managed(t *testing.T, text string, f func(t *testing.T, m *mock.Cluster, c *core.Cluster, nodes []string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Bucket("default", 64), mock.Virtual())
		c := open(t, m, func(c *core.Config) {
			c.Retry.JitterSource = func() float64 { return 0 }
			if text != "" {
				c.Retry.Policy = parsePolicy(t, text)
			}
		})
		require.NoError(t, c.Bucket("default").WaitReady(ctx(t)))
		var nodes []string
		for range 3 { // in turn
			resp, err := c.Do(ctx(t), &core.HTTPRequest{
				Method: http.MethodGet, Path: "/pools",
				Retry: retry.BestEffort{},
			})
			require.NoError(t, err)
			_, err = io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.NoError(t, resp.Body.Close())
			nodes = append(nodes, resp.Endpoint)
		}
		nodes[0], nodes[1], nodes[2] = nodes[2], nodes[0], nodes[1]
		m.DisconnectAll()
		time.Sleep(5 * time.Second) // no connection to a service is open any more
		f(t, m, c, nodes)
	})
}

func pools(t *testing.T, c *core.Cluster, h *core.Hedge, method string) (endpoint string, took time.Duration,
	err error,
) {
	t.Helper()
	began := time.Now()
	resp, err := c.Do(ctx(t), &core.HTTPRequest{Method: method, Path: "/pools", Hedge: h, Timeout: time.Second})
	took = time.Since(began)
	if err != nil {
		return "", took, err
	}
	body, err := io.ReadAll(resp.Body) // the answer is whole although the race is over
	require.NoError(t, err)
	require.NotEmpty(t, body)
	require.NoError(t, resp.Body.Close())
	return resp.Endpoint, took, nil
}

// GA6-17, GA6-33: requests that only read go to distinct nodes.
func TestAHedgedRequestGoesToDistinctNodes(t *testing.T) {
	managed(t, "", func(t *testing.T, m *mock.Cluster, c *core.Cluster, nodes []string) {
		h := &core.Hedge{MaxAttempts: 5, Delay: 20 * time.Millisecond}
		for n, silent := range nodes {
			at, took, err := pools(t, c, h, http.MethodGet)
			require.NoError(t, err)
			require.Equal(t, nodes[n], at)
			require.Equal(t, time.Duration(n)*20*time.Millisecond, took)
			time.Sleep(5 * time.Second)
			m.Network().Silence(silent)
		}
		_, took, err := pools(t, c, h, http.MethodGet)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, time.Second, took)
		s := c.RetryStats().Operations[retry.OperationKey{Service: "management", Operation: http.MethodGet}]
		require.EqualValues(t, 1+2+2, s.Hedges)
	})
}

// Failures that have a retry reason bring the next node at once; what is not idempotent is sent as ever.
func TestFailuresOfHedgedRequests(t *testing.T) {
	managed(t, "", func(t *testing.T, m *mock.Cluster, c *core.Cluster, nodes []string) {
		h := &core.Hedge{MaxAttempts: 3, Delay: time.Hour}
		m.Network().Refuse(nodes[0])
		at, took, err := pools(t, c, h, http.MethodGet)
		require.NoError(t, err)
		require.Equal(t, nodes[1], at)
		require.Zero(t, took)
		at, _, err = pools(t, c, &core.Hedge{
			MaxAttempts: 3, NonFatal: func(error) bool { return false },
			Delay: time.Hour,
		}, http.MethodGet)
		require.NoError(t, err, "a node that cannot be reached is never the end")
		require.Equal(t, nodes[1], at)
		for _, n := range nodes {
			m.Network().Silence(n)
		}
		time.Sleep(5 * time.Second)
		_, took, err = pools(t, c, h, http.MethodPost)
		require.ErrorIs(t, err, cberr.InvalidArgument, "what does not only read cannot be hedged")
		require.Zero(t, took)
	})
}

// GA6-3: the request's time is that of all its attempts together.
func TestAPolicyHedgesRequestsWithinTheirTime(t *testing.T) {
	const entry = `{"operationConfig":[{"name":[{"service":"management"}],"timeout":"2s","hedgingPolicy":{"maxAttempts":3,"hedgingDelay":"0.3s"}}]}`
	managed(t, entry, func(t *testing.T, m *mock.Cluster, c *core.Cluster, nodes []string) {
		m.Network().Silence(nodes[0])
		at, took, err := pools(t, c, nil, http.MethodGet)
		require.NoError(t, err)
		require.Equal(t, nodes[1], at)
		require.Equal(t, 300*time.Millisecond, took)
		m.Network().Silence(nodes[1])
		m.Network().Silence(nodes[2])
		time.Sleep(5 * time.Second)
		_, took, err = pools(t, c, nil, http.MethodGet)
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, time.Second, took)
		began := time.Now()
		_, err = c.Do(t.Context(), &core.HTTPRequest{Method: http.MethodGet, Path: "/pools"})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}
