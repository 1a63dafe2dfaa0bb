package services_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// viewAnswer is what a view answers.
type viewAnswer struct {
	TotalRows *int `json:"total_rows"`
	Rows      []struct {
		ID    *string         `json:"id"`
		Key   json.RawMessage `json:"key"`
		Value json.RawMessage `json:"value"`
	} `json:"rows"`
	Errors []struct {
		From   string `json:"from"`
		Reason string `json:"reason"`
	} `json:"errors"`
	DebugInfo map[string]any `json:"debug_info"`
	Error     string         `json:"error"`
	Reason    string         `json:"reason"`
}

// lines are the rows, one string each.
func (v *viewAnswer) lines() []string {
	out := []string{}
	for _, r := range v.Rows {
		id := "-"
		if r.ID != nil {
			id = *r.ID
		}
		out = append(out, fmt.Sprintf("%s %s %s", id, r.Key, r.Value))
	}
	return out
}

func (a *asker) view(path string) (int, viewAnswer) {
	a.t.Helper()
	return a.viewAnswer(a.do(mock.ViewsService, "GET", path, ""))
}

func (a *asker) viewAnswer(got answered) (int, viewAnswer) {
	a.t.Helper()
	var v viewAnswer
	require.NoError(a.t, got.err)
	require.NoError(a.t, json.Unmarshal(got.body, &v), "%s", got.body)
	return got.status, v
}

const shopViews = `{"views":{
	"all":{"map":"function (doc, meta) { emit(doc.kind, doc.price); }"},
	"count":{"map":"function (doc, meta) { emit([doc.kind, doc.color, meta.id], doc.price); }","reduce":"_count"},
	"sum":{"map":"function (doc, meta) { emit([doc.kind, doc.color, meta.id], doc.price); }","reduce":"_sum"},
	"stats":{"map":"function (doc, meta) { emit(doc.kind, doc.price); }","reduce":"_stats"},
	"custom":{"map":"function (doc, meta) { emit(doc.kind, doc.price); }",
		"reduce":"function (keys, values, re) { if (values[0] < 0) throw new Error('minus'); return 'n' + sum(values); }"},
	"text":{"map":"function (doc, meta) { emit(null, 'x'); }","reduce":"_sum"},
	"fails":{"map":"function (doc, meta) { if (doc.kind == 'car') throw 'no'; emit(meta.id, null); }"},
	"runaway":{"map":"function (doc, meta) { emit(1, 1); while (true) {} }"},
	"mixed":{"map":"function (doc, meta) { if (doc.keys) doc.keys.forEach(function (k) { emit(k, null); }); }"}
}}`

// shop is a cluster with a few documents and views over them.
func shop(t *testing.T, opts ...mock.Option) (*mock.Cluster, *asker) {
	c := mock.Start(t, append(opts, mock.Views(viewjs.New(viewjs.Options{Time: 300 * time.Millisecond})))...)
	require.NoError(t, c.PutDesignDocument("default", "shop", shopViews))
	r := documents(t, c)
	for _, d := range []struct{ id, doc string }{
		{"a", `{"kind":"car","color":"red","price":5}`},
		{"b", `{"kind":"car","color":"blue","price":7}`},
		{"c", `{"kind":"bike","color":"red","price":1}`},
		{"d", `{"kind":"bus","color":"red","price":20}`},
		{"e", `{"kind":"car","color":"red","price":9}`},
	} {
		r.store(d.id, d.doc)
	}
	return c, newAsker(t, c)
}

func TestViewQueries(t *testing.T) {
	_, a := shop(t)
	const all = "all?stale=false"
	for _, row := range []struct {
		query string
		want  []string
		total int // -1: not told
	}{
		{all, []string{`c "bike" 1`, `d "bus" 20`, `a "car" 5`, `b "car" 7`, `e "car" 9`}, 5},
		{all + "&descending=true", []string{`e "car" 9`, `b "car" 7`, `a "car" 5`, `d "bus" 20`, `c "bike" 1`}, 5},
		{all + "&limit=2&skip=1", []string{`d "bus" 20`, `a "car" 5`}, 5},
		{all + "&limit=0", []string{}, 5},
		{all + "&skip=9", []string{}, 5},
		{all + `&key="car"`, []string{`a "car" 5`, `b "car" 7`, `e "car" 9`}, 5},
		{all + `&startkey="bus"`, []string{`d "bus" 20`, `a "car" 5`, `b "car" 7`, `e "car" 9`}, 5},
		{all + `&startkey="bike"&endkey="bus"`, []string{`c "bike" 1`, `d "bus" 20`}, 5},
		{all + `&startkey="bike"&endkey="bus"&inclusive_end=false`, []string{`c "bike" 1`}, 5},
		{all + `&startkey="car"&startkey_docid=b`, []string{`b "car" 7`, `e "car" 9`}, 5},
		{all + `&startkey="car"&endkey="car"&endkey_docid=b`, []string{`a "car" 5`, `b "car" 7`}, 5},
		{all + `&startkey="car"&startkey_docid=b&descending=true`, []string{`b "car" 7`, `a "car" 5`, `d "bus" 20`, `c "bike" 1`}, 5},
		{all + `&startkey="bus"&endkey="bike"&descending=true`, []string{`d "bus" 20`, `c "bike" 1`}, 5},
		{all + `&keys=["bus","none","bike"]`, []string{`d "bus" 20`, `c "bike" 1`}, 5},
		{"count?stale=false", []string{`- null 5`}, -1},
		{"count?stale=false&reduce=false&limit=1", []string{`c ["bike","red","c"] 1`}, 5},
		{"count?stale=false&group_level=1", []string{`- ["bike"] 1`, `- ["bus"] 1`, `- ["car"] 3`}, -1},
		{"sum?stale=false&group_level=2", []string{`- ["bike","red"] 1`, `- ["bus","red"] 20`, `- ["car","blue"] 7`, `- ["car","red"] 14`}, -1},
		{"sum?stale=false&group_level=2&skip=2&limit=1", []string{`- ["car","blue"] 7`}, -1},
		{`sum?stale=false&startkey=["car"]&endkey=["car",{}]`, []string{`- null 21`}, -1},
		{`sum?stale=false&startkey=["zoo"]`, []string{}, -1},
		{"stats?stale=false&group=true&limit=2", []string{
			`- "bike" {"sum":1,"count":1,"min":1,"max":1,"sumsqr":1}`, `- "bus" {"sum":20,"count":1,"min":20,"max":20,"sumsqr":400}`,
		}, -1},
		{`stats?stale=false&group=true&keys=["car"]`, []string{`- "car" {"sum":21,"count":3,"min":5,"max":9,"sumsqr":155}`}, -1},
		{"custom?stale=false&group=true", []string{`- "bike" "n1"`, `- "bus" "n20"`, `- "car" "n21"`}, -1},
		{"fails?stale=false", []string{`c "c" null`, `d "d" null`}, 2},
	} {
		t.Run(row.query, func(t *testing.T) {
			a.t = t
			view, params, _ := cut(row.query)
			values, err := url.ParseQuery(params)
			require.NoError(t, err)
			status, v := a.view("/default/_design/shop/_view/" + view + "?" + values.Encode())
			require.Equal(t, 200, status)
			require.Empty(t, v.Errors)
			require.Equal(t, row.want, v.lines())
			if row.total < 0 {
				require.Nil(t, v.TotalRows)
			} else {
				require.Equal(t, row.total, *v.TotalRows)
			}
		})
	}
}

func cut(q string) (view, params string, ok bool) {
	for i := range q {
		if q[i] == '?' {
			return q[:i], q[i+1:], true
		}
	}
	return q, "", false
}

func TestKeysOfAViewInTheBody(t *testing.T) {
	_, a := shop(t)
	status, v := a.viewAnswer(a.do(mock.ViewsService, "POST", "/default/_design/shop/_view/all?stale=false", `{"keys":["bus","bike"]}`))
	require.Equal(t, 200, status)
	require.Equal(t, []string{`d "bus" 20`, `c "bike" 1`}, v.lines())
	status, v = a.viewAnswer(a.do(mock.ViewsService, "POST", "/default/_design/shop/_view/all", `[1]`))
	require.Equal(t, 400, status)
	require.Equal(t, "bad_request", v.Error)
}

func TestWrongViewQueries(t *testing.T) {
	_, a := shop(t)
	for _, row := range []struct {
		path          string
		status        int
		error, reason string
	}{
		{"shop/_view/all?stale=never", 400, "query_parse_error", "stale"},
		{"shop/_view/all?limit=-1", 400, "query_parse_error", "limit"},
		{"shop/_view/all?limit=x", 400, "query_parse_error", "limit"},
		{"shop/_view/all?descending=1", 400, "query_parse_error", "descending"},
		{"shop/_view/all?key=car", 400, "query_parse_error", "key"},
		{"shop/_view/all?keys=3", 400, "query_parse_error", "keys"},
		{"shop/_view/all?reduce=true", 400, "query_parse_error", "map view"},
		{"shop/_view/all?group=true", 400, "query_parse_error", "non-reduce view"},
		{"shop/_view/count?reduce=false&group_level=1", 400, "query_parse_error", "non-reduce view"},
		{"shop/_view/count?keys=%5B1%5D", 400, "query_parse_error", "group=true"},
		{"shop/_view/all?startkey=2&endkey=1", 400, "query_parse_error", "No rows can match"},
		{"shop/_view/nothing", 404, "not_found", "missing_named_view"},
		{"nothing/_view/all", 404, "not_found", "missing"},
		{"nothing", 404, "not_found", "missing"},
		{"shop/_view", 404, "not_found", "missing"},
		{"shop/_view/runaway?stale=false", 500, "error", "too much time"},
	} {
		t.Run(row.path, func(t *testing.T) {
			a.t = t
			status, v := a.view("/default/_design/" + row.path)
			require.Equal(t, row.status, status)
			require.Equal(t, row.error, v.Error)
			require.Contains(t, v.Reason, row.reason)
		})
	}
	a.t = t
	status, v := a.view("/absent/_design/shop/_view/all")
	require.Equal(t, 404, status)
	require.Equal(t, "not_found", v.Error)
}

func TestReduceErrors(t *testing.T) {
	c, a := shop(t)
	status, v := a.view("/default/_design/shop/_view/text?stale=false")
	require.Equal(t, 200, status)
	require.Empty(t, v.Rows)
	require.Contains(t, v.Errors[0].Reason, "_sum")
	documents(t, c).store("d", `{"kind":"bus","price":-1}`)
	_, v = a.view("/default/_design/shop/_view/custom?stale=false&group=true&on_error=stop")
	require.Equal(t, []string{`- "bike" "n1"`}, v.lines())
	require.Contains(t, v.Errors[0].Reason, "minus")
	_, v = a.view("/default/_design/shop/_view/custom?stale=false&group=true&on_error=continue")
	require.Equal(t, []string{`- "bike" "n1"`, `- "car" "n21"`}, v.lines())
	require.Len(t, v.Errors, 1)
}

func TestStaleness(t *testing.T) {
	c, a := shop(t)
	lines := func(stale string) int {
		_, v := a.view("/default/_design/shop/_view/all?debug=true" + stale)
		require.NotNil(t, v.DebugInfo)
		return len(v.Rows)
	}
	require.Equal(t, 0, lines("&stale=ok"))
	require.Equal(t, 0, lines(""))
	require.Equal(t, 5, lines("&stale=ok"))
	documents(t, c).store("f", `{"kind":"tram","price":3}`)
	require.Equal(t, 5, lines("&stale=update_after"))
	require.Equal(t, 6, lines("&stale=ok"))
	require.NoError(t, c.Flush("default"))
	require.Equal(t, 6, lines("&stale=ok"))
	require.Equal(t, 0, lines("&stale=false"))
}

func TestViewsReduceManyRowsInSteps(t *testing.T) {
	c := mock.Start(t, mock.Views(viewjs.New(viewjs.Options{})))
	require.NoError(t, c.PutDesignDocument("default", "many", `{"views":{"v":{"map":"function (doc) { for (var i = 0; i < 350; i++) emit(i, 1); }",
		"reduce":"function (keys, values, re) { return re ? 'again ' + values.join() : values.length; }"}}}`))
	documents(t, c).store("one", "{}")
	_, v := newAsker(t, c).view("/default/_design/many/_view/v?stale=false")
	require.Equal(t, []string{`- null "again 100,100,100,50"`}, v.lines())
}

func TestCollation(t *testing.T) {
	c, a := shop(t)
	documents(t, c).store("k", `{"keys":[{"a":2},{"a":1},{},[1,2],[1],[],"b","B","a","_","1",2,-1,true,false,null]}`)
	_, v := a.view("/default/_design/shop/_view/mixed?stale=false")
	var keys []string
	for _, r := range v.Rows {
		keys = append(keys, string(r.Key))
	}
	require.Equal(t, []string{
		"null", "false", "true", "-1", "2", `"_"`, `"1"`, `"a"`, `"b"`, `"B"`, "[]", "[1]", "[1,2]", "{}", `{"a":1}`, `{"a":2}`,
	}, keys)
}

func TestDesignDocumentsOverHTTP(t *testing.T) {
	c, a := shop(t)
	const path = "/default/_design/dev_new"
	put := func(doc string) (int, viewAnswer) { return a.viewAnswer(a.do(mock.ViewsService, "PUT", path, doc)) }
	status, v := put(`{"views":{"v":{"map":"function (doc) {"}}}`)
	require.Equal(t, 400, status)
	require.Equal(t, "invalid_design_document", v.Error)
	status, _ = put(`{"views":{"v":{"map":"function (doc, meta) { emit(meta.id, meta.type); }"}}}`)
	require.Equal(t, 201, status)
	got := a.do(mock.ViewsService, "GET", path, "")
	require.Equal(t, 200, got.status)
	require.Contains(t, string(got.body), "emit(meta.id")
	require.Contains(t, got.header.Get("X-Couchbase-Meta"), "_design/dev_new")
	documents(t, c).store("binary", "\x00\xff")
	_, v = a.view(path + "/_view/v?stale=false&limit=1&descending=true")
	require.Equal(t, []string{`e "e" "json"`}, v.lines())
	_, v = a.view(path + `/_view/v?stale=false&key="binary"`)
	require.Equal(t, []string{`binary "binary" "base64"`}, v.lines())
	require.Equal(t, 200, a.do(mock.ViewsService, "DELETE", path, "").status)
	require.Equal(t, 404, a.do(mock.ViewsService, "DELETE", path, "").status)
	require.Equal(t, 405, a.do(mock.ViewsService, "PATCH", path, "").status)
	require.Error(t, c.PutDesignDocument("absent", "d", "{}"))
}

func TestViewsOfANodeWithoutVBuckets(t *testing.T) {
	c := mock.Start(t, mock.Nodes(2), mock.NodeServices(1, mock.ViewsService))
	got, err := newAsker(t, c).try(1, mock.ViewsService, "GET", "/default/_design/d/_view/v?limit=1", "", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusFound, got.status)
	require.Equal(t, "http://"+c.Node(0).ServiceAddr(mock.ViewsService)+"/default/_design/d/_view/v?limit=1",
		got.header.Get("Location"))
}

func TestViewsWithoutAnEngine(t *testing.T) {
	c := mock.Start(t)
	require.NoError(t, c.PutDesignDocument("default", "d", `{"views":{"v":{"map":"anything"}}}`))
	status, v := newAsker(t, c).view("/default/_design/d/_view/v")
	require.Equal(t, 400, status)
	require.Equal(t, "no_engine", v.Error)
}

func TestViewsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a := shop(t, mock.Virtual())
		_, v := a.view("/default/_design/shop/_view/sum?stale=false")
		require.Equal(t, []string{"- null 42"}, v.lines())
		c.ScriptView("shop/sum", mock.Answer{Default: true, CutRows: 1})
		got := a.do(mock.ViewsService, "GET", "/default/_design/shop/_view/sum?stale=false", "")
		require.Error(t, got.err)
		c.ScriptView("sum", mock.Answer{Status: 500, Errors: []mock.ServiceError{{
			Message: "error",
			Reason:  "shutdown",
		}}})
		status, v := a.view("/default/_design/shop/_view/sum")
		require.Equal(t, 500, status)
		require.Equal(t, "shutdown", v.Reason)
	})
}
