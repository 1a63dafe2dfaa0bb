package promises_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// failedWith is the failed response that an error of a request has.
func failedWith(t *testing.T, err error) *core.ResponseError {
	t.Helper()
	var failed *core.ResponseError
	require.ErrorAs(t, err, &failed)
	return failed
}

// overloaded is an answer that tells to come back, with a header and a body that the caller wants.
func overloaded(status int) mock.Answer {
	return answered(status, `{"why":"overload"}`, "X-Reason", "overload", "Content-Type", "application/json")
}

// TestAfterRetriesEndTheFailedResponseIsTheCallers: status, headers and body, whatever has ended the retries, and the
// same way when there could be none.
func TestAfterRetriesEndTheFailedResponseIsTheCallers(t *testing.T) {
	body := func() io.ReadCloser { return io.NopCloser(strings.NewReader("x")) }
	for name, c := range map[string]struct {
		status, sent int // requests, 0: more than one
		r            core.HTTPRequest
		ended        error
	}{
		"a limit": {
			503, 3,
			core.HTTPRequest{Method: "GET", Retry: policy.Limit{MaxAttempts: 3}},
			retry.ErrExhausted,
		},
		"the deadline":          {503, 0, core.HTTPRequest{Method: "GET"}, cberr.UnambiguousTimeout},
		"the strategy":          {429, 1, core.HTTPRequest{Method: "PUT", Retry: never{}}, nil},
		"it was not safe, 503":  {503, 1, core.HTTPRequest{Method: "PUT"}, nil},
		"it was not safe, 504":  {504, 1, core.HTTPRequest{Method: "PUT"}, nil},
		"the body is gone":      {429, 1, core.HTTPRequest{Method: "PUT", Stream: body()}, nil},
		"the body is gone, 503": {503, 1, core.HTTPRequest{Method: "PUT", Stream: body(), Idempotent: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(t *testing.T, w *world) {
				sc := w.manager(overloaded(c.status))
				c.r.Timeout = 5 * time.Second
				_, err := w.do(c.r)
				failed := failedWith(t, err)
				require.Equal(t, c.status, failed.Status)
				require.Equal(t, []string{"overload"}, failed.Header["X-Reason"])
				require.JSONEq(t, `{"why":"overload"}`, string(failed.Body))
				require.False(t, failed.Truncated)
				require.NotEmpty(t, failed.Endpoint)
				if c.ended != nil {
					require.ErrorIs(t, err, c.ended)
				} else {
					require.ErrorIs(t, err, cberr.TemporaryFailure)
				}
				if c.sent > 0 {
					require.Equal(t, c.sent, sc.Fired())
				} else {
					require.Greater(t, sc.Fired(), 1)
				}
			})
		})
	}
}

// never is a strategy that retries nothing.
type never struct{}

func (never) RetryAfter(_ context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
	return retry.Stop()
}

// TestTheFailedResponseOfATypedRequestIsTheCallers: the same error type in the tree of every service's own.
func TestTheFailedResponseOfATypedRequestIsTheCallers(t *testing.T) {
	for s, run := range rowServices {
		for _, status := range []int{503, 429, 400} {
			virtual(t, func(t *testing.T, w *world) {
				w.m.Script(mock.ServiceMatch{Service: s}, overloaded(status))
				failed := failedWith(t, run(within(t, 3*time.Second), w.c))
				require.Equal(t, status, failed.Status, s)
				require.Equal(t, []string{"overload"}, failed.Header["X-Reason"])
				require.JSONEq(t, `{"why":"overload"}`, string(failed.Body))
			})
		}
	}
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/pools/default/buckets"}, overloaded(400))
		_, err := w.c.Buckets(within(t, 3*time.Second))
		require.Equal(t, 400, failedWith(t, err).Status)
		_, err = w.b.Manifest(within(t, 3*time.Second))
		require.JSONEq(t, `{"why":"overload"}`, string(failedWith(t, err).Body))
	})
	for _, status := range []int{400, 401, 404, 500, 503} {
		c := services(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Reason", "overload")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"why":"overload"}`)
		})
		_, err := c.PingService(within(t, 3*time.Second), core.Query, "")
		failed := failedWith(t, err)
		require.Equal(t, status, failed.Status)
		require.Equal(t, []string{"overload"}, failed.Header["X-Reason"])
		require.JSONEq(t, `{"why":"overload"}`, string(failed.Body))
		require.ErrorContains(t, err, " on "+failed.Endpoint, "the node that was asked")
	}
	// An error list may come with a good status, and behind the rows.
	for _, rows := range []string{`[]`, `[1]`} {
		virtual(t, func(t *testing.T, w *world) {
			body := `{"results":` + rows + `,"errors":[{"code":3000,"msg":"syntax"}],"status":"fatal"}`
			w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, answered(200, body, "X-Reason", "syntax"))
			failed := failedWith(t, drained(w.c.Query(within(t, time.Second), &query.Request{Statement: "SELEC"})))
			require.Equal(t, 200, failed.Status)
			require.Equal(t, []string{"syntax"}, failed.Header["X-Reason"])
			require.Contains(t, string(failed.Body), `"fatal"`)
		})
	}
}

// TestTheFailedResponseIsBounded: a body of any size does not become an error of that size.
func TestTheFailedResponseIsBounded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(503, string(bytes.Repeat([]byte("x"), 4<<20))))
		_, err := w.do(core.HTTPRequest{Method: "PUT"})
		failed := failedWith(t, err)
		require.Len(t, failed.Body, 64<<10)
		require.True(t, failed.Truncated)
		require.Less(t, len(err.Error()), 1000)
	})
}

// TestOtherStatusesAreAnAnswer: a raw request's caller reads them, bodies of any size included.
func TestOtherStatusesAreAnAnswer(t *testing.T) {
	for _, status := range []int{200, 202, 400, 401, 404, 409, 500, 502} {
		virtual(t, func(t *testing.T, w *world) {
			w.manager(answered(status, strings.Repeat("x", 2<<20)))
			resp, err := w.c.Do(within(t, time.Minute), &core.HTTPRequest{Method: http.MethodPut, Path: "/x"})
			require.NoError(t, err)
			defer resp.Body.Close()
			require.Equal(t, status, resp.Status)
			body, err := io.ReadAll(resp.Body)
			require.NoError(t, err)
			require.Len(t, body, 2<<20)
		})
	}
}
