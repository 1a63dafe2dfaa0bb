package sqlpp_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

func TestChanges(t *testing.T) {
	for _, row := range []struct {
		statement, want string // rows of RETURNING
		key, doc        string // a document after it; empty when it has gone
		mutated         int
	}{
		{
			`INSERT INTO b (KEY, VALUE) VALUES ("n" || "ew", {"a": 1 + 1}) RETURNING META().id, a`, `[{"id":"new","a":2}]`,
			"new", `{"a":2}`, 1,
		},
		{`UPSERT INTO b VALUES ("a", {"x": 1}), VALUES ("y", [1]) RETURNING *`, `[{"b":{"x":1}},{"b":[1]}]`, "a", `{"x":1}`, 2},
		{
			`INSERT INTO b (KEY "copy-" || id, VALUE {"from": id}) SELECT META().id AS id FROM b WHERE t = "q" RETURNING RAW META().id`,
			`["copy-a","copy-b"]`, "copy-b", `{"from":"b"}`, 2,
		},
		{
			`UPDATE b AS d SET d.n = d.n + 1, o.y.z = 1, nul.a = 1, o.w = 2, l[0] = 9 UNSET d.s, t WHERE d.n = 1 RETURNING d.n, META(d).id`,
			`[{"n":2,"id":"a"}]`, "a", `{"n":2,"l":[9,2],"o":{"x":1,"w":2},"nul":null}`, 1,
		},
		{`UPDATE b USE KEYS ["a", "nope"] SET n = 5 RETURNING RAW n`, `[5]`, "c", `{"t":"z","n":3,"s":"three","l":[]}`, 1},
		{
			`UPDATE b SET v.w = TRUE FOR v IN l WHEN v.v = 4 END WHERE n = 2.5`, `[]`, "b",
			`{"t":"q","n":2.5,"s":"two","l":[{"v":3},{"v":4,"w":true}],"k":"a"}`, 1,
		},
		{`UPDATE b UNSET v.v FOR v IN b.l END WHERE n = 2.5`, `[]`, "b", `{"t":"q","n":2.5,"s":"two","l":[{},{}],"k":"a"}`, 1},
		{
			`UPDATE b SET n = 0 WHERE n IS VALUED LIMIT 2 RETURNING RAW META().id`, `["a","b"]`, "c",
			`{"t":"z","n":3,"s":"three","l":[]}`, 2,
		},
		{`UPDATE b SET n = 0 WHERE FALSE RETURNING *`, `[]`, "d", `[1]`, 0},
		{`DELETE FROM b WHERE t = "q" OFFSET 1 RETURNING s`, `[{"s":"two"}]`, "b", ``, 1},
		{`DELETE FROM b d USE KEYS ["a"] WHERE d.n = 1 RETURNING RAW d.n`, `[1]`, "a", ``, 1},
		{`DELETE FROM b USE KEYS "e"`, `[]`, "e", ``, 1},
	} {
		m := library()
		res := sqlpp.Run(row.statement, m.options())
		require.Empty(t, res.Errors, row.statement)
		require.Equal(t, row.mutated, res.Mutated, row.statement)
		got := "["
		for i, r := range res.Rows {
			if i > 0 {
				got += ","
			}
			got += r
		}
		require.JSONEq(t, row.want, got+"]", row.statement)
		d, has := m.Document(b, row.key)
		require.Equal(t, row.doc != "", has, row.statement)
		if has {
			require.JSONEq(t, row.doc, string(d.Value), row.statement)
		}
	}
}

func TestChangesThatFailAndLimits(t *testing.T) {
	m := library()
	res := sqlpp.Run(`INSERT INTO b VALUES ("a", 1), ("new", 2), ("b", 3) RETURNING RAW META().id`, m.options())
	require.Len(t, res.Errors, 2, "the other documents are stored")
	require.Equal(t, 1, res.Mutated)
	require.Equal(t, []string{`"new"`}, res.Rows)
	require.Equal(t, sqlpp.CodeDML, res.Errors[0].Code)
	require.Contains(t, res.Errors[0].Reason, `"code":17012`)

	o := m.options()
	o.ReadOnly = true
	for _, statement := range []string{
		"DELETE FROM b", "UPSERT INTO b VALUES ('a', 1)", "CREATE INDEX i ON b(n)", "DROP SCOPE b.s",
	} {
		require.Equal(t, sqlpp.CodeReadOnly, sqlpp.Run(statement, o).Errors[0].Code, statement)
	}
	require.Empty(t, sqlpp.Run("EXPLAIN DELETE FROM b", o).Errors)
	const expires = "UPSERT INTO b (KEY, VALUE, OPTIONS) VALUES ('x', 1, {'expiration': 60})"
	require.Empty(t, sqlpp.Run(expires, m.options()).Errors)
	d, _ := m.Document(b, "x")
	require.EqualValues(t, 60, d.Expiry)
	require.Empty(t, sqlpp.Run("UPDATE b USE KEYS 'x' SET META(b).expiration = 0", m.options()).Errors)
	d, _ = m.Document(b, "x")
	require.Zero(t, d.Expiry)
}

func TestIndexesServeTheirConditions(t *testing.T) {
	m := library()
	require.Empty(t, sqlpp.Run("INSERT INTO b.s.c VALUES ('k', {'n': 1, 't': 'q'})", m.options()).Errors)
	run := func(statement string) int {
		res := sqlpp.Run(statement, m.options())
		if len(res.Errors) > 0 {
			return res.Errors[0].Code
		}
		return 0
	}
	require.Zero(t, run("CREATE INDEX i ON b.s.c(n DESC, LOWER(s)) WITH {'defer_build': TRUE}"))
	require.Equal(t, sqlpp.CodeNoIndex, run("SELECT n FROM b.s.c WHERE n = 1"), "it is deferred")
	require.Equal(t, sqlpp.CodeNoIndexNamed, run("BUILD INDEX ON b.s.c(j)"))
	require.Zero(t, run("BUILD INDEX ON b.s.c(i)"))
	require.Zero(t, run("SELECT n FROM b.s.c AS x WHERE x.n = 1 AND x.t = 'z'"))
	require.Equal(t, sqlpp.CodeNoIndex, run("SELECT n FROM b.s.c WHERE s = 1"))
	require.Equal(t, sqlpp.CodeIndexExists, run("CREATE INDEX i ON b.s.c(t)"))
	require.Zero(t, run("CREATE INDEX i IF NOT EXISTS ON b.s.c(t)"))
	require.Zero(t, run("CREATE INDEX p ON b.s.c(t) WHERE n > 0"))
	require.Zero(t, run("SELECT n FROM b.s.c WHERE n > 0 AND t = 'q'"))
	require.Zero(t, run("DROP INDEX b.s.c.i"))
	require.Zero(t, run("SELECT n FROM b.s.c WHERE n > 0 AND t = 'q'"), "the condition of p is there")
	require.Equal(t, sqlpp.CodeNoIndex, run("SELECT n FROM b.s.c WHERE t = 'q'"))
	res := sqlpp.Run("EXPLAIN SELECT n FROM b.s.c WHERE n > 0 AND t = 'q' ORDER BY n LIMIT 1", m.options())
	require.Len(t, res.Rows, 1)
	for _, part := range []string{`"IndexScan3"`, `"index":"p"`, `"Fetch"`, `"Filter"`, `"Order"`, `"Limit"`} {
		require.Contains(t, res.Rows[0], part)
	}
}

func TestTransactionsStageTheirWrites(t *testing.T) {
	m := library()
	o := m.options()
	o.Txn = sqlpp.NewTxn()
	in := func(statement string) string { t.Helper(); return rows(t, o, statement) }
	out := func(statement string) string { t.Helper(); return rows(t, m.options(), statement) }
	const all = "SELECT RAW META().id FROM b"
	require.JSONEq(t, `[10]`, in("UPDATE b USE KEYS 'a' SET n = 10 RETURNING RAW n"))
	in("DELETE FROM b USE KEYS 'c'")
	in("INSERT INTO b VALUES ('new', {'n': 1})")
	in("SAVEPOINT one")
	in("UPDATE b USE KEYS 'new' SET n = 2")
	in("DELETE FROM b USE KEYS 'b'")
	require.JSONEq(t, `["a","d","e","new"]`, in(all))
	in("ROLLBACK TO SAVEPOINT one")
	require.JSONEq(t, `["a","b","d","e","new"]`, in(all))
	require.JSONEq(t, `["a","b","c","d","e"]`, out(all), "others do not see them")
	require.Equal(t, sqlpp.CodeTxnStatement, sqlpp.Run("CREATE INDEX i ON b(n)", o).Errors[0].Code)
	require.Equal(t, sqlpp.CodeTxnStatement, sqlpp.Run("BEGIN WORK", o).Errors[0].Code)
	require.Equal(t, sqlpp.CodeNoSavepoint, sqlpp.Run("ROLLBACK TO SAVEPOINT two", o).Errors[0].Code)
	require.Equal(t, sqlpp.CodeDML, sqlpp.Run("INSERT INTO b VALUES ('new', 1)", o).Errors[0].Code)
	res := sqlpp.Run("COMMIT WORK", o)
	require.Empty(t, res.Errors)
	require.True(t, res.End)
	require.JSONEq(t, `["a","b","d","e","new"]`, out(all))
	require.JSONEq(t, `[10,1]`, out("SELECT RAW n FROM b USE KEYS ['a', 'new']"))

	o.Txn = sqlpp.NewTxn()
	in("UPDATE b USE KEYS 'a' SET n = 11")
	in("INSERT INTO b VALUES ('another', 1)")
	out("UPDATE b USE KEYS 'a' SET n = 12")
	res = sqlpp.Run("COMMIT", o)
	require.Equal(t, sqlpp.CodeTxnCommit, res.Errors[0].Code)
	require.JSONEq(t, `["a","b","d","e","new"]`, out(all), "nothing is written")
	require.True(t, sqlpp.Run("ROLLBACK TRANSACTION", o).End)
}
