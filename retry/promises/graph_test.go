package promises_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are statements of the fourth document, and of the fifth about HTTP.

// TestARetriedRequestIsEquivalentToTheInitialOne, but for its number and for the time that a service is told to be
// left.
func TestARetriedRequestIsEquivalentToTheInitialOne(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(busy(1), busy(1), done())
		_, err := w.do(core.HTTPRequest{
			Method: "PUT", Path: "/x", Body: []byte(`{"a":1}`), ContentType: "application/json", Header: map[string]string{"X-Own": "y"}, Timeout: time.Minute,
		})
		require.NoError(t, err)
		log := w.m.ServiceLog(mock.ManagementService)
		var sent []mock.ServiceRequest
		for _, r := range log {
			if r.Path == "/x" {
				sent = append(sent, r)
			}
		}
		require.Len(t, sent, 3)
		for _, r := range sent[1:] {
			r.Header.Del("Retry-Attempt")
			require.Equal(t, sent[0].Method, r.Method)
			require.Equal(t, sent[0].Query, r.Query)
			require.Equal(t, sent[0].Header, r.Header)
			require.Equal(t, sent[0].Body, r.Body)
		}
		require.JSONEq(t, `{"a":1}`, string(sent[0].Body))
	})
}

func TestRetriesAreLimitedByMaximumElapsedTimeAndMaximumAttempts(t *testing.T) {
	for want, limit := range map[int]policy.Limit{
		3: {MaxAttempts: 3, Base: every(time.Second)}, 5: {MaxElapsed: 4500 * ms, Base: every(time.Second)},
		2: {MaxAttempts: 2, MaxElapsed: time.Hour, Base: every(time.Second)},
	} {
		virtual(t, func(t *testing.T, w *world) {
			sc := w.manager(answered(http.StatusTooManyRequests, ""))
			_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/x", Retry: limit, Timeout: time.Hour})
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.Equal(t, want, sc.Fired())
		})
	}
}

// TestWithoutRetryAfterTheOptionsOfTheConsumerElseTheDefault: the exponential backoff.
func TestWithoutRetryAfterTheOptionsOfTheConsumerElseTheDefault(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(429, ""), answered(429, ""), done())
		began := time.Now()
		_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/x", Retry: every(700 * ms), Timeout: time.Minute})
		require.NoError(t, err)
		require.Equal(t, []int{0, 700, 1400}, w.arrivals(mock.ManagementService, "/x", began))
	})
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(429, ""), answered(429, ""), answered(429, ""), answered(429, ""), done())
		began := time.Now()
		_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/x", Timeout: time.Minute})
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2, 4, 8}, w.arrivals(mock.ManagementService, "/x", began),
			"half of 1, 2, 4 and 8 ms, and at least one")
	})
}

// TestARequestThatWaitsForARetryHoldsUpNoOther: the goroutine of its own caller alone.
func TestARequestThatWaitsForARetryHoldsUpNoOther(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/slow"}, busy(60), done())
		ended := make(chan error, 1)
		go func() {
			_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/slow", Timeout: 2 * time.Minute})
			ended <- err
		}()
		time.Sleep(ms)
		began := time.Now()
		w.m.Script(mock.ServiceMatch{Service: mock.ManagementService, Path: "/other"}, done())
		for range 6 {
			_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/other"})
			require.NoError(t, err)
		}
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		require.NoError(t, <-ended)
	})
}

// TestARetryMayGoToAnotherNode: it is above the choice of a node.
func TestARetryMayGoToAnotherNode(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.QueryService, Times: 1}, answered(503, ""))
		require.NoError(t, drained(w.c.Query(within(t, time.Minute), &query.Request{
			Statement: "SELECT 1",
			Readonly:  true,
		})))
		log := w.m.ServiceLog(mock.QueryService)
		require.Len(t, log, 2)
		require.NotEqual(t, log[0].Node, log[1].Node)
	})
}

// TestNothingIsSentAgainAfterTheFirstRow: the caller has it, and the request is committed.
func TestNothingIsSentAgainAfterTheFirstRow(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		sc := w.m.Script(mock.ServiceMatch{Service: mock.QueryService}, mock.Answer{
			Rows:    []string{"1", "2", "3"},
			CutRows: 2,
		})
		rows, err := w.c.Query(within(t, time.Minute), &query.Request{Statement: "SELECT 1", Readonly: true})
		require.NoError(t, err)
		n := 0
		for rows.Next() {
			n++
		}
		require.Error(t, rows.Err())
		require.Positive(t, n)
		require.Equal(t, 1, sc.Fired())
	})
}

// TestErrorsBeforeTheFirstRowAreRetried: the service has sent its headers, with status 200, and an error list.
func TestErrorsBeforeTheFirstRowAreRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.m.Script(mock.ServiceMatch{Service: mock.QueryService},
			answered(200, `{"errors":[{"code":5000,"msg":"queryport.indexNotFound"}],"status":"fatal"}`), mock.Answer{Rows: []string{"1"}})
		rows, err := w.c.Query(within(t, time.Minute), &query.Request{Statement: "SELECT 1"})
		require.NoError(t, err)
		require.True(t, rows.Next())
		require.NoError(t, rows.Close())
		require.Len(t, w.m.ServiceLog(mock.QueryService), 2)
	})
}

func TestAPushbackDoesNotExtendMaxAttempts(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		sc := w.manager(busy(1))
		_, err := w.do(core.HTTPRequest{Method: "GET", Path: "/x", Timeout: time.Hour})
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 3, sc.Fired())
	}, file(t, retryPolicy("maxAttempts", "3", "retryableReasons", `[503]`)))
}

func TestAfterAPushbackTheBackoffBeginsAnew(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.manager(answered(429, ""), answered(429, ""), busy(1), answered(429, ""), done())
		began := time.Now()
		_, err := w.do(core.HTTPRequest{
			Method: "GET", Path: "/x", Timeout: time.Hour, Retry: retry.BestEffort{Backoff: retry.Exponential(100*ms,
				time.Minute, 2)},
		})
		require.NoError(t, err)
		require.Equal(t, []int{0, 100, 300, 1300, 1400}, w.arrivals(mock.ManagementService, "/x", began))
	})
}

// TestOnlyPayloadsThatCanBeRewoundAreRetried: the others have their response returned.
func TestOnlyPayloadsThatCanBeRewoundAreRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		sc := w.manager(answered(429, "busy"), done())
		_, err := w.do(core.HTTPRequest{Method: "PUT", Path: "/x", Body: []byte("x")})
		require.NoError(t, err)
		require.Equal(t, 2, sc.Fired())
		sc.Remove()
		sc = w.manager(answered(429, "busy"), done())
		_, err = w.do(core.HTTPRequest{Method: "PUT", Path: "/x", Stream: http.NoBody})
		var failed *core.ResponseError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "busy", string(failed.Body))
		require.Equal(t, 1, sc.Fired())
	})
}
