package analytics_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// fixed answers every request with one body.
type fixed struct {
	status int
	body   string
}

// Do implements httpsvc.Doer as a client without retries does.
func (f fixed) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	resp := &httpsvc.Response{Status: f.status, Body: io.NopCloser(strings.NewReader(f.body)), Endpoint: "n1:8095"}
	v, err := r.Judge(resp)
	if v.Err != nil {
		err = v.Err
	}
	if err != nil {
		return nil, &httpsvc.Error{
			Service: "analytics", Kind: cberr.KindOf(err), Endpoint: "n1:8095",
			Retry: retry.Info{Reason: v.Reason}, Cause: err,
		}
	}
	return resp, nil
}

func run(t *testing.T, status int, body string, r *analytics.Request) (*analytics.Rows, error) {
	t.Helper()
	return analytics.Run(t.Context(), fixed{status, body}, r)
}

func TestMetadataIsComplete(t *testing.T) {
	const body = `{"requestID":"7a1c","clientContextID":"9f0e","signature":{"n":"number"},"results":[{"n":1},{"n":2}],
		"warnings":[{"code":5001,"msg":"slow"}],"status":"success","metrics":{"elapsedTime":"1.51ms","executionTime":"1.2ms",
		"resultCount":2,"resultSize":16,"processedObjects":3,"errorCount":5,"warningCount":1}}`
	rows, err := run(t, 200, body, &analytics.Request{Statement: "x"})
	require.NoError(t, err)
	sum := 0
	for rows.Next() {
		var row struct{ N int }
		require.NoError(t, rows.Scan(&row))
		sum += row.N
	}
	require.NoError(t, rows.Err())
	require.Equal(t, 3, sum)
	m, err := rows.Meta()
	require.NoError(t, err)
	require.Equal(t, "7a1c 9f0e success", m.RequestID+" "+m.ClientContextID+" "+m.Status)
	require.Equal(t, "slow", m.Warnings[0].Message)
	require.Equal(t, analytics.Metrics{
		Elapsed: 1510 * time.Microsecond, Execution: 1200 * time.Microsecond, Results: 2, ResultBytes: 16, Processed: 3,
		Errors: 5, Warnings: 1,
	}, m.Metrics)
}

// TestRetryHintD117: the service's own hint is obeyed and told, and so is the statement without its secrets.
func TestRetryHintD117(t *testing.T) {
	_, err := run(t, 500, `{"errors":[{"code":25000,"msg":"busy","retriable":true}]}`, &analytics.Request{
		Statement: `CREATE LINK l WITH {"secretAccessKey":"hush"}`, Readonly: true,
	})
	var e *analytics.Error
	require.ErrorAs(t, err, &e)
	require.True(t, e.Errors[0].Retriable)
	require.Equal(t, retry.AnalyticsTemporaryFailure, e.Retry.Reason, "what the client is told to retry for")
	require.Equal(t, `CREATE LINK l WITH {"secretAccessKey":"*****"}`, e.Statement)
	require.NotContains(t, e.Error(), "LINK")
	data, err := json.Marshal(e)
	require.NoError(t, err)
	require.Contains(t, string(data), `"retry":true`)
}

// TestStatesWithoutErrors: a statement that has not come to its end is a failure although no error is listed.
func TestStatesWithoutErrors(t *testing.T) {
	for state, want := range map[string]error{
		"success": nil, "": nil, "failed": cberr.Couchbase, "fatal": cberr.Couchbase, "timeout": cberr.AmbiguousTimeout,
	} {
		_, err := run(t, 200, `{"results":[],"status":"`+state+`"}`, &analytics.Request{Statement: "x"})
		if want == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, want, state)
	}
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{`{"metrics":{"elapsedTime":7,"resultCount":-1}}`, `{"warnings":{"code":"x"}}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { analytics.ParseMeta(raw) })
}

// FuzzAnswer reads any answer to its end: there is no panic, and a failure is one of ours that prints and encodes.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"results":[1],"errors":[{"code":1e99}]}`, `{"errors":[null]}`, `{"status":7}`} {
		for _, status := range []uint16{200, 503} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		rows, err := analytics.Run(t.Context(), fixed{status: int(status), body: body},
			&analytics.Request{Statement: "x"})
		if err == nil {
			for rows.Next() {
				require.True(t, json.Valid(rows.Row()))
			}
			if err = rows.Err(); err == nil {
				_, err = rows.Meta()
				require.NoError(t, err)
				return
			}
		}
		var e *analytics.Error
		if !errors.As(err, &e) {
			t.Skip("the reader of the body failed, which is the client's to explain")
		}
		require.ErrorIs(t, err, cberr.Couchbase)
		require.NotEmpty(t, err.Error())
		_, err = json.Marshal(err)
		require.NoError(t, err)
	})
}
