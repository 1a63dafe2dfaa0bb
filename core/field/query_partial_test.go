package field_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// script answers every request to the services with one status and body, and counts the requests.
type script struct {
	status   int
	header   http.Header
	body     string
	requests atomic.Int32
}

func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	s.requests.Add(1)
	for name, v := range s.header {
		w.Header()[name] = v
	}
	if s.status != 0 {
		w.WriteHeader(s.status)
	}
	_, _ = io.WriteString(w, s.body)
}

// runQuery runs a statement to its end.
func runQuery(ctx context.Context, c *core.Cluster, r *query.Request) error {
	rows, err := c.Query(ctx, r)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}

func runAnalytics(ctx context.Context, c *core.Cluster, r *analytics.Request) error {
	rows, err := c.Analytics(ctx, r)
	if err != nil {
		return err
	}
	for rows.Next() {
	}
	return rows.Err()
}

// ambiguous reports whether an error says that the request may have been executed.
func ambiguous(t testing.TB, err error) bool {
	t.Helper()
	var told interface{ Ambiguous() bool }
	require.ErrorAs(t, err, &told)
	return told.Ambiguous()
}

// queryTimeout is how query 8.0.1 answers a statement that has run into the request's timeout after it had written 3
// documents.
const queryTimeout = `{"requestID":"r","results":[],"errors":[{"code":1080,"msg":"Timeout 500ms exceeded","retry":true}],
	"status":"timeout","metrics":{"elapsedTime":"500ms","resultCount":0,"mutationCount":3,"errorCount":1}}`

// TestAStatementThatWasPartlyExecutedIsSentOnce_D120: the engine's timeout has the retry hint, and documents were
// written.
func TestAStatementThatWasPartlyExecutedIsSentOnce_D120(t *testing.T) {
	answers := map[string]struct {
		status int
		body   string
	}{
		"the engine's timeout":               {200, queryTimeout},
		"the same without a count":           {200, `{"results":[],"errors":[{"code":1080,"msg":"Timeout 500ms exceeded","retry":true}],"status":"timeout"}`},
		"a timeout of another code":          {500, `{"errors":[{"code":12015,"msg":"Index scan timed out","retry":true}],"status":"errors"}`},
		"a timeout that only the text names": {500, `{"errors":[{"code":5000,"msg":"cause: i/o timeout","retry":true}],"status":"errors"}`},
		"a failure after three writes":       {500, `{"errors":[{"code":5001,"msg":"Panic","retry":true}],"status":"errors","metrics":{"mutationCount":3}}`},
		"a failure without a count":          {500, `{"errors":[{"code":99999,"msg":"x","retry":true}],"status":"errors"}`},
		"a listed code after three writes": {500, `{"errors":[{"code":5000,"msg":"queryport.indexNotFound","retry":true}],"status":"errors",
			"metrics":{"mutationCount":3}}`},
		"too many errors after three writes": {200, `{"errors":[{"code":1195,"msg":"x","retry":true,"cause":{"errorLimit":16,"mutationCount":3}}],"status":"errors"}`},
		"a state without an error":           {200, `{"results":[],"status":"timeout"}`},
	}
	for name, a := range answers {
		for _, prepare := range []bool{false, true} {
			t.Run(name+map[bool]string{true: ", prepared"}[prepare], func(t *testing.T) {
				s := &script{status: a.status, body: a.body}
				c := services(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if strings.Contains(string(body), `"PREPARE `) {
						_, _ = io.WriteString(w, `{"results":[{"name":"p","encoded_plan":"e"}],"status":"success"}`)
						return
					}
					s.ServeHTTP(w, r)
				})
				err := runQuery(within(t, time.Second), c, &query.Request{
					Statement: "INSERT INTO a SELECT * FROM b", Prepare: prepare,
					Retry: retry.BestEffort{Backoff: retry.Constant(time.Millisecond)},
				})
				require.Error(t, err)
				require.EqualValues(t, 1, s.requests.Load())
				require.True(t, ambiguous(t, err), "%v", err)
				require.NotErrorIs(t, err, cberr.UnambiguousTimeout)
				if strings.Contains(name, "engine") {
					require.ErrorIs(t, err, cberr.AmbiguousTimeout)
				}
			})
		}
	}
}

// TestTheRetryHintOfAReadIsFollowed_D120: nothing can have been executed, unless the hint comes with a timeout, after
// which the request's own time is over as well.
func TestTheRetryHintOfAReadIsFollowed_D120(t *testing.T) {
	s := &script{status: 500, body: `{"errors":[{"code":99999,"msg":"x","retry":true}],"status":"errors"}`}
	c := services(t, s.ServeHTTP)
	err := runQuery(within(t, 300*time.Millisecond), c, &query.Request{Statement: "SELECT 1", Readonly: true})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.Greater(t, s.requests.Load(), int32(1))

	s = &script{body: strings.ReplaceAll(queryTimeout, `"mutationCount":3,`, "")}
	c = services(t, s.ServeHTTP)
	err = runQuery(within(t, time.Second), c, &query.Request{Statement: "SELECT 1", Readonly: true})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.False(t, ambiguous(t, err))
	require.EqualValues(t, 1, s.requests.Load())
}

// TestAWriteThatWasNotExecutedIsUnambiguous_D120: what the service refuses before it executes anything is no doubt, and
// what the RFC lists is sent again.
func TestAWriteThatWasNotExecutedIsUnambiguous_D120(t *testing.T) {
	for name, body := range map[string]string{
		"syntax":       `{"errors":[{"code":3000,"msg":"syntax error"}],"status":"fatal"}`,
		"plan":         `{"errors":[{"code":4000,"msg":"no index","retry":true}],"status":"errors"}`,
		"no rights":    `{"errors":[{"code":13014,"msg":"no"}],"status":"errors"}`,
		"a queue":      `{"errors":[{"code":1201,"msg":"Request queue full","retry":true}],"status":"fatal"}`,
		"CAS mismatch": `{"errors":[{"code":12009,"msg":"x","reason":{"code":12033}}],"status":"errors","metrics":{"errorCount":1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{status: 400, body: body}
			c := services(t, s.ServeHTTP)
			err := runQuery(within(t, time.Second), c, &query.Request{Statement: "DELETE FROM a"})
			require.False(t, ambiguous(t, err), "%v", err)
			require.EqualValues(t, 1, s.requests.Load())
		})
	}
	s := &script{status: 500, body: `{"errors":[{"code":5000,"msg":"queryport.indexNotFound"}],"status":"errors","metrics":{"errorCount":1}}`}
	c := services(t, s.ServeHTTP)
	err := runQuery(within(t, 300*time.Millisecond), c, &query.Request{Statement: "DELETE FROM a"})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	require.False(t, ambiguous(t, err))
	require.Greater(t, s.requests.Load(), int32(1))
}

// TestErrorsAfterRowsSayWhetherTheStatementRan_D120: the error list stands behind the first row.
func TestErrorsAfterRowsSayWhetherTheStatementRan_D120(t *testing.T) {
	s := &script{body: `{"results":[1],"errors":[{"code":5001,"msg":"Panic","retry":true}],"status":"errors","metrics":{"mutationCount":1}}`}
	c := services(t, s.ServeHTTP)
	err := runQuery(within(t, time.Second), c, &query.Request{Statement: "UPDATE a SET b = 1 RETURNING 1"})
	require.True(t, ambiguous(t, err), "%v", err)
	require.EqualValues(t, 1, s.requests.Load())
}

// TestAnalyticsStatementsThatMayHaveRunAreSentOnce_D120: the hint of the analytics service is called retriable.
func TestAnalyticsStatementsThatMayHaveRunAreSentOnce_D120(t *testing.T) {
	for name, c := range map[string]struct {
		body      string
		readonly  bool
		again     bool
		ambiguous bool
	}{
		"timeout":          {body: `{"errors":[{"code":21002,"msg":"Request timed out","retriable":true}],"status":"timeout"}`, ambiguous: true},
		"timeout, a read":  {body: `{"errors":[{"code":21002,"msg":"Request timed out","retriable":true}],"status":"timeout"}`, readonly: true},
		"unlisted":         {body: `{"errors":[{"code":25000,"msg":"x","retriable":true}],"status":"fatal"}`, ambiguous: true},
		"unlisted, a read": {body: `{"errors":[{"code":25000,"msg":"x","retriable":true}],"status":"fatal"}`, readonly: true, again: true},
		"after writes":     {body: `{"errors":[{"code":23000,"msg":"x"}],"status":"fatal","metrics":{"mutationCount":1}}`, ambiguous: true},
		"listed":           {body: `{"errors":[{"code":23000,"msg":"x"}],"status":"fatal"}`, again: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{status: 500, body: c.body}
			cl := services(t, s.ServeHTTP)
			err := runAnalytics(within(t, 300*time.Millisecond), cl, &analytics.Request{
				Statement: "UPSERT INTO a ...",
				Readonly:  c.readonly,
			})
			require.Error(t, err)
			require.Equal(t, c.again, s.requests.Load() > 1, "%d requests", s.requests.Load())
			require.Equal(t, c.ambiguous, ambiguous(t, err), "%v", err)
		})
	}
}

// TestTheErrorMapsRetryOfAWriteThatMayHaveBeenAppliedIsNotFollowed_D120: the map calls the status retryable, and says
// of it that it comes from inside of the server, or that the operation is done.
func TestTheErrorMapsRetryOfAWriteThatMayHaveBeenAppliedIsNotFollowed_D120(t *testing.T) {
	for attrs, again := range map[string]bool{
		`"temp","retry-now"`: true, `"item-only","retry-later"`: true, `"retry-later"`: true,
		`"internal","retry-now"`: false, `"success","retry-later"`: false, `"conn-state-invalidated","retry-now"`: false,
	} {
		t.Run(attrs, func(t *testing.T) {
			s := scripted.New(t, 1)
			s.ErrorMap = `{"version":2,"revision":1,"errors":{"7ff0":{"name":"NEW","desc":"a status of a later version","attrs":[` + attrs + `]}}}`
			b := ready(t, s)
			var sets, gets atomic.Int32
			s.Nodes[0].SetHook(func(ss *scripted.Session, p *memd.Packet) bool {
				switch p.Opcode {
				case memd.OpSet:
					sets.Add(1)
				case memd.OpGet:
					gets.Add(1)
				default:
					return false
				}
				ss.Reply(p, memd.Status(0x7ff0), nil, nil)
				return true
			})
			_, err := kv.Do(within(t, 300*time.Millisecond), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
			require.Error(t, err)
			require.Equal(t, again, sets.Load() > 1, "%d requests", sets.Load())
			require.Equal(t, !again, ambiguous(t, err), "%v", err)
			_, err = kv.Do(within(t, 300*time.Millisecond), b, kv.Get{Key: []byte("k")})
			require.False(t, ambiguous(t, err), "%v", err)
			require.Greater(t, gets.Load(), int32(1), "a read is sent again in any case")
		})
	}
}
