package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
	"github.com/couchcore/couchcore/views"
)

// fakeRows are rows that are there already.
type fakeRows struct {
	list   []string
	at     int
	err    error
	closed bool
}

func (r *fakeRows) Next() bool            { r.at++; return r.at <= len(r.list) }
func (r *fakeRows) Row() []byte           { return []byte(r.list[r.at-1]) }
func (r *fakeRows) Err() error            { return r.err }
func (r *fakeRows) Close() error          { r.closed = true; return nil }
func (r *fakeRows) Endpoint() string      { return "n1:8093" }
func (r *fakeRows) RetryInfo() retry.Info { return retry.Info{Attempts: 1} }

// streamed is what a stream of rows prints.
func streamed(t *testing.T, asJSON, verbose bool, rows *fakeRows, meta string, warnings ...string) (result, error) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs, func(string) string { return "" })
	a.json = asJSON
	f := &connectFlags{Verbose: verbose}
	err := f.stream(a, time.Now(), func() (answer, error) {
		return answer{rows, func() (json.RawMessage, []string, error) {
			if meta == "" {
				return nil, nil, rows.err
			}
			return json.RawMessage(meta), warnings, rows.err
		}}, nil
	})
	require.True(t, rows.closed)
	return result{stdout: out.String(), stderr: errs.String()}, err
}

func TestRowsAreOneALine(t *testing.T) {
	rows := func() *fakeRows { return &fakeRows{list: []string{`{"a":1}`, "[1,\n  2]", `"<&>"`}} }
	r, err := streamed(t, false, false, rows(), "{\n \"status\": \"success\"\n}", "5001 slow index")
	require.NoError(t, err)
	require.Equal(t, "{\"a\":1}\n[1,2]\n\"<&>\"\n", r.stdout)
	require.Regexp(t, "^3 rows  0\\.\\d\\d ms  n1:8093\nwarning   5001 slow index\n{\"status\":\"success\"}\n$", r.stderr)

	r, err = streamed(t, true, false, rows(), "{\n \"status\": \"success\"\n}", "5001 slow index")
	require.NoError(t, err)
	require.Equal(t, `{"row":{"a":1}}
{"row":[1,2]}
{"row":"<&>"}
{"meta":{"status":"success"}}
`, r.stdout)
	require.Empty(t, r.stderr)

	r, err = streamed(t, false, true, rows(), "{}")
	require.NoError(t, err)
	require.Contains(t, r.stderr, "sent      2 times")
}

func TestAnErrorBehindRows(t *testing.T) {
	failed := errors.New("cut off")
	r, err := streamed(t, true, false, &fakeRows{list: []string{"1"}, err: failed}, "")
	require.ErrorIs(t, err, failed)
	require.Equal(t, "{\"row\":1}\n", r.stdout)
	r, err = streamed(t, false, false, &fakeRows{list: []string{"1"}, err: failed}, `{"errors":[]}`)
	require.ErrorIs(t, err, failed)
	require.Contains(t, r.stderr, `{"errors":[]}`)
}

func TestFailuresOfServicesAreDescribed(t *testing.T) {
	info := retry.Info{Attempts: 2, Reasons: retry.Reasons(0).With(retry.QueryIndexNotFound)}
	f := failureOf(&query.Error{Kind: cberr.IndexNotFound, Status: 404, Endpoint: "n1:8093", Retry: info, InDoubt: true})
	require.Equal(t, failure{
		Kind: "index_not_found", Message: f.Message, Ambiguous: true, Status: "404", Attempts: 3,
		RetryReasons: []string{"QUERY_INDEX_NOT_FOUND"},
	}, f)
	require.Equal(t, "429", failureOf(&search.Error{Kind: cberr.RateLimited, Status: 429}).Status)
	require.Equal(t, "view_not_found", failureOf(&views.Error{Kind: cberr.ViewNotFound}).Kind)
	require.Zero(t, failureOf(&views.Error{Kind: cberr.ViewNotFound}).Attempts)
}

func TestRowCommandsWithoutTheService(t *testing.T) {
	_, c := startMock(t, mock.Services(mock.KVService))
	c.run("query", "SELECT 1", "--timeout", "250ms").failsWith(t, exitNotApplied, "no node of the cluster map offers the service")
	for _, args := range [][]string{{"query", "SELECT 1"}, {"analytics", "SELECT 1"}, {"search", "i", "text"}} {
		r := c.run(append(args, "--timeout", "250ms", "--json")...)
		require.Equal(t, exitNotApplied, r.code)
		e := r.object(t)["error"].(map[string]any)
		hasKeys(t, e, "kind", "message", "ambiguous", "status", "context", "ref", "attempts", "retry_reasons")
		require.Equal(t, "unambiguous_timeout", e["kind"])
		require.Equal(t, []any{"SERVICE_NOT_AVAILABLE"}, e["retry_reasons"])
		require.InDelta(t, 0, e["attempts"], 0)
	}
}

func TestRowCommandsUsage(t *testing.T) {
	_, c := startMock(t)
	for line, text := range map[string]string{
		"query":                           `expected "<statement>"`,
		"query x --collection c":          "--collection does not apply",
		"query x --scan-vectors {":        "is not JSON",
		"query x --scan-consistency soon": "--scan-consistency",
		"query x --timeout=-1s":           "negative",
		"query - -p -":                    "cannot be both",
		"analytics x --profile timings":   "unknown flag",
		"search i":                        "give a QUERY",
		"search i {":                      "is not JSON",
		"search i q --facet f=x":          "--facet f",
		"search i --vector v=[x]":         "--vector v",
		"view d":                          `expected "<view>"`,
		"view d v --key x":                "--key x",
		"view d v --keys 1":               "no array",
		"view d v --scope s":              "--scope does not apply",
		"view d v --stale maybe":          "--stale",
		"query x --retry @no/such/file":   "no/such/file",
	} {
		c.run(strings.Fields(line)...).failsWith(t, exitUsage, text)
	}
	couchcore("query", "SELECT 1").failsWith(t, exitUsage, "COUCHCORE_CONNECT")
	r := c.run("query", "", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "invalid_argument", r.object(t)["error"].(map[string]any)["kind"])
}

func TestFlagsOfRowCommandsReachTheRequest(t *testing.T) {
	a := newApp(strings.NewReader(""), nil, nil, func(string) string { return "" })
	var c cli
	parse := func(args ...string) {
		t.Helper()
		k, err := kong.New(&c)
		require.NoError(t, err)
		_, err = k.Parse(args)
		require.NoError(t, err)
	}
	body := func(h *httpsvc.Request, err error) string {
		t.Helper()
		require.NoError(t, err)
		b, err := h.Body(time.Second)
		require.NoError(t, err)
		return string(b)
	}

	parse("query", "SELECT $1, $n", "--arg", "5", "--arg", "a text", "--named", `n={"x":[1,2]}`, "--readonly", "--scope", "s", "-b", "b",
		"--scan-consistency", "request-plus", "--scan-wait", "2s", "--profile", "timings", "--metrics", "--preserve-expiry",
		"--use-replica", "--flex-index", "--max-parallelism", "1", "--pipeline-batch", "2", "--pipeline-cap", "3", "--scan-cap", "4",
		"--client-context-id", "id", "--raw", "own=true", "--endpoint", "h:1")
	q, err := c.Query.request(a)
	require.NoError(t, err)
	q.Bucket = "b"
	require.Equal(t, "h:1", q.Endpoint)
	require.JSONEq(t, `{
		"statement":"SELECT $1, $n","args":[5,"a text"],"$n":{"x":[1,2]},"readonly":true,"query_context":"default:`+"`b`.`s`"+`",
		"scan_consistency":"request_plus","scan_wait":"2s","profile":"timings","metrics":true,"preserve_expiry":true,
		"use_replica":"on","use_fts":true,"max_parallelism":"1","pipeline_batch":"2","pipeline_cap":"3","scan_cap":"4",
		"client_context_id":"id","own":true,"timeout":"1s"}`, body(q.HTTP()))

	parse("search", "i", "name:air", "--limit", "5", "--skip", "2", "--fields", "a,b", "--sort=-name", "--sort", `{"by":"score"}`,
		"--collections", "c", "--facet", `f={"field":"x","size":1}`, "--vector", "v=[0.5,1]", "--k", "7", "--highlight", "html",
		"--explain", "--locations", "--no-scoring", "--raw", "own=1")
	s, err := c.Search.request(a)
	require.NoError(t, err)
	got := body(s.HTTP())
	for _, want := range []string{
		`"query":{"query":"name:air"}`, `"size":5`, `"from":2`, `"fields":["a","b"]`, `"sort":["-name",{"by":"score"}]`,
		`"collections":["c"]`, `"facets":{"f":{"field":"x","size":1}}`, `"vector":[0.5,1]`, `"k":7`, `"highlight":{"style":"html"}`,
		`"explain":true`, `"includeLocations":true`, `"score":"none"`, `"own":1`,
	} {
		require.Contains(t, got, want)
	}
	parse("search", "i", `{"match":"air"}`)
	s, err = c.Search.request(a)
	require.NoError(t, err)
	require.Contains(t, body(s.HTTP()), `"query":{"match":"air"}`)

	parse("view", "d", "v", "--dev", "--stale", "false", "--descending", "--skip", "1", "--limit", "2", "--start-key", "[1]",
		"--end-key", `"z"`, "--start-key-doc-id", "a", "--end-key-doc-id", "b", "--exclusive-end", "--no-reduce", "--group-level", "3",
		"--on-error", "stop", "--debug", "--raw", "own=1", "--keys", `[1,"two"]`)
	v, err := c.View.request()
	require.NoError(t, err)
	v.Bucket = "b"
	h, err := v.HTTP()
	require.NoError(t, err)
	require.Equal(t, "/b/_design/dev_d/_view/v", h.Path)
	want := url.Values{}
	for name, value := range map[string]string{
		"stale": "false", "descending": "true", "skip": "1", "limit": "2", "startkey": "[1]", "endkey": `"z"`, "startkey_docid": "a",
		"endkey_docid": "b", "inclusive_end": "false", "reduce": "false", "group_level": "3", "on_error": "stop", "debug": "true",
		"own": "1", "keys": `[1,"two"]`,
	} {
		want.Set(name, value)
	}
	require.Equal(t, want, h.Query)
}
