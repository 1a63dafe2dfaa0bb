package main

import (
	"bytes"
	"context"
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
	"github.com/couchcore/couchcore/mock/viewjs"
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
func (r *fakeRows) RetryInfo() retry.Info { return retry.Info{Counted: 1} }

// streamed is what a stream of rows prints.
func streamed(t *testing.T, asJSON, verbose bool, rows *fakeRows, meta string, warnings ...string) (result, error) {
	t.Helper()
	var out, errs bytes.Buffer
	a := newApp(strings.NewReader(""), &out, &errs, func(string) string { return "" })
	a.json = asJSON
	f := &clusterFlags{Verbose: verbose}
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
	require.Regexp(t, "^3 rows  0\\.\\d\\d ms  n1:8093\nwarning   5001 slow index\n{\"status\":\"success\"}\n$",
		r.stderr)

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
	require.Contains(t, r.stderr, "attempts  2")
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
	info := retry.Info{Counted: 2, Reasons: retry.Reasons(0).With(retry.QueryIndexNotFound)}
	var q query.Error
	q.Kind, q.Status, q.Endpoint, q.Retry, q.InDoubt = cberr.IndexNotFound, 404, "n1:8093", info, true
	f := failureOf(&q)
	require.Equal(t, failure{
		Kind: "index_not_found", Message: f.Message, Ambiguous: true, Status: "404", Attempts: 3,
		RetryReasons: []string{"QUERY_INDEX_NOT_FOUND"},
	}, f)
	var s search.Error
	s.Kind, s.Status = cberr.RateLimited, 429
	require.Equal(t, "429", failureOf(&s).Status)
	var v views.Error
	v.Kind = cberr.ViewNotFound
	require.Equal(t, "view_not_found", failureOf(&v).Kind)
	require.Zero(t, failureOf(&v).Attempts)
}

func TestRowCommandsWithoutTheService(t *testing.T) {
	_, c := startMock(t, mock.Services(mock.KVService))
	c.run("query", "SELECT 1", "--timeout", "250ms").failsWith(t, exitNotApplied,
		"no node of the cluster map offers the service")
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

func TestRowCommands(t *testing.T) {
	m, c := startMock(t, mock.Views(viewjs.New(viewjs.Options{})))
	require.NoError(t, m.PutDesignDocument(mock.DefaultBucket, "d", `{"views":{"v":{"map":"function (doc, meta) { emit(doc.n, meta.id) }","reduce":"_count"}}}`))
	for _, doc := range []string{"a", "b"} {
		require.Zero(t, c.run("kv", "upsert", doc, `{"n":"`+doc+`"}`).code)
	}
	m.ScriptSearch("i", mock.Answer{Rows: []string{`{"index":"i_1","id":"a","score":1.5}`}})
	for _, x := range []struct {
		args, rows string
	}{
		{"query SELECT+1+AS+n", `{"n":1}`},
		{"query SELECT+$1+AS+n --arg 7 --prepare --readonly", `{"n":7}`},
		{"query SELECT+RAW+$x --named x=text --metrics --scope _default", `"text"`},
		{"analytics SELECT+RAW+5 --priority", `5`},
		{"search i air", `{"index":"i_1","id":"a","score":1.5}`},
		{
			"view d v --no-reduce --stale false",
			"{\"id\":\"a\",\"key\":\"a\",\"value\":\"a\"}\n{\"id\":\"b\",\"key\":\"b\",\"value\":\"b\"}",
		},
		{"view d v --stale false", `{"key":null,"value":2}`},
	} {
		args := strings.Fields(x.args)
		for i := range args {
			args[i] = strings.ReplaceAll(args[i], "+", " ")
		}
		r := c.run(args...)
		require.Zero(t, r.code, "%s: %s", x.args, r.stderr)
		require.Equal(t, x.rows+"\n", r.stdout, x.args)
		require.Regexp(t, `^\d rows?  [\d.]+ m?s  127\.0\.0\.1:\d+\n\{.*\}\n$`, r.stderr, x.args)

		r = c.run(append(args, "--json")...)
		require.Zero(t, r.code, r.stderr)
		require.Empty(t, r.stderr)
		lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
		require.JSONEq(t, `{"row":`+strings.Split(x.rows, "\n")[0]+`}`, lines[0])
		var last map[string]map[string]any
		require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
		require.Contains(t, last, "meta")
	}
	c.stdin = "SELECT RAW 9"
	require.Equal(t, "9\n", c.run("query", "-").stdout)
}

func TestRowCommandsThatFail(t *testing.T) {
	m, c := startMock(t)
	m.Script(mock.ServiceMatch{Service: mock.QueryService, Statement: "cut"}, mock.Answer{
		Rows: []string{"1", "2"}, Errors: []mock.ServiceError{{Code: 1080, Message: "Timeout exceeded"}}, Status: 200,
	})
	r := c.run("query", "SELECT cut", "--readonly")
	require.Equal(t, exitNotApplied, r.code)
	require.Equal(t, "1\n2\n", r.stdout)
	require.Contains(t, r.stderr, "1080 Timeout exceeded")
	r = c.run("query", "SELECT cut", "--json")
	require.Equal(t, exitInDoubt, r.code)
	lines := strings.Split(strings.TrimSpace(r.stdout), "\n")
	require.Equal(t, []string{`{"row":1}`, `{"row":2}`}, lines[:2])
	var last struct{ Error failure }
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, "ambiguous_timeout", last.Error.Kind)
	require.True(t, last.Error.Ambiguous)
	require.Equal(t, "200", last.Error.Status)

	for args, kind := range map[string]string{
		"query nonsense": "parsing_failure", "query SELECT+*+FROM+x": "index_failure",
		"analytics SELECT+*+FROM+x": "dataset_not_found",
		"search nosuch x":           "index_not_found", "query SELECT+1 --endpoint 127.0.0.1:1": "invalid_argument",
		"query SELECT+1 -p wrong": "authentication_failure",
	} {
		list := strings.Fields(args)
		for i := range list {
			list[i] = strings.ReplaceAll(list[i], "+", " ")
		}
		r := c.run(append(list, "--json")...)
		require.Equal(t, exitFailed, r.code, "%s: %s", args, r.stderr)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
		require.Equal(t, kind, r.object(t)["error"].(map[string]any)["kind"], args)
	}
	r = c.run("view", "d", "nosuch", "--timeout", "1s", "--json")
	require.Equal(t, exitNotApplied, r.code, "a design document that is missing may still come")
	require.Contains(t, r.object(t)["error"].(map[string]any)["retry_reasons"], "VIEWS_TEMPORARY_FAILURE")
}

// TestExplainAgreesWithTheServices lets the mock answer real requests with failures, and compares.
func TestExplainAgreesWithTheServices(t *testing.T) {
	m, c := startMock(t)
	for _, x := range []struct {
		command, service string
		id               mock.Service
		answer           mock.Answer
		ask              explainCmd
	}{
		{
			"query x", "query", mock.QueryService,
			mock.Answer{Errors: []mock.ServiceError{{Code: 4040}}},
			explainCmd{Code: "4040"},
		},
		{
			"query x", "query", mock.QueryService,
			mock.Answer{Errors: []mock.ServiceError{{Code: 3000}}},
			explainCmd{Code: "3000"},
		},
		{
			"query x", "query", mock.QueryService,
			mock.Answer{Errors: []mock.ServiceError{{Code: 12009}}},
			explainCmd{Code: "12009"},
		},
		{"query x", "query", mock.QueryService, mock.Answer{Status: 429, Body: []byte("{}")}, explainCmd{HTTP: "429"}},
		{
			"query x --readonly", "query", mock.QueryService,
			mock.Answer{Status: 503, Body: []byte("{}")},
			explainCmd{HTTP: "503", Readonly: true},
		},
		{"query x", "query", mock.QueryService, mock.Answer{Status: 503, Body: []byte("{}")}, explainCmd{HTTP: "503"}},
		{"query x", "query", mock.QueryService, mock.Answer{Close: true}, explainCmd{LostSocket: true}},
		{"query x --readonly", "query", mock.QueryService, mock.Answer{Close: true}, explainCmd{
			LostSocket: true,
			Readonly:   true,
		}},
		{
			"analytics x", "analytics", mock.AnalyticsService,
			mock.Answer{Errors: []mock.ServiceError{{Code: 23000}}},
			explainCmd{Code: "23000"},
		},
		{
			"analytics x", "analytics", mock.AnalyticsService,
			mock.Answer{Errors: []mock.ServiceError{{Code: 24000}}},
			explainCmd{Code: "24000"},
		},
		{
			"search i q", "search", mock.SearchService,
			mock.Answer{Status: 429, Body: []byte("busy")},
			explainCmd{HTTP: "429"},
		},
		{
			"search i q", "search", mock.SearchService,
			mock.Answer{Status: 400, Body: []byte("bad")},
			explainCmd{HTTP: "400"},
		},
		{"view d v", "views", mock.ViewsService, mock.Answer{Status: 500, Body: []byte("{}")}, explainCmd{HTTP: "500"}},
		{"view d v", "views", mock.ViewsService, mock.Answer{Status: 302, Body: []byte("{}")}, explainCmd{HTTP: "302"}},
		{"view d v", "views", mock.ViewsService, mock.Answer{Status: 400, Body: []byte("{}")}, explainCmd{HTTP: "400"}},
	} {
		x.ask.Service, x.ask.Op = x.service, "query"
		good := m.Script(mock.ServiceMatch{Service: x.id}, mock.Answer{})
		bad := m.Script(mock.ServiceMatch{Service: x.id, Times: 1}, x.answer)
		r := c.run(append(strings.Fields(x.command), "--json", "-v")...)
		require.Equal(t, 1, bad.Fired())
		bad.Remove()
		good.Remove()
		e := explainedAs(t, x.ask)
		if e["decision"] == "retry" {
			require.Zero(t, r.code, "%+v: %s", x.ask, r.stderr)
			require.Contains(t, r.stderr, e["reason"], "%+v", x.ask)
			continue
		}
		require.NotZero(t, r.code, "%+v", x.ask)
		require.Equal(t, e["error"], r.object(t)["error"].(map[string]any)["kind"], "%+v", x.ask)
	}
}

func TestRowCommandsUsage(t *testing.T) {
	_, c := startMock(t)
	for line, text := range map[string]string{
		"query":                           `expected "<statement>"`,
		"query x --collection c":          "unknown flag --collection",
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
		"view d v --keys 1":               "not an array",
		"view d v --scope s":              "unknown flag --scope",
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

// seen is a doer that sends nothing.
type seen struct{ request *httpsvc.Request }

var errSeen = errors.New("the request has been seen")

func (s *seen) Do(_ context.Context, r *httpsvc.Request) (*httpsvc.Response, error) {
	s.request = r
	return nil, errSeen
}

func TestFlagsOfRowCommandsReachTheRequest(t *testing.T) {
	a := newApp(strings.NewReader(""), nil, nil, func(string) string { return "" })
	var c cli
	parse := func(args ...string) {
		t.Helper()
		k, err := kong.New(&c, helpVars)
		require.NoError(t, err)
		_, err = k.Parse(args)
		require.NoError(t, err)
	}
	var d seen
	body := func() string {
		t.Helper()
		b, err := d.request.Body(time.Second)
		require.NoError(t, err)
		return string(b)
	}

	parse("query", "SELECT $1, $n", "--arg", "5", "--arg", "a text", "--named", `n={"x":[1,2]}`, "--readonly", "--scope", "s", "-b", "b",
		"--scan-consistency", "request-plus", "--scan-wait", "2s", "--profile", "timings", "--metrics",
		"--preserve-expiry",
		"--use-replica", "--flex-index", "--max-parallelism", "1", "--pipeline-batch", "2", "--pipeline-cap", "3",
		"--scan-cap", "4",
		"--client-context-id", "id", "--raw", "own=true", "--endpoint", "h:1")
	q, err := c.Query.request(a)
	require.NoError(t, err)
	q.Bucket = "b"
	require.Equal(t, "h:1", q.Endpoint)
	_, err = query.NewService(query.ServiceOptions{}).Run(t.Context(), &d, q)
	require.ErrorIs(t, err, errSeen)
	require.JSONEq(t, `{
		"statement":"SELECT $1, $n","args":[5,"a text"],"$n":{"x":[1,2]},"readonly":true,"query_context":"default:`+"`b`.`s`"+`",
		"scan_consistency":"request_plus","scan_wait":"2s","profile":"timings","metrics":true,"preserve_expiry":true,
		"use_replica":"on","use_fts":true,"max_parallelism":"1","pipeline_batch":"2","pipeline_cap":"3","scan_cap":"4",
		"client_context_id":"id","own":true,"timeout":"1s"}`, body())

	parse("search", "i", "name:air", "--limit", "5", "--skip", "2", "--fields", "a,b", "--sort=-name", "--sort", `{"by":"score"}`,
		"--collections", "c", "--facet", `f={"field":"x","size":1}`, "--vector", "v=[0.5,1]", "--k", "7", "--highlight", "html",
		"--explain", "--locations", "--no-scoring", "--raw", "own=1")
	s, err := c.Search.request(a)
	require.NoError(t, err)
	_, err = search.Run(t.Context(), &d, s, nil)
	require.ErrorIs(t, err, errSeen)
	got := body()
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
	_, err = search.Run(t.Context(), &d, s, nil)
	require.ErrorIs(t, err, errSeen)
	require.Contains(t, body(), `"query":{"match":"air"}`)

	parse("view", "d", "v", "--dev", "--stale", "false", "--descending", "--skip", "1", "--limit", "2", "--start-key",
		"[1]",
		"--end-key", `"z"`, "--start-key-doc-id", "a", "--end-key-doc-id", "b", "--exclusive-end", "--no-reduce", "--group-level", "3",
		"--on-error", "stop", "--debug", "--raw", "own=1", "--keys", `[1,"two"]`)
	v, err := c.View.request()
	require.NoError(t, err)
	v.Bucket = "b"
	_, err = views.Run(t.Context(), &d, v)
	require.ErrorIs(t, err, errSeen)
	require.Equal(t, "/b/_design/dev_d/_view/v", d.request.Path)
	want := url.Values{}
	for name, value := range map[string]string{
		"stale": "false", "descending": "true", "skip": "1", "limit": "2", "startkey": "[1]", "endkey": `"z"`, "startkey_docid": "a",
		"endkey_docid": "b", "inclusive_end": "false", "reduce": "false", "group_level": "3", "on_error": "stop",
		"debug": "true",
		"own":   "1", "keys": `[1,"two"]`,
	} {
		want.Set(name, value)
	}
	require.Equal(t, want, d.request.Query)
}
