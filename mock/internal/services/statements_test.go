package services_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// statementRow is one statement with its rows, or with its error's code. Rows that differ from run to run are counted.
type statementRow struct {
	statement, more string
	want            string
	code, rows      int
	mutated         int
}

const q3 = `{"n":1,"s":"x1","type":"q"},{"n":2,"s":"x2","type":"q"},{"n":3,"s":"x3","type":"q"}`

// gapStatements are the statements that were measured on an earlier mock, in their order.
var gapStatements = []statementRow{
	{statement: "CREATE PRIMARY INDEX ON `default`"},
	{statement: `INSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k1", {"type":"q","n":1,"s":"x1"})`, mutated: 1},
	{statement: `INSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k2", {"type":"q","n":2,"s":"x2"})`, mutated: 1},
	{statement: `INSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k3", {"type":"q","n":3,"s":"x3"})`, mutated: 1},
	{statement: `INSERT INTO ` + "`default`" + ` VALUES ("k4", {"type":"z"})`, mutated: 1},
	{statement: `UPSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k5", {"type":"z"})`, mutated: 1},
	{statement: `INSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k6", {"a":1}), ("k7", {"a":2})`, mutated: 2},
	{
		statement: `INSERT INTO ` + "`default`" + ` (KEY, VALUE) VALUES ("k8", {"a":1}) RETURNING META().id`, mutated: 1,
		want: `[{"id":"k8"}]`,
	},
	{statement: "SELECT * FROM `default`", want: `[{"default":{"n":1,"s":"x1","type":"q"}},
		{"default":{"n":2,"s":"x2","type":"q"}},{"default":{"n":3,"s":"x3","type":"q"}},{"default":{"type":"z"}},
		{"default":{"type":"z"}},{"default":{"a":1}},{"default":{"a":2}},{"default":{"a":1}}]`},
	{statement: "SELECT d.* FROM `default` d", want: `[` + q3 + `,{"type":"z"},{"type":"z"},{"a":1},{"a":2},{"a":1}]`},
	{statement: "SELECT d.* FROM `default` AS d", want: `[` + q3 + `,{"type":"z"},{"type":"z"},{"a":1},{"a":2},{"a":1}]`},
	{
		statement: "SELECT `default`.* FROM `default`",
		want:      `[` + q3 + `,{"type":"z"},{"type":"z"},{"a":1},{"a":2},{"a":1}]`,
	},
	{statement: "SELECT n FROM `default`", want: `[{"n":1},{"n":2},{"n":3},{},{},{},{},{}]`},
	{
		statement: "SELECT n, s FROM `default` WHERE type = \"q\"",
		want:      `[{"n":1,"s":"x1"},{"n":2,"s":"x2"},{"n":3,"s":"x3"}]`,
	},
	{
		statement: "SELECT d.n AS x FROM `default` d WHERE d.type = $1", more: `,"args":["q"]`,
		want: `[{"x":1},{"x":2},{"x":3}]`,
	},
	{statement: "SELECT n FROM `default` WHERE type = ?", more: `,"args":["q"]`, want: `[{"n":1},{"n":2},{"n":3}]`},
	{statement: "SELECT n FROM `default` WHERE n >= $n", more: `,"$n":2`, want: `[{"n":2},{"n":3}]`},
	{statement: "SELECT RAW n FROM `default`", want: `[1,2,3,null,null,null,null,null]`},
	{statement: "SELECT DISTINCT type FROM `default`", want: `[{"type":"q"},{"type":"z"},{}]`},
	{statement: "SELECT META().id FROM `default`", want: `[{"id":"k1"},{"id":"k2"},{"id":"k3"},{"id":"k4"},{"id":"k5"},
		{"id":"k6"},{"id":"k7"},{"id":"k8"}]`},
	{statement: "SELECT META(d).id, META(d).cas FROM `default` d", rows: 8},
	{
		statement: "SELECT META(`default`).`id` AS __id, `n` FROM `default` WHERE `type` = \"q\"",
		want:      `[{"__id":"k1","n":1},{"__id":"k2","n":2},{"__id":"k3","n":3}]`,
	},
	{statement: "SELECT COUNT(*) FROM `default`", want: `[{"$1":8}]`},
	{statement: "SELECT COUNT(*) AS c FROM `default` WHERE type = \"q\"", want: `[{"c":3}]`},
	{statement: "SELECT COUNT(\"*\") AS `count` FROM `default`", want: `[{"count":8}]`},
	{statement: "SELECT RAW COUNT(*) FROM `default`", want: `[8]`},
	{
		statement: "SELECT type, COUNT(*) AS c FROM `default` GROUP BY type",
		want:      `[{"type":"q","c":3},{"type":"z","c":2},{"c":3}]`,
	},
	{statement: "SELECT MAX(n) AS m FROM `default`", want: `[{"m":3}]`},
	{statement: "SELECT n FROM `default` ORDER BY n DESC", want: `[{"n":3},{"n":2},{"n":1},{},{},{},{},{}]`},
	{statement: "SELECT n FROM `default` LIMIT 2", want: `[{"n":1},{"n":2}]`},
	{statement: "SELECT n FROM `default` LIMIT 2 OFFSET 1", want: `[{"n":2},{"n":3}]`},
	{statement: "SELECT n FROM `default` WHERE type = \"q\" ORDER BY n LIMIT 1", want: `[{"n":1}]`},
	{statement: "SELECT n FROM `default` WHERE n IN [1,2]", want: `[{"n":1},{"n":2}]`},
	{statement: "SELECT n FROM `default` WHERE s LIKE \"x%\"", want: `[{"n":1},{"n":2},{"n":3}]`},
	{statement: "SELECT n FROM `default` WHERE n = 1 OR n = 2", want: `[{"n":1},{"n":2}]`},
	{statement: "SELECT n FROM `default` WHERE NOT (n = 1)", want: `[{"n":2},{"n":3}]`},
	{statement: "SELECT n FROM `default` WHERE n IS NOT MISSING", want: `[{"n":1},{"n":2},{"n":3}]`},
	{statement: "SELECT n FROM `default` WHERE n BETWEEN 1 AND 2", want: `[{"n":1},{"n":2}]`},
	{statement: "SELECT n FROM `default` WHERE META().id = \"k1\"", want: `[{"n":1}]`},
	{
		statement: "SELECT d.* FROM `default` d USE KEYS [\"k1\",\"k2\"]",
		want:      `[{"n":1,"s":"x1","type":"q"},{"n":2,"s":"x2","type":"q"}]`,
	},
	{statement: "SELECT d.* FROM `default` USE KEYS \"k1\"", want: `[{}]`}, // d is a member that is not there
	{statement: "SELECT a.n FROM `default` a JOIN `default` b ON a.n = b.n", want: `[{"n":1},{"n":2},{"n":3}]`},
	{statement: "SELECT u FROM `default` d UNNEST d.l u", want: `[]`},
	{statement: "UPDATE `default` SET n = 9 WHERE type = \"q\"", mutated: 3},
	{statement: "UPDATE `default` USE KEYS \"k1\" SET n = 10 RETURNING n", want: `[{"n":10}]`, mutated: 1},
	{statement: "DELETE FROM `default` WHERE type = \"z\"", mutated: 2},
	{statement: "DELETE FROM `default` USE KEYS \"k2\" RETURNING META().id", want: `[{"id":"k2"}]`, mutated: 1},
	{statement: "DELETE FROM `default`", mutated: 5},
	{
		statement: "MERGE INTO `default` t USING [] s ON KEY \"x\" WHEN MATCHED THEN UPDATE SET t.a=1",
		code:      5000,
	},
	{statement: "SELECT * FROM system:keyspaces", want: `[{"keyspaces":{"datastore_id":"mock","id":"default",
		"name":"default","namespace":"default","namespace_id":"default","path":"default:default"}}]`},
	{statement: "SELECT * FROM system:indexes", rows: 1},
	{statement: "SELECT RAW name FROM system:indexes", want: `["#primary"]`},
	{statement: "SELECT name FROM system:buckets", want: `[{"name":"default"}]`},
	{statement: "SELECT * FROM system:datastores", rows: 1},
	{statement: "SELECT * FROM system:prepareds", want: `[]`},
	{
		statement: "SELECT `idx`.* FROM system:indexes AS idx WHERE `using`=\"gsi\" ORDER BY is_primary DESC, name ASC",
		want: `[{"datastore_id":"mock","id":"default:default/#primary","index_key":[],"is_primary":true,
			"keyspace_id":"default","name":"#primary","namespace_id":"default","state":"online","using":"gsi"}]`,
	},
	{statement: "CREATE SCOPE `default`.s1"},
	{statement: "CREATE COLLECTION `default`.s1.c1"},
	{statement: "SELECT * FROM `default`.`_default`.`_default`", want: `[]`},
	{statement: "SELECT * FROM default:`default`", want: `[]`},
	{statement: "SELECT * FROM _default", more: `,"query_context":"default:` + "`default`.`_default`" + `"`, want: `[]`},
	{statement: "EXPLAIN SELECT n FROM `default`", rows: 1},
	{statement: "BEGIN WORK", rows: 1},
	{statement: "SELECT 1+1 AS x", want: `[{"x":2}]`},
	{statement: "SELECT NOW_STR() AS x", rows: 1},
	{statement: "SELECT UUID() AS x", rows: 1},
	{statement: "SELECT \"a\" || \"b\" AS x", want: `[{"x":"ab"}]`},
	{statement: "SELECT LOWER(\"A\") AS x", want: `[{"x":"a"}]`},
	{statement: "SELECT ARRAY_LENGTH([1]) AS x", want: `[{"x":1}]`},
	{statement: "SELECT $n AS x", more: `,"$n":3`, want: `[{"x":3}]`},
	{statement: "INFER `default`", code: 5000},
	{statement: "CREATE INDEX i1 ON `default`(n, s) WHERE type = \"q\""},
	{statement: "DROP INDEX `default`.i1"},
	{statement: "DROP INDEX i1 ON `default`", code: 12016}, // the statement before has dropped it
	{statement: "SELECT SEARCH_META() FROM `default`", code: 5000},
}

func TestStatementsThatWereMeasured(t *testing.T) {
	require.Len(t, gapStatements, 75)
	a := newAsker(t, mock.Start(t))
	right := 0
	for _, row := range gapStatements {
		got := a.query(`{"statement":` + quoted(row.statement) + row.more + `}`)
		q := got.query(t)
		require.Equal(t, row.code, q.code(), "%s: %s", row.statement, got.body)
		if row.code == 5000 {
			require.Contains(t, string(got.body), "The mock does not support", row.statement)
			require.Contains(t, string(got.body), "ScriptQuery", row.statement)
			continue
		}
		right++
		switch {
		case row.rows > 0:
			require.Len(t, q.Results, row.rows, "%s: %s", row.statement, got.body)
		case row.want != "":
			require.JSONEq(t, row.want, string(results(t, q)), row.statement)
		default:
			require.Empty(t, q.Results, row.statement)
		}
		mutated, _ := q.Metrics["mutationCount"].(float64)
		require.Equal(t, row.mutated, int(mutated), row.statement)
	}
	require.Equal(t, 72, right)
}

func TestScriptsComeBeforeTheInterpreter(t *testing.T) {
	c := mock.Start(t)
	a := newAsker(t, c)
	c.ScriptQuery("MERGE INTO", mock.Answer{Rows: []string{`{"merged":1}`}})
	c.ScriptQuery("1+1", mock.Answer{Rows: []string{`3`}})
	for statement, want := range map[string]string{
		"MERGE INTO x": `[{"merged":1}]`, "SELECT 1+1": `[3]`, "SELECT 1+2": `[{"$1":3}]`,
	} {
		require.JSONEq(t, want, string(results(t, a.query(`{"statement":`+quoted(statement)+`}`).query(t))), statement)
	}
}

func TestTransactionsOverTheQueryService(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 1))
	a := newAsker(t, c)
	require.Zero(t, a.query(`{"statement":"CREATE PRIMARY INDEX ON default"}`).query(t).code())
	begin := a.query(`{"statement":"BEGIN WORK","txdata":{"id":{"txn":"t","atmpt":"attempt-1"},"mutations":[]}}`).query(t)
	require.Contains(t, string(results(t, begin)), `"txid":"attempt-1"`)
	in := func(statement, more string) queryAnswer {
		t.Helper()
		return a.query(`{"statement":` + quoted(statement) + `,"txid":"attempt-1"` + more + `}`).query(t)
	}
	const place = ",\"args\":[\"default:`default`.`_default`.`_default`\",\"k\""
	require.Equal(t, 17014, in("EXECUTE __get", place+`]`).code())
	inserted := in("EXECUTE __insert", place+`,{"n":1},{}]`)
	require.Zero(t, inserted.code())
	require.Equal(t, 17012, in("EXECUTE __insert", place+`,{"n":1},{}]`).code())
	require.Contains(t, string(results(t, in("EXECUTE __get", place+`]`))), `"doc":{"n":1},"scas":"1"`)
	require.JSONEq(t, `[1]`, string(results(t, in("SELECT RAW n FROM default", ""))))
	require.Equal(t, 17015, in("EXECUTE __update", place+`,{"n":2},{}],"txdata":{"kv":true,"scas":"77"}`).code())
	require.Zero(t, in("EXECUTE __update", place+`,{"n":2},{}],"txdata":{"kv":true,"scas":"1"}`).code())
	outside := func() string {
		return string(results(t, a.query(`{"statement":"SELECT RAW n FROM default"}`).query(t)))
	}
	require.JSONEq(t, `[]`, outside())
	require.Zero(t, in("COMMIT", "").code())
	require.JSONEq(t, `[2]`, outside())
	require.Equal(t, 17004, in("SELECT 1", "").code(), "it is over")

	begin = a.query(`{"statement":"START TRANSACTION ISOLATION LEVEL READ COMMITTED"}`).query(t)
	var row struct {
		ID string `json:"txid"`
	}
	require.NoError(t, json.Unmarshal(begin.Results[0], &row))
	within := func(statement string) queryAnswer {
		return a.query(`{"statement":` + quoted(statement) + `,"txid":` + quoted(row.ID) + `}`).query(t)
	}
	require.Zero(t, within("EXECUTE __delete USING [\"default\", \"k\", {}]").code())
	require.JSONEq(t, `[]`, string(results(t, within("SELECT RAW n FROM default"))))
	require.Zero(t, within("ROLLBACK").code())
	require.JSONEq(t, `[2]`, outside())
	require.Equal(t, 17002, a.query(`{"statement":"EXECUTE __get","args":["default","k"]}`).query(t).code())
	w := documents(t, c)
	w.store("staged", `{"n":1}`)
	w.call(memd.Packet{Opcode: memd.OpHello, Key: []byte("test"), Value: []byte{0, byte(memd.FeatureXattr)}})
	mark := `{"id":{"atmpt":"two"},"op":{"type":"replace","stgd":{"n":5}}}`
	w.call(memd.Packet{
		Opcode: memd.OpSubdocDictUpsert, Key: []byte("staged"), Extras: []byte{0, 3, 4}, Value: []byte("txn" + mark),
	})
	begun := a.query(`{"statement":"BEGIN WORK","txdata":{"id":{"atmpt":"two"},"mutations":[{"bkt":"default",` +
		`"scp":"_default","coll":"_default","id":"staged","type":"REPLACE"}]}}`).query(t)
	require.Zero(t, begun.code())
	staged := a.query(`{"statement":"UPDATE default USE KEYS 'staged' SET m = n RETURNING n, m","txid":"two"}`).query(t)
	require.JSONEq(t, `[{"n":5,"m":5}]`, string(results(t, staged)))
	require.Zero(t, a.query(`{"statement":"COMMIT","txid":"two"}`).query(t).code())
	require.JSONEq(t, `[2,5]`, outside())
	refused := a.query(`{"statement":"BEGIN WORK","txdata":{"id":{"atmpt":"x"},"mutations":[{}]}}`)
	require.Equal(t, 17006, refused.query(t).code(), "no document has such a write")
}

func TestDefinitionsAndSystemKeyspaces(t *testing.T) {
	c := mock.Start(t, mock.Version("7.2"))
	a := newAsker(t, c)
	run := func(statement, more string) queryAnswer {
		t.Helper()
		return a.query(`{"statement":` + quoted(statement) + more + `}`).query(t)
	}
	for _, row := range []struct {
		statement string
		code      int
	}{
		{"CREATE SCOPE default.s", 0},
		{"CREATE SCOPE default.s", 12025},
		{"CREATE SCOPE default.s IF NOT EXISTS", 0},
		{"CREATE SCOPE nope.s", 12020},
		{"DROP SCOPE default.t", 12021},
		{"DROP SCOPE IF EXISTS default.t", 0},
		{"CREATE COLLECTION default.s.c WITH {\"maxTTL\": 10}", 0},
		{"CREATE COLLECTION default.s.c", 12027},
		{"CREATE COLLECTION default.t.c", 12021},
		{"DROP COLLECTION default.s.d", 12003},
		{"CREATE COLLECTION default.s.`_bad`", 12027},
		{"CREATE INDEX i ON default.s.c(a, b.c DESC) WHERE a > 1 WITH {\"defer_build\": true}", 0},
		{"CREATE PRIMARY INDEX ON default.s.c", 0},
		{"INSERT INTO default.s.c VALUES ('k', 1)", 0},
	} {
		require.Equal(t, row.code, run(row.statement, "").code(), row.statement)
	}
	list := func(statement string) string { t.Helper(); return string(results(t, run(statement, ""))) }
	require.JSONEq(t, `["_default","s"]`, list("SELECT RAW name FROM system:scopes WHERE `bucket` = 'default'"))
	require.JSONEq(t, `["default:default","default:default.s.c"]`, list("SELECT RAW `path` FROM system:keyspaces"))
	require.JSONEq(t, `[{"name":"i","state":"deferred","index_key":["`+"`a`\",\"(`b`.`c`) DESC"+`"],"condition":"(`+
		"`a`"+` > 1)"}]`, list("SELECT name, state, index_key, `condition` FROM system:indexes WHERE is_primary IS MISSING"))
	require.JSONEq(t, `["i"]`, list("SELECT RAW name FROM system:indexes WHERE state = 'deferred'"))
	require.Zero(t, run("BUILD INDEX ON c(i)", ",\"query_context\":\"default:default.s\"").code())
	require.JSONEq(t, `[]`, list("SELECT RAW name FROM system:indexes WHERE state = 'deferred'"))
	require.JSONEq(t, `[1]`, list("SELECT RAW c FROM default.s.c"))
	require.Zero(t, run("FLUSH COLLECTION default.s.c", "").code())
	require.JSONEq(t, `[]`, list("SELECT RAW c FROM default.s.c"))
	require.Zero(t, run("DROP COLLECTION c", ",\"query_context\":\"default:default.s\"").code())
	require.Zero(t, run("CREATE COLLECTION default.s.c", "").code())
	require.JSONEq(t, `[]`, list("SELECT RAW name FROM system:indexes"), "the indexes have gone with the collection")
	require.Equal(t, 4000, run("SELECT * FROM default.s.c", "").code())
	require.Zero(t, run("DROP SCOPE default.s", "").code())
	require.Zero(t, run("INSERT INTO default VALUES ('k', 1)", "").code())
	require.Zero(t, run("FLUSH COLLECTION default", "").code(), "a bucket's name is its default collection's")
	require.JSONEq(t, `[]`, list("SELECT RAW d FROM default d USE KEYS 'k'"))
	require.Zero(t, run("TRUNCATE COLLECTION default", "").code())
	run("PREPARE p FROM SELECT 1", "")
	require.JSONEq(t, `["p"]`, list("SELECT RAW name FROM system:prepareds"))
	require.Len(t, run("PREPARE q AS SELECT $n AS v", "").Results, 1)
	require.JSONEq(t, `[{"v":3}]`, list("EXECUTE q USING {\"n\": 1 + 2}"))
}
