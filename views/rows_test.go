package views_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/views"
)

// fixed answers every request with one body.
type fixed struct {
	status int
	body   string
	in     func(io.Reader) io.Reader // how the body comes; nil: at once
}

// Do implements httpsvc.Doer as a client without retries does.
func (f fixed) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	body := io.Reader(strings.NewReader(f.body))
	if f.in != nil {
		body = f.in(body)
	}
	resp := &httpsvc.Response{Status: f.status, Body: io.NopCloser(body), Endpoint: "n1:8092"}
	v, err := r.Judge(resp)
	if v.Err != nil {
		err = v.Err
	}
	if err != nil {
		return nil, &httpsvc.Error{Service: "views", Kind: cberr.KindOf(err), Endpoint: "n1:8092", Cause: err}
	}
	return resp, nil
}

func run(t *testing.T, status int, body string) (*views.Rows, error) {
	t.Helper()
	of := fixed{status: status, body: body}
	return views.Run(t.Context(), of, &views.Request{Bucket: "b", Design: "d", View: "v"})
}

func TestEntriesAndMetadata(t *testing.T) {
	rows, err := run(t, 200, `{"total_rows":3,"debug_info":{"x":1},"rows":[{"id":"a","key":[1],"value":null},{"key":null,"value":6}]}`)
	require.NoError(t, err)
	require.True(t, rows.Next())
	e, err := rows.Entry()
	require.NoError(t, err)
	require.Equal(t, "a", e.ID)
	require.Equal(t, "[1]", string(e.Key))
	require.True(t, rows.Next())
	e, err = rows.Entry()
	require.NoError(t, err)
	require.Empty(t, e.ID)
	require.Equal(t, "6", string(e.Value))
	require.False(t, rows.Next())
	m, err := rows.Meta()
	require.NoError(t, err)
	require.EqualValues(t, 3, m.TotalRows)
	require.JSONEq(t, `{"x":1}`, string(m.Debug))
}

// TestFailuresBehindRows: nodes that have failed are an error, and their rows' absence is not passed over.
func TestFailuresBehindRows(t *testing.T) {
	rows, err := run(t, 200, `{"rows":[{"id":"a"}],"errors":[{"from":"n2:8092","reason":"timeout"},{"from":"n3"}]}`)
	require.NoError(t, err)
	require.True(t, rows.Next())
	require.False(t, rows.Next())
	var e *views.Error
	require.ErrorAs(t, rows.Err(), &e)
	require.Equal(t, "timeout", e.Errors[0].Reason)
	require.Equal(t, "b d v", e.Bucket+" "+e.Design+" "+e.View)
	require.ErrorContains(t, e, "n2:8092: timeout")
	m, err := rows.Meta()
	require.Equal(t, rows.Err(), err)
	require.Len(t, m.Errors, 2)
	_, err = run(t, 200, `{"error":"query_parse_error","reason":"x"}`)
	require.ErrorIs(t, err, cberr.Couchbase)
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{`{"total_rows":"x"}`, `{"errors":[1,{"from":1}]}`, `[]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { views.ParseMeta(raw) })
}

// FuzzAnswer reads any answer to its end: there is no panic, a failure is one of ours that prints and encodes, and the
// rows and the failure are the same however the answer is cut into pieces (F12).
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"rows":[1],"errors":[{}]}`, `{"error":7,"reason":[]}`, `{"rows":[],"errors":"x"}`} {
		for _, status := range []uint16{200, 503} {
			f.Add(status, body, uint16(9))
		}
	}
	f.Fuzz(func(t *testing.T, status uint16, body string, cut uint16) {
		rows, err := readAll(t, fixed{status: int(status), body: body})
		for _, in := range []func(io.Reader) io.Reader{iotest.OneByteReader, func(r io.Reader) io.Reader {
			return io.MultiReader(io.LimitReader(r, int64(cut)), r)
		}} {
			again, errAgain := readAll(t, fixed{status: int(status), body: body, in: in})
			require.Equal(t, rows, again)
			require.Equal(t, err == nil, errAgain == nil)
			if err != nil {
				require.Equal(t, err.Error(), errAgain.Error())
			}
		}
		var e *views.Error
		switch {
		case err == nil:
		case !errors.As(err, &e):
			t.Skip("the reader of the body failed, which is the client's to explain")
		default:
			require.ErrorIs(t, err, cberr.Couchbase)
			require.NotEmpty(t, err.Error())
			_, err = json.Marshal(err)
			require.NoError(t, err)
		}
	})
}

// readAll gives the rows of an answer, and its failure.
func readAll(t *testing.T, of fixed) (all []string, err error) {
	t.Helper()
	rows, err := views.Run(t.Context(), of, &views.Request{Bucket: "b", Design: "d", View: "v"})
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		require.True(t, json.Valid(rows.Row()))
		all = append(all, string(rows.Row()))
	}
	if err = rows.Err(); err == nil {
		_, err = rows.Meta()
		require.NoError(t, err)
	}
	return all, err
}
