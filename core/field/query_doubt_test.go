package field_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// TestNamesThatSayTimeoutAreNoTimeout_D120: the text of a refusal repeats a part of the statement, which may have a
// column of that name.
func TestNamesThatSayTimeoutAreNoTimeout_D120(t *testing.T) {
	for body, kind := range map[string]error{
		`{"errors":[{"code":3000,"msg":"syntax error - line 1, column 30, near 'timeout'"}],"status":"fatal"}`: cberr.ParsingFailure,
		`{"errors":[{"code":4000,"msg":"No index available on keyspace timeout"}],"status":"fatal"}`:           cberr.PlanningFailure,
		`{"errors":[{"code":13014,"msg":"User does not have credentials for timed out"}],"status":"fatal"}`:    cberr.AuthenticationFailure,
		`{"errors":[{"code":4300,"msg":"The index by_timeout already exists."}],"status":"errors"}`:            cberr.IndexExists,
	} {
		s := &script{status: 400, body: body}
		c := services(t, s.ServeHTTP)
		err := runQuery(within(t, time.Second), c, &query.Request{Statement: "DELETE FROM a WHERE timeout ="})
		require.ErrorIs(t, err, kind)
		require.False(t, ambiguous(t, err), "%v", err)
	}
	s := &script{status: 400, body: `{"errors":[{"code":24000,"msg":"Syntax error near timeout"}],"status":"fatal"}`}
	c := services(t, s.ServeHTTP)
	err := runAnalytics(within(t, time.Second), c, &analytics.Request{Statement: "UPSERT INTO timeout"})
	require.ErrorIs(t, err, cberr.ParsingFailure)
	require.False(t, ambiguous(t, err), "%v", err)
}

// TestWhatHasWrittenIsNotSentAgain_D120: the service counts documents that it has changed, whatever the request said of
// the statement.
func TestWhatHasWrittenIsNotSentAgain_D120(t *testing.T) {
	s := &script{status: 500, body: `{"errors":[{"code":99999,"msg":"x","retry":true}],"status":"errors","metrics":{"mutationCount":3}}`}
	c := services(t, s.ServeHTTP)
	require.Error(t, runQuery(within(t, time.Second), c, &query.Request{
		Statement: "EXECUTE FUNCTION f()",
		Readonly:  true,
	}))
	require.EqualValues(t, 1, s.requests.Load())
	s = &script{status: 500, body: `{"errors":[{"code":25000,"msg":"x","retriable":true}],"status":"fatal","metrics":{"mutationCount":3}}`}
	c = services(t, s.ServeHTTP)
	require.Error(t, runAnalytics(within(t, time.Second), c, &analytics.Request{
		Statement: "SELECT f()",
		Readonly:  true,
	}))
	require.EqualValues(t, 1, s.requests.Load())
}

// TestNoStatusHasWhatHasWrittenSentAgain_D180: a status that tells to come back, such as 503, tells nothing of the
// documents that the same answer counts.
func TestNoStatusHasWhatHasWrittenSentAgain_D180(t *testing.T) {
	const written = `"metrics":{"mutationCount":3}}`
	for _, status := range []int{
		http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout,
	} {
		for _, list := range []string{"", `"errors":[{"code":99999,"msg":"x","retry":true,"retriable":true}],`} {
			for _, delay := range []string{"", "0"} {
				for _, readonly := range []bool{false, true} {
					s := &script{status: status, body: `{` + list + `"status":"errors",` + written}
					if delay != "" {
						s.header = http.Header{"Retry-After": {delay}}
					}
					c := services(t, s.ServeHTTP)
					err := runQuery(within(t, 5*time.Second), c, &query.Request{
						Statement: "EXECUTE FUNCTION f()", Readonly: readonly, Retry: retry.BestEffort{},
					})
					require.True(t, ambiguous(t, err), "%v", err)
					require.EqualValues(t, 1, s.requests.Load(), "%d %s", status, list)
					err = runAnalytics(within(t, 5*time.Second), c, &analytics.Request{
						Statement: "SELECT f()", Readonly: readonly, Retry: retry.BestEffort{},
					})
					require.True(t, ambiguous(t, err), "%v", err)
					require.EqualValues(t, 2, s.requests.Load(), "%d %s", status, list)
				}
			}
		}
	}
	s := &script{body: queryTimeout}
	c := services(t, s.ServeHTTP)
	err := runQuery(within(t, time.Second), c, &query.Request{Statement: "EXECUTE FUNCTION f()", Readonly: true})
	require.ErrorIs(t, err, cberr.AmbiguousTimeout)
	require.EqualValues(t, 1, s.requests.Load())
}
