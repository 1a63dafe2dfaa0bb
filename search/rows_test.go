package search_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/search"
)

// fixed answers every request with one body.
type fixed struct {
	status int
	body   string
	sent   int
}

// Do implements httpsvc.Doer as a client without retries does.
func (f *fixed) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	f.sent++
	resp := &httpsvc.Response{Status: f.status, Body: io.NopCloser(strings.NewReader(f.body)), Endpoint: "n1:8094"}
	v, err := r.Judge(resp)
	if v.Err != nil {
		err = v.Err
	}
	if err != nil {
		return nil, &httpsvc.Error{Service: "search", Kind: cberr.KindOf(err), Endpoint: "n1:8094", Cause: err}
	}
	return resp, nil
}

// TestNullHitsB93 has an answer of a real server, all of whose partitions had failed: no hits, and no error.
func TestNullHitsB93(t *testing.T) {
	body, err := os.ReadFile("testdata/search_hits_nil.json")
	require.NoError(t, err)
	rows, err := search.Run(t.Context(), &fixed{status: 200, body: string(body)}, &search.Request{Index: "i", Query: 1},
		nil)
	require.NoError(t, err)
	require.False(t, rows.Next())
	require.NoError(t, rows.Err())
	m, err := rows.Meta()
	require.NoError(t, err)
	require.True(t, m.Status.Partial())
	require.Equal(t, search.Status{Total: 6, Failed: 6, Errors: m.Status.Errors}, m.Status)
	require.Len(t, m.Status.Errors, 6)
	for _, text := range m.Status.Errors {
		require.Equal(t, "context deadline exceeded", text)
	}
}

// TestCapabilitiesB93: what the cluster is known to lack is refused before anything is sent; what is not known is
// tried.
func TestCapabilitiesB93(t *testing.T) {
	none := func(string) (bool, bool) { return false, true }
	unknown := func(string) (bool, bool) { return false, false }
	vector := []search.VectorQuery{{Field: "f", Vector: []float32{1}, K: 1}}
	for name, r := range map[string]*search.Request{
		"scopedSearchIndex": {Index: "i", Bucket: "b", Scope: "s", Query: 1}, "vectorSearch": {
			Index:   "i",
			Vectors: vector,
		},
	} {
		d := &fixed{status: 200, body: `{"hits":[]}`}
		_, err := search.Run(t.Context(), d, r, none)
		require.ErrorIs(t, err, cberr.FeatureNotAvailable)
		require.ErrorContains(t, err, name)
		require.Zero(t, d.sent)
		for _, supports := range []func(string) (bool, bool){
			unknown, nil,
			func(c string) (bool, bool) { return c == name, true },
		} {
			_, err = search.Run(t.Context(), d, r, supports)
			require.NoError(t, err)
		}
	}
	_, err := search.Run(t.Context(), &fixed{status: 200, body: `{"hits":[]}`}, &search.Request{Index: "i", Query: 1}, none)
	require.NoError(t, err)
}

func TestHitsAndMetadata(t *testing.T) {
	const body = `{"status":{"total":6,"failed":1,"successful":5,"errors":{"p3":"timeout"}},"hits":[{"index":"idx_1","id":"doc1","score":1.5,
		"locations":{"name":{}},"fragments":{"name":["<mark>bob</mark>"]},"fields":{"name":"bob"},"sort":["a"]},{"id":"doc2"}],
		"total_hits":7,"max_score":1.5,"took":1234567,"facets":{"t":{"total":3}}}`
	rows, err := search.Run(t.Context(), &fixed{status: 200, body: body}, &search.Request{Index: "i", Query: 1}, nil)
	require.NoError(t, err)
	require.True(t, rows.Next())
	h, err := rows.Hit()
	require.NoError(t, err)
	require.Equal(t, "doc1", h.ID)
	require.InDelta(t, 1.5, h.Score, 0)
	require.Equal(t, map[string][]string{"name": {"<mark>bob</mark>"}}, h.Fragments)
	require.JSONEq(t, `{"name":"bob"}`, string(h.Fields))
	_, err = rows.Meta()
	require.ErrorIs(t, err, httpsvc.ErrRowsLeft)
	require.True(t, rows.Next())
	require.False(t, rows.Next())
	m, err := rows.Meta()
	require.NoError(t, err)
	require.EqualValues(t, 7, m.Total)
	require.Equal(t, 1234567*time.Nanosecond, m.Took)
	require.JSONEq(t, `{"total":3}`, string(m.Facets["t"]))
	require.Equal(t, search.Status{Total: 6, Failed: 1, Successful: 5, Errors: map[string]string{"p3": "timeout"}},
		m.Status)
	require.NotContains(t, string(m.Raw), "doc1")
	require.Equal(t, "n1:8094", rows.Endpoint())
}

func FuzzMeta(f *testing.F) {
	for _, s := range []string{`{"status":"ok","took":"x"}`, `{"status":{"errors":[1]},"facets":3}`, `[]`, `{"took":1e300,"max_score":{}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(_ *testing.T, raw []byte) { search.ParseMeta(raw) })
}

// FuzzAnswer reads any answer to its end: there is no panic, and a failure is one of ours that prints and encodes.
func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"hits":[1],"status":{"errors":7}}`, `{"status":"fail"}`, `{"hits":null}`} {
		for _, status := range []uint16{200, 503} {
			f.Add(status, body)
		}
	}
	f.Fuzz(func(t *testing.T, status uint16, body string) {
		rows, err := search.Run(t.Context(), &fixed{status: int(status), body: body}, &search.Request{
			Index: "i",
			Query: 1,
		}, nil)
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
		var e *search.Error
		if !errors.As(err, &e) {
			t.Skip("the reader of the body failed, which is the client's to explain")
		}
		require.ErrorIs(t, err, cberr.Couchbase)
		require.NotEmpty(t, err.Error())
		_, err = json.Marshal(err)
		require.NoError(t, err)
	})
}
