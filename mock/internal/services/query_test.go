package services_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// prepare sends PREPARE the older way and returns the two things that executions need.
func (a *asker) prepare(statement string) (name, plan string) {
	a.t.Helper()
	got := a.query(`{"statement":` + quoted("PREPARE "+statement) + `}`)
	q := got.query(a.t)
	require.Len(a.t, q.Results, 1, "%s", got.body)
	var row struct {
		Name string `json:"name"`
		Plan string `json:"encoded_plan"`
	}
	require.NoError(a.t, json.Unmarshal(q.Results[0], &row))
	return row.Name, row.Plan
}

func quoted(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// code is the first error's code; 0 without one.
func (q queryAnswer) code() int {
	if len(q.Errors) == 0 {
		return 0
	}
	return q.Errors[0].Code
}

func TestClassicPreparedStatements(t *testing.T) {
	c := mock.Start(t, mock.Capabilities("n1ql"))
	a := newAsker(t, c)
	s := c.ScriptQuery("FROM cars", mock.Answer{Rows: []string{"1"}})
	name, plan := a.prepare("SELECT a FROM cars")
	require.Zero(t, s.Fired(), "preparing does not execute")
	require.Equal(t, map[string]string{"SELECT a FROM cars": name}, c.Prepared())
	again, _ := a.prepare("SELECT a FROM cars")
	require.Equal(t, name, again)
	auto := a.query(`{"statement":"PREPARE SELECT a FROM cars","auto_execute":true}`).query(t)
	require.Empty(t, auto.Prepared, "without the capability auto_execute means nothing")
	require.Zero(t, s.Fired())

	byName := `{"prepared":` + quoted(name) + `}`
	withPlan := `{"prepared":` + quoted(name) + `,"encoded_plan":` + quoted(plan) + `}`
	require.Len(t, a.query(byName).query(t).Results, 1)
	require.Len(t, a.query(withPlan).query(t).Results, 1)
	require.Equal(t, 2, s.Fired())

	require.Equal(t, 1, c.ForgetPrepared())
	got := a.query(byName)
	require.Equal(t, 404, got.status)
	require.Equal(t, 4040, got.query(t).code())
	require.Equal(t, 4070, a.query(`{"prepared":"x","encoded_plan":"???"}`).query(t).code())
	require.Equal(t, 4080, a.query(`{"prepared":"x","encoded_plan":`+quoted(plan)+`}`).query(t).code())
	require.Equal(t, 2, s.Fired())
	require.Len(t, a.query(withPlan).query(t).Results, 1, "the plan brings the statement back")
	require.Len(t, a.query(byName).query(t).Results, 1)

	for _, code := range []int{4050, 4060, 4090, 5000} {
		require.Equal(t, 1, c.FailPrepared(code))
		require.Equal(t, code, a.query(withPlan).query(t).code())
		require.Empty(t, c.Prepared())
		name, plan = a.prepare("SELECT a FROM cars")
		c.ForgetPrepared()
		withPlan = `{"prepared":` + quoted(name) + `,"encoded_plan":` + quoted(plan) + `}`
		require.Zero(t, a.query(withPlan).query(t).code())
	}
	_, err := base64.StdEncoding.DecodeString(plan)
	require.NoError(t, err)
}

func TestEnhancedPreparedStatements(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := newAsker(t, c)
	s := c.ScriptQuery("FROM cars", mock.Answer{Rows: []string{"1", "2"}})
	got := a.query(`{"statement":"PREPARE SELECT a FROM cars","auto_execute":true}`)
	q := got.query(t)
	require.Len(t, q.Results, 2)
	require.Equal(t, c.Prepared()["SELECT a FROM cars"], q.Prepared)
	require.Less(t, bytes.Index(got.body, []byte(`"prepared"`)), bytes.Index(got.body, []byte(`"results"`)))
	require.Equal(t, 1, s.Fired())
	got, err := a.try(1, mock.QueryService, "POST", "/query/service", `{"prepared":`+quoted(q.Prepared)+`}`, nil)
	require.NoError(t, err)
	require.Empty(t, got.query(t).Prepared)
	require.Equal(t, 2, s.Fired())
}

func TestStatementsPreparedByName(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	require.Len(t, a.query(`{"statement":"PREPARE mine FROM SELECT 7 AS n"}`).query(t).Results, 1)
	for _, body := range []string{
		`{"statement":"EXECUTE mine"}`, `{"statement":"EXECUTE 'mine' USING {}"}`, `{"prepared":"mine"}`,
	} {
		require.JSONEq(t, `[{"n":7}]`, string(results(t, a.query(body).query(t))), body)
	}
	unknown := a.query(`{"statement":"EXECUTE other"}`)
	require.Equal(t, 404, unknown.status)
	require.Equal(t, 4040, unknown.query(t).code())
	require.NotContains(t, string(unknown.body), `"retry"`, "no hint")
	require.Equal(t, 3000, a.query(`{"statement":"PREPARE nonsense"}`).query(t).code())
	s := c.Script(mock.ServiceMatch{Service: mock.QueryService, Preparing: true, Statement: "bad"},
		mock.Answer{Errors: []mock.ServiceError{{Code: 4000, Message: "no plan"}}})
	require.Equal(t, 4000, a.query(`{"statement":"PREPARE SELECT bad"}`).query(t).code())
	require.Equal(t, 1, s.Fired())
}

func results(t testing.TB, q queryAnswer) []byte {
	t.Helper()
	b, err := json.Marshal(q.Results)
	require.NoError(t, err)
	return b
}

func TestStatementsWithoutAScript(t *testing.T) {
	a := newAsker(t, mock.Start(t))
	for _, row := range []struct {
		body   string
		status int
		code   int
		want   string
	}{
		{`{"statement":"SELECT 1"}`, 200, 0, `[{"$1":1}]`},
		{`{"statement":"select 1=1;"}`, 200, 0, `[{"$1":true}]`},
		{`{"statement":"SELECT 2 = 1 AS same"}`, 200, 0, `[{"same":false}]`},
		{`{"statement":"SELECT RAW 'x'"}`, 200, 0, `["x"]`},
		{`{"statement":"SELECT $2 AS v","args":[1,{"a":[2]}]}`, 200, 0, `[{"v":{"a":[2]}}]`},
		{`{"statement":"SELECT $name AS v","$name":"n"}`, 200, 0, `[{"v":"n"}]`},
		{`{"statement":"SELECT MOCKROW"}`, 200, 0, `[{"row":"value"}]`},
		{`{"statement":"SELECT EMPTYROW"}`, 200, 0, `[]`},
		{`{"statement":"SELECT idx.* FROM system:indexes AS idx"}`, 200, 0, `[]`},
		{`{"statement":"SELECT * FROM nowhere"}`, 424, 12003, ``},
		{`{"statement":"INSERT INTO b (KEY, VALUE) VALUES (1, 2)","readonly":true}`, 403, 1000, ``},
		{`{"statement":"how are you"}`, 400, 3000, ``},
		{`{"statement":"SELECT a+"}`, 400, 3000, ``},
		{`{"statement":""}`, 400, 1050, ``},
		{`nonsense`, 400, 1050, ``},
		{`[]`, 400, 1050, ``},
	} {
		t.Run(row.body, func(t *testing.T) {
			a.t = t
			got := a.query(row.body)
			q := got.query(t)
			require.Equal(t, row.status, got.status)
			require.Equal(t, row.code, q.code())
			if row.want != "" {
				require.JSONEq(t, row.want, string(results(t, q)))
				require.Equal(t, "success", q.Status)
			} else {
				require.Equal(t, "errors", q.Status)
			}
		})
	}
	a.t = t
	got, err := a.try(0, mock.QueryService, "POST", "/query/service", "statement=SELECT+1", func(r *http.Request) {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	})
	require.NoError(t, err)
	require.Len(t, got.query(t).Results, 1)
	require.Len(t, a.do(mock.QueryService, "GET", "/query/service?statement=SELECT+1", "").query(t).Results, 1)
	require.Equal(t, 404, a.do(mock.QueryService, "GET", "/elsewhere", "").status)
}

func TestAnalytics(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	for _, path := range []string{"/query/service", "/analytics/service"} {
		q := a.do(mock.AnalyticsService, "POST", path, `{"statement":"SELECT 1","client_context_id":"i"}`).query(t)
		require.Len(t, q.Results, 1)
		require.Contains(t, q.Metrics, "processedObjects")
	}
	require.Equal(t, 24045, a.do(mock.AnalyticsService, "POST", "/query/service", `{"statement":"SELECT * FROM x"}`).query(t).code())
	c.ScriptAnalytics("busy", mock.Answer{Errors: []mock.ServiceError{{Code: 23000, Message: "busy", Retry: true}}},
		mock.Answer{Rows: []string{"1"}})
	got := a.do(mock.AnalyticsService, "POST", "/query/service", `{"statement":"SELECT busy"}`)
	require.Contains(t, string(got.body), `"retriable":true`)
	require.Zero(t, a.do(mock.AnalyticsService, "POST", "/query/service", `{"statement":"SELECT busy"}`).query(t).code())
	require.Equal(t, "{}", string(a.do(mock.AnalyticsService, "GET", "/analytics/node/agg/stats/remaining", "").body))
}

func TestScriptsInTurn(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2))
	a := newAsker(t, c)
	ask := func() string { return string(a.query(`{"statement":"SELECT x"}`).body) }
	low := c.ScriptQuery("x", mock.Answer{Body: []byte("low")})
	s := c.Script(mock.ServiceMatch{
		Service: mock.QueryService, Pattern: regexp.MustCompile("^SELECT x$"), Skip: 1,
		Times: 3,
	},
		mock.Answer{Body: []byte("first")}, mock.Answer{Func: func(rq *mock.ServiceRequest) mock.Answer {
			return mock.Answer{Body: []byte(rq.Member("statement")), Status: 418}
		}})
	require.Equal(t, "low", ask())
	require.Equal(t, "first", ask())
	require.Equal(t, `"SELECT x"`, ask())
	require.Equal(t, `"SELECT x"`, ask())
	require.Equal(t, "low", ask(), "used up")
	require.Equal(t, 3, s.Fired())
	require.NoError(t, s.WaitFired(t.Context(), 3))
	low.Remove()
	require.Contains(t, ask(), "3080")
	c.Script(mock.ServiceMatch{Nodes: []int{1}}, mock.Answer{Body: []byte("two")})
	require.Contains(t, ask(), "3080")
	got, err := a.try(1, mock.SearchService, "GET", "/any", "", nil)
	require.NoError(t, err)
	require.Equal(t, "two", string(got.body))
}

func TestMembersOfAnAnswer(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	c.ScriptQuery("x", mock.Answer{
		Rows: []string{"1"}, RowsLast: true, Header: http.Header{"retry-after": {"3"}},
		Members:  map[string]string{"metrics": "", "status": `"completed"`, "extra": `{"a":[]}`},
		Warnings: []mock.ServiceError{{Code: 5, Message: "slow"}}, Errors: []mock.ServiceError{{Raw: `{"code":"text"}`}},
	})
	got := a.query(`{"statement":"SELECT x","profile":"timings"}`)
	require.Equal(t, "3", got.header.Get("Retry-After"))
	require.Regexp(t, `^\{"requestID":"[0-9a-f]+","signature":\{"\*":"\*"\},"errors":\[\{"code":"text"\}\],"warnings":\[\{"code":5,"msg":"slow"\}\],`+
		`"status":"completed","profile":\{.*\},"extra":\{"a":\[\]\},"results":\[1\]\}`+"\n$", string(got.body))
}
