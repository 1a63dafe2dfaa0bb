package query_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/query"
)

// fixed answers every request with one body.
type fixed struct {
	status int
	body   string
}

// Do implements httpsvc.Doer as a client without retries does.
func (f fixed) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	resp := &httpsvc.Response{Status: f.status, Body: io.NopCloser(strings.NewReader(f.body)), Endpoint: "n1:8093"}
	v, err := r.Judge(resp)
	if v.Err != nil {
		err = v.Err
	}
	if err != nil {
		return nil, &httpsvc.Error{Service: "query", Kind: cberr.KindOf(err), Endpoint: "n1:8093", Cause: err}
	}
	return resp, nil
}

func run(t *testing.T, status int, body string, r *query.Request) (*query.Rows, error) {
	t.Helper()
	return query.NewService(query.ServiceOptions{}).Run(t.Context(), fixed{status, body}, r)
}

func TestMetadataIsComplete(t *testing.T) {
	const body = `{"requestID":"7a1c","clientContextID":"9f0e","signature":{"n":"number"},"results":[{"n":1},{"n":2}],
		"warnings":[{"code":5001,"msg":"slow index"},7],"status":"success","metrics":{"elapsedTime":"1.51ms","executionTime":"1.2ms",
		"resultCount":2,"resultSize":16,"serviceLoad":1,"sortCount":3,"mutationCount":4,"errorCount":5,"warningCount":1,
		"usedMemory":"17"},"profile":{"phaseTimes":{}}}`
	rows, err := run(t, 200, body, &query.Request{Statement: "x"})
	require.NoError(t, err)
	_, err = rows.Meta()
	require.ErrorIs(t, err, httpsvc.ErrRowsLeft)
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
	require.JSONEq(t, `{"n":"number"}`, string(m.Signature))
	require.JSONEq(t, `{"phaseTimes":{}}`, string(m.Profile))
	require.Equal(t, []query.Warning{{5001, "slow index", m.Warnings[0].Raw}, {0, "", json.RawMessage("7")}},
		m.Warnings)
	require.Equal(t, query.Metrics{
		Elapsed: 1510 * time.Microsecond, Execution: 1200 * time.Microsecond, Results: 2, ResultBytes: 16,
		ServiceLoad: 1, Sorted: 3,
		Mutations: 4, Errors: 5, Warnings: 1, UsedMemoryBytes: 17,
	}, m.Metrics)
	require.Equal(t, query.Metrics{}, query.ParseMeta([]byte(`{"metrics":null}`)).Metrics)
}

// TestRowsThenErrorsB86: the rows are given out, then the error; what is not known keeps its text.
func TestRowsThenErrorsB86(t *testing.T) {
	rows, err := run(t, 200, `{"results":[1],"errors":[{"code":99999,"msg":"the end is near","extra":1}],"status":"fatal"}`, &query.Request{Statement: "x"})
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.False(t, rows.Next())
	var e *query.Error
	require.ErrorAs(t, rows.Err(), &e)
	require.Equal(t, cberr.Couchbase, e.Kind)
	require.ErrorContains(t, e, "99999 the end is near")
	require.JSONEq(t, `{"code":99999,"msg":"the end is near","extra":1}`, string(e.Errors[0].Raw))
	m, err := rows.Meta()
	require.Equal(t, rows.Err(), err)
	require.Equal(t, "fatal", m.Status)
}

// TestStatesWithoutErrors: a statement that has not come to its end is a failure although no error is listed.
func TestStatesWithoutErrors(t *testing.T) {
	for state, want := range map[string]error{
		"success": nil, "running": nil, "completed": nil, "": nil, "new one": nil, "errors": cberr.Couchbase,
		"fatal":   cberr.Couchbase,
		"stopped": cberr.RequestCanceled, "aborted": cberr.RequestCanceled, "closed": cberr.RequestCanceled,
		"timeout": cberr.AmbiguousTimeout,
	} {
		_, err := run(t, 200, `{"results":[],"status":"`+state+`"}`, &query.Request{Statement: "x"})
		if want == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, want, state)
	}
	_, err := run(t, 200, `{"results":[],"status":"timeout"}`, &query.Request{Statement: "x", Readonly: true})
	require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	var e *query.Error
	_, err = run(t, 200, `{"errors":[{"code":1080}]}`, &query.Request{Statement: "x"})
	require.ErrorAs(t, err, &e)
	require.True(t, e.Ambiguous())
}

// TestErrorsHideSecrets: the statement is kept without its passwords, and is not in the text.
func TestErrorsHideSecrets(t *testing.T) {
	_, err := run(t, 400, `{"errors":[{"code":3000,"msg":"syntax error"}]}`, &query.Request{Statement: `CREATE USER jane PASSWORD "hush"`, ClientContextID: "me"})
	var e *query.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, `CREATE USER jane PASSWORD "*****"`, e.Statement)
	require.Equal(t, "query: parsing failure on n1:8093: 3000 syntax error", e.Error())
	data, err := json.Marshal(e)
	require.NoError(t, err)
	require.JSONEq(t, `{"msg":"parsing failure","endpoint":"n1:8093","last_dispatched_to":"n1:8093","http_status_code":400,
		"error_text":"3000 syntax error","client_context_id":"me","statement":"CREATE USER jane PASSWORD \"*****\"",
		"errors":[{"code":3000,"message":"syntax error","reason":null,"retry":false}]}`, string(data))
}

// TestReadingFromReplicasNeedsTheFeature, when the cluster is known to lack it.
func TestReadingFromReplicasNeedsTheFeature(t *testing.T) {
	for _, known := range []bool{false, true} {
		s := query.NewService(query.ServiceOptions{Supports: func(string) (bool, bool) { return false, known }})
		_, err := s.Run(t.Context(), fixed{200, `{"results":[]}`}, &query.Request{Statement: "x", UseReplica: query.On})
		if known {
			require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		} else {
			require.NoError(t, err)
		}
	}
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{`{"metrics":{"elapsedTime":7,"resultCount":-1}}`, `{"warnings":{"code":"x"}}`, `[]`, `{"metrics":{"usedMemory":1e300}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { query.ParseMeta(raw) })
}

// FuzzAnswer reads any answer to its end: there is no panic, and a failure is one of ours that prints and encodes.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"results":[1],"errors":[{"code":"4040","reason":{"code":[]}}]}`, `{"errors":{}}`, `{"results":[{"name":1}]}`, `{"status":"timeout"}`} {
		for _, status := range []uint16{200, 503} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		rows, err := query.NewService(query.ServiceOptions{}).Run(t.Context(), fixed{status: int(status), body: body},
			&query.Request{Statement: "x", Prepare: status%2 == 1})
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
		var e *query.Error
		if !errors.As(err, &e) {
			t.Skip("the reader of the body failed, which is the client's to explain")
		}
		require.ErrorIs(t, err, cberr.Couchbase)
		require.NotEmpty(t, err.Error())
		_, err = json.Marshal(err)
		require.NoError(t, err)
	})
}
