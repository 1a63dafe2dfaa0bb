package httpx_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

// planner is a query service that knows plans. fail is the answer to the next executions, "" for a good one.
type planner struct {
	enhanced bool
	plans    map[string]string // name -> statement
	prepares int
	runs     []string // statements that were executed
	fail     []string
}

// serve answers a request whose body was read already.
func (p *planner) serve(rw http.ResponseWriter, body string) {
	var m map[string]any
	_ = json.Unmarshal([]byte(body), &m)
	statement, _ := m["statement"].(string)
	name, _ := m["prepared"].(string)
	prepared := ""
	if tail, is := strings.CutPrefix(statement, "PREPARE "); is {
		p.prepares++
		name = fmt.Sprintf("plan%d", p.prepares)
		p.plans[name] = tail
		if m["auto_execute"] != true {
			_, _ = fmt.Fprintf(rw, `{"results":[{"name":%q,"encoded_plan":"H4sI"}],"status":"success"}`, name)
			return
		}
		prepared = fmt.Sprintf(`"prepared":%q,`, name)
	}
	if name != "" {
		var known bool
		if statement, known = p.plans[name]; !known {
			rw.WriteHeader(404)
			_, _ = rw.Write([]byte(`{"errors":[{"code":4040,"msg":"no such prepared statement"}],"status":"fatal"}`))
			return
		}
	}
	p.runs = append(p.runs, statement)
	if len(p.fail) > 0 {
		answer := p.fail[0]
		p.fail = p.fail[1:]
		if answer != "" {
			_, _ = rw.Write([]byte(answer))
			return
		}
	}
	_, _ = fmt.Fprintf(rw, `{"requestID":"1",%s"results":[{"n":1}],"status":"success"}`, prepared)
}

// planWorld is a client of a planner.
func planWorld(t *testing.T, p *planner, s setup) (*world, *query.Service) {
	p.plans = map[string]string{}
	var w *world
	w = newWorld(t, func(rw http.ResponseWriter, _ *http.Request) {
		got := w.requests()
		p.serve(rw, got[len(got)-1].body)
	}, s)
	return w, query.NewService(query.ServiceOptions{Supports: func(c string) (bool, bool) {
		return c == "enhancedPreparedStatements" && p.enhanced, true
	}})
}

func (w *world) query(s *query.Service, r *query.Request) ([]string, error) {
	rows, err := s.Run(w.t.Context(), w.client, r)
	return drainRows(orNil(rows, err))
}

// field is what a request's body says.
func field(t *testing.T, s seen, name string) any {
	t.Helper()
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(s.body), &m))
	return m[name]
}

// TestCB62ClassicPlansArePreparedAgain: one request makes the plan and each later one runs it; a plan that the service
// has forgotten is made again, within one retry.
func TestCB62ClassicPlansArePreparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &planner{}
		w, s := planWorld(t, p, setup{})
		r := &query.Request{Statement: "SELECT 1", Prepare: true, Readonly: true, Positional: []any{5}}
		for range 3 {
			rows, err := w.query(s, r)
			require.NoError(t, err)
			require.Equal(t, []string{`{"n":1}`}, rows)
		}
		got := w.requests()
		require.Len(t, got, 4)
		require.Equal(t, "PREPARE SELECT 1", field(t, got[0], "statement"))
		require.Nil(t, field(t, got[0], "args"))
		for _, g := range got[1:] {
			require.Nil(t, field(t, g, "statement"))
			require.Equal(t, "plan1", field(t, g, "prepared"))
			require.Equal(t, "H4sI", field(t, g, "encoded_plan"))
			require.Equal(t, []any{5.0}, field(t, g, "args"))
		}
		clear(p.plans)
		rows, err := s.Run(t.Context(), w.client, r)
		require.NoError(t, err)
		require.Equal(t, 1, rows.RetryInfo().Counted)
		require.Equal(t, retry.QueryPreparedStatementFailure, rows.RetryInfo().Reason)
		_, err = drainRows(rows, nil)
		require.NoError(t, err)
		got = w.requests()[4:]
		require.Len(t, got, 3)
		require.Equal(t, "plan1", field(t, got[0], "prepared"))
		require.Equal(t, "PREPARE SELECT 1", field(t, got[1], "statement"))
		require.Equal(t, "plan2", field(t, got[2], "prepared"))
	})
}

// TestB87B90EnhancedPlansArePreparedAgain: the first request makes the plan and runs it; later ones send its name
// alone; plans are apart by scope.
func TestB87B90EnhancedPlansArePreparedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &planner{enhanced: true}
		w, s := planWorld(t, p, setup{})
		r := &query.Request{Statement: "UPDATE x", Prepare: true}
		for range 2 {
			_, err := w.query(s, r)
			require.NoError(t, err)
		}
		got := w.requests()
		require.Equal(t, "PREPARE UPDATE x", field(t, got[0], "statement"))
		require.Equal(t, true, field(t, got[0], "auto_execute"))
		require.Equal(t, "plan1", field(t, got[1], "prepared"))
		require.Nil(t, field(t, got[1], "statement"))
		require.Nil(t, field(t, got[1], "auto_execute"))
		require.Nil(t, field(t, got[1], "encoded_plan"))
		_, err := w.query(s, &query.Request{Statement: "UPDATE x", Prepare: true, Bucket: "b", Scope: "s"})
		require.NoError(t, err)
		require.Equal(t, 2, p.prepares)
		clear(p.plans)
		_, err = w.query(s, r) // forgotten: refused, then made and run at once
		require.NoError(t, err)
		got = w.requests()[3:]
		require.Len(t, got, 2)
		require.Equal(t, "plan1", field(t, got[0], "prepared"))
		require.Equal(t, "PREPARE UPDATE x", field(t, got[1], "statement"))
		require.Len(t, p.runs, 4)
		rows, err := s.Run(t.Context(), w.client, r) // closed before its end: the name was known by then
		require.NoError(t, err)
		require.NoError(t, rows.Close())
	})
}

// TestCachedPlanThatWritesRunsOnce: whatever the service says of a retry, only the codes of plans have it run again.
func TestCachedPlanThatWritesRunsOnce(t *testing.T) {
	for _, enhanced := range []bool{false, true} {
		for code := 1000; code < 26000; code += 250 {
			for _, msg := range []string{"x", "queryport.indexNotFound"} {
				if code == 5000 && msg != "x" {
					continue // nothing was executed: see core/field
				}
				answer := fmt.Sprintf(`{"errors":[{"code":%d,"msg":%q,"retry":true}],"status":"errors"}`, code, msg)
				synctest.Test(t, func(t *testing.T) {
					p := &planner{enhanced: enhanced, fail: []string{"", answer}}
					w, s := planWorld(t, p, setup{retry: retry.Options{Default: retry.BestEffort{}}})
					r := &query.Request{Statement: "DELETE FROM x", Prepare: true}
					_, err := w.query(s, r)
					require.NoError(t, err)
					_, err = w.query(s, r)
					require.Error(t, err, answer)
					require.Len(t, p.runs, 2, answer)
				})
			}
		}
		for _, code := range []int{4040, 4050, 4060, 4070, 4080, 4090} {
			synctest.Test(t, func(t *testing.T) {
				p := &planner{enhanced: enhanced, fail: []string{"", fmt.Sprintf(`{"errors":[{"code":%d}]}`, code)}}
				w, s := planWorld(t, p, setup{})
				r := &query.Request{Statement: "DELETE FROM x", Prepare: true}
				for range 2 {
					_, err := w.query(s, r)
					require.NoError(t, err)
				}
				require.Equal(t, 2, p.prepares)
			})
		}
	}
	synctest.Test(t, func(t *testing.T) { // one that reads is retried like any other
		p := &planner{fail: []string{"", `{"errors":[{"code":12000,"retry":true}]}`}}
		w, s := planWorld(t, p, setup{})
		r := &query.Request{Statement: "SELECT 1", Prepare: true, Readonly: true}
		for range 2 {
			_, err := w.query(s, r)
			require.NoError(t, err)
		}
		require.Equal(t, 1, p.prepares)
	})
}

// TestPreparingFails: the statement was not run, so its failure is no doubt.
func TestPreparingFails(t *testing.T) {
	for body, want := range map[string]error{
		`{"errors":[{"code":3000,"msg":"syntax"}]}`: cberr.ParsingFailure, `{"results":[]}`: cberr.DecodingFailure,
		`{"results":[{"name":7}]}`: nil,
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, script(answer{200, body, ""}), setup{})
			_, err := w.query(query.NewService(query.ServiceOptions{}), &query.Request{
				Statement: "UPDATE x",
				Prepare:   true,
			})
			if want == nil {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, want)
			var e *query.Error
			require.ErrorAs(t, err, &e)
			require.False(t, e.Ambiguous())
			require.Equal(t, "UPDATE x", e.Statement)
			require.Equal(t, 1, w.count())
		})
	}
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, setup{})
		_, err := w.query(query.NewService(query.ServiceOptions{}), &query.Request{
			Statement: "UPDATE x",
			Prepare:   true,
		})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
	})
}

// TestPlansAreBoundedD112: by number, the least recently used first; by memory see package query.
func TestPlansAreBoundedD112(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &planner{enhanced: true}
		w, _ := planWorld(t, p, setup{})
		s := query.NewService(query.ServiceOptions{MaxPlans: 10, Supports: func(string) (bool, bool) {
			return true,
				true
		}})
		run := func(i int) {
			_, err := w.query(s, &query.Request{Statement: fmt.Sprint("SELECT ", i), Prepare: true})
			require.NoError(t, err)
		}
		for i := range 10 {
			run(i)
		}
		run(0) // used again: it stays
		require.Equal(t, 10, p.prepares)
		run(10)
		run(0)
		require.Equal(t, 11, p.prepares)
		run(1) // it was the least recently used
		require.Equal(t, 12, p.prepares)
	})
}

// TestPlansOfTheOldKindAreDropped when the cluster learns to make and run them in one request, and never come back.
func TestPlansOfTheOldKindAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &planner{}
		w, s := planWorld(t, p, setup{})
		r := &query.Request{Statement: "SELECT 1", Prepare: true}
		_, err := w.query(s, r)
		require.NoError(t, err)
		p.enhanced = true
		_, err = w.query(s, r)
		require.NoError(t, err)
		require.Equal(t, true, field(t, w.requests()[2], "auto_execute"))
		p.enhanced = false
		_, err = w.query(s, r)
		require.NoError(t, err)
		require.Nil(t, field(t, w.requests()[3], "encoded_plan"))
		require.Len(t, w.requests(), 4)
	})
}
