package field_test

import (
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// shuttingDown is how a query node answers while it leaves: with an error list, beside the status that says it all.
const shuttingDown = `{"errors":[{"code":1180,"msg":"Service shutting down"}],"status":"fatal"}`

// TestANodeThatShutsDownIsLeftForAnother_D136: question Q18 of the cases. A read is sent again as it would be without
// the list; a write only for the codes that the RFC lists.
func TestANodeThatShutsDownIsLeftForAnother_D136(t *testing.T) {
	for _, readonly := range []bool{false, true} {
		var requests atomic.Int32
		c := services(t, func(w http.ResponseWriter, _ *http.Request) {
			if requests.Add(1) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				_, _ = io.WriteString(w, shuttingDown)
				return
			}
			_, _ = io.WriteString(w, `{"results":[],"status":"success"}`)
		})
		err := runQuery(within(t, 2*time.Second), c, &query.Request{Statement: "SELECT 1", Readonly: readonly})
		if readonly {
			require.NoError(t, err)
			require.EqualValues(t, 2, requests.Load())
			continue
		}
		require.Error(t, err)
		require.False(t, ambiguous(t, err), "%v", err)
		require.EqualValues(t, 1, requests.Load())
	}
	// What the list says of a limit, or of a timeout, counts more than the status.
	for body, kind := range map[string]error{
		`{"errors":[{"code":1191,"msg":"too many requests"}]}`: cberr.RateLimited,
		`{"errors":[{"code":1080,"msg":"timeout"}]}`:           cberr.UnambiguousTimeout,
	} {
		s := &script{status: http.StatusServiceUnavailable, body: body}
		c := services(t, s.ServeHTTP)
		require.ErrorIs(t, runQuery(within(t, 2*time.Second), c, &query.Request{Statement: "SELECT 1", Readonly: true}),
			kind)
		require.EqualValues(t, 1, s.requests.Load())
	}
}

// TestAStateOfFailureIsAFailureInAnyCase_D136: question Q19. The state is written in either case by the servers that
// there are.
func TestAStateOfFailureIsAFailureInAnyCase_D136(t *testing.T) {
	for _, state := range []string{"fatal", "FATAL", "Errors", "Timeout", "STOPPED"} {
		s := &script{body: `{"results":[],"status":"` + state + `"}`}
		c := services(t, s.ServeHTTP)
		err := runQuery(within(t, time.Second), c, &query.Request{Statement: "DELETE FROM a"})
		require.Error(t, err, state)
		require.True(t, ambiguous(t, err), state)
		require.Error(t, runAnalytics(within(t, time.Second), c, &analytics.Request{Statement: "SELECT 1"}), state)
		require.EqualValues(t, 2, s.requests.Load())
	}
}

// TestAnEmptyAnswerIsMalformed_D136: question Q20. The answer has come to its end, so another attempt is no cure; only
// an answer whose end is the connection's may have been cut off.
func TestAnEmptyAnswerIsMalformed_D136(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNoContent} {
		s := &script{status: status}
		c := services(t, s.ServeHTTP)
		for name, run := range ask(t, c) {
			_, err := run()
			require.ErrorIs(t, err, cberr.DecodingFailure, name)
		}
		require.EqualValues(t, 4, s.requests.Load(), "none is sent again")
		err := runQuery(within(t, time.Second), c, &query.Request{Statement: "DELETE FROM a"})
		require.ErrorIs(t, err, cberr.DecodingFailure)
		require.True(t, ambiguous(t, err), "%v", err)
	}
	e := &endless{head: "HTTP/1.1 200 OK\r\n\r\n"}
	c := services(t, func(w http.ResponseWriter, r *http.Request) {
		e.ServeHTTP(w, r)
		e.close()
	})
	err := runQuery(within(t, 300*time.Millisecond), c, &query.Request{
		Statement: "SELECT 1", Readonly: true,
		Retry: retry.BestEffort{},
	})
	require.ErrorIs(t, err, cberr.Timeout)
	require.Greater(t, e.count.Load(), int32(1))
}
