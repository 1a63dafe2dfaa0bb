package services_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

func TestIndexesOfTheQueryService(t *testing.T) {
	c := mock.Start(t, mock.Version("7.2"), mock.Bucket("default", 8, mock.WithCollection("s", "c")),
		mock.Bucket("my-bucket", 8))
	a := newAsker(t, c)
	run := func(statement, more string) queryAnswer {
		t.Helper()
		return a.query(`{"statement":` + quoted(statement) + more + `}`).query(t)
	}
	for _, row := range []struct {
		statement string
		code      int
	}{
		{"SELECT * FROM default", 4000},
		{"CREATE PRIMARY INDEX ON default", 0},
		{"CREATE PRIMARY INDEX ON `default`", 4300},
		{"CREATE PRIMARY INDEX IF NOT EXISTS ON default USING GSI", 0},
		{"SELECT * FROM default", 0},
		{"CREATE PRIMARY INDEX `p` ON default:`my-bucket` WITH {\"defer_build\":true}", 0},
		{"create index by_a on default.s.c (a, b) where a > 1;", 0},
		{"CREATE INDEX by_a ON default.s.c(a)", 4300},
		{"CREATE INDEX by_a ON default.s.d(a)", 12003},
		{"CREATE INDEX by_a ON default.t.d(a)", 12021},
		{"CREATE INDEX by_a ON absent(a)", 12003},
		{"BUILD INDEX ON default.s.c(`by_a`)", 0},
		{"BUILD INDEX ON default(`by_a`)", 12016},
		{"BUILD INDEX ON absent(`by_a`)", 12003},
		{"DROP INDEX none ON default", 12016},
		{"DROP INDEX none IF EXISTS ON default", 0},
		{"SELECT RAW 1 FROM absent", 12003},
	} {
		require.Equal(t, row.code, run(row.statement, "").code(), row.statement)
	}
	var names []string
	for _, r := range run("SELECT idx.* FROM system:indexes AS idx WHERE bucket_id = $bucketName OR "+
		"bucket_id IS MISSING AND keyspace_id = $bucketName", `,"$bucketName":"default"`).Results {
		var row struct {
			Name    string `json:"name"`
			Primary bool   `json:"is_primary"`
			State   string `json:"state"`
		}
		require.NoError(t, json.Unmarshal(r, &row))
		require.Equal(t, "online", row.State)
		require.Equal(t, row.Name == "#primary", row.Primary)
		names = append(names, row.Name)
	}
	require.Equal(t, []string{"#primary", "by_a"}, names)
	for _, statement := range []string{
		"DROP PRIMARY INDEX ON default", "DROP INDEX by_a ON default.s.c",
		"DROP INDEX `my-bucket`.`p`",
	} {
		require.Zero(t, run(statement, "").code(), statement)
	}
	require.Equal(t, 12016, run("DROP PRIMARY INDEX ON default", "").code())
	require.Empty(t, run("SELECT * FROM system:indexes", "").Results)
}

func TestSearchIndexes(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	do := func(method, path, body string) (int, string) {
		got := a.do(mock.SearchService, method, path, body)
		return got.status, string(got.body)
	}
	const scope = "/api/bucket/default/scope/_default/index"
	for _, row := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/api/index/i/query", `{}`, 400, "index not found"},
		{"GET", "/api/index/i", "", 400, "index not found"},
		{"DELETE", "/api/index/i", "", 400, "index not found"},
		{"GET", "/api/index/i/count", "", 400, "index not found"},
		{"PUT", "/api/index/i", "nonsense", 400, "unmarshal"},
		{"PUT", "/api/index/i", `{"type":"fulltext-index","name":"i"}`, 200, `"status":"ok"`},
		{"PUT", "/api/index/i", `{"type":"fulltext-index"}`, 400, "already exists"},
		{"PUT", "/api/index/i", `{"type":"fulltext-index","uuid":"1"}`, 200, `"uuid"`},
		{"GET", "/api/index/i", "", 200, `"name":"i"`},
		{"POST", "/api/index/i/query", `{"query":{}}`, 200, `"hits":[]`},
		{"GET", "/api/index/i/count", "", 200, `"count":0`},
		{"POST", "/api/index/i/ingestControl/pause", "", 200, "ok"},
		{"POST", "/api/index/i/analyzeDoc", "{}", 200, "analyzed"},
		{"POST", "/api/index/i/else", "{}", 404, "not found"},
		{"PATCH", "/api/index/i", "{}", 405, ""},
		{"PUT", scope + "/j", `{}`, 200, `"default._default.j"`},
		{"POST", scope + "/j/query", `{}`, 200, `"hits":[]`},
		{"GET", scope, "", 200, `"name":"j"`},
		{"GET", "/api/index", "", 200, `"indexDefs"`},
		{"DELETE", "/api/index/i", "", 200, "ok"},
		{"GET", "/elsewhere", "", 404, "page not found"},
	} {
		status, text := do(row.method, row.path, row.body)
		require.Equal(t, row.status, status, "%s %s: %s", row.method, row.path, text)
		require.Contains(t, text, row.text, row.path)
	}
	_, text := do("GET", scope, "")
	require.NotContains(t, text, `"i"`)
	s := c.ScriptSearch("j", mock.Answer{Rows: []string{`{"id":"a"}`}, Members: map[string]string{"status": `{"failed":1}`}})
	_, text = do("POST", scope+"/j/query", `{}`)
	require.Contains(t, text, `"failed":1`)
	require.Equal(t, 1, s.Fired())
	require.NoError(t, c.SetCapabilities("search"))
	status, _ := do("POST", "/api/bucket/default/scope/_default/index/k/query", `{}`)
	require.Equal(t, 404, status)
	require.Contains(t, string(c.ConfigJSON("")), `"search":[]`)
	c.ScriptSearch("late", mock.Answer{Delay: patience, Deadline: true})
	status, text = do("POST", "/api/index/late/query", `{"ctl":{"timeout":20}}`)
	require.Equal(t, 400, status)
	require.Contains(t, text, "deadline")
}

// null is JSON that can be read into a map, which is nil then.
func TestADefinitionThatIsNullIsRefused_D210(t *testing.T) {
	a := newAsker(t, mock.Start(t))
	for _, path := range []string{"/api/index/i", "/api/bucket/default/scope/_default/index/i"} {
		got := a.do(mock.SearchService, "PUT", path, "null")
		require.Equal(t, 400, got.status)
		require.Contains(t, string(got.body), "not a JSON object")
	}
}
