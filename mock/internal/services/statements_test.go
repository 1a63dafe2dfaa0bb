package services_test

import (
	"testing"

	"github.com/stretchr/testify/require"

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
