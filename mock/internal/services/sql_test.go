package services_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

func TestStatementsAboutDocuments(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 8, mock.WithCollection("s", "c")))
	r := documents(t, c)
	r.store("a", `{"kind":"car","n":1,"at":{"x":"y"}}`)
	r.store("b", `{"kind":"car","n":2}`)
	r.store("c", `{"kind":"bus","n":3}`)
	r.store("d", `[1]`)
	a := newAsker(t, c)
	require.Zero(t, a.query(`{"statement":"CREATE PRIMARY INDEX ON default"}`).query(t).code())
	require.Zero(t, a.query(`{"statement":"CREATE PRIMARY INDEX ON default.s.c"}`).query(t).code())
	for _, row := range []struct{ statement, more, want string }{
		{"SELECT n, kind FROM default WHERE kind = 'car'", "", `[{"kind":"car","n":1},{"kind":"car","n":2}]`},
		{"SELECT n FROM default WHERE kind = $k AND n >= $1", `,"$k":"car","args":[2]`, `[{"n":2}]`},
		{"SELECT n AS m, META().id FROM `default` LIMIT 1", "", `[{"m":1,"id":"a"}]`},
		{"SELECT * FROM default WHERE n = 3", "", `[{"default":{"kind":"bus","n":3}}]`},
		{"SELECT x.* FROM default AS x WHERE x.n > 2;", "", `[{"kind":"bus","n":3}]`},
		{"SELECT RAW at.x FROM default WHERE at.x = \"y\"", "", `["y"]`},
		{"SELECT RAW META(d).id FROM default AS d WHERE META(d).id != 'a'", "", `["b","c","d"]`},
		{"SELECT COUNT(*) AS n FROM default WHERE n < 3", "", `[{"n":2}]`},
		{"SELECT RAW COUNT(*) FROM default", "", `[4]`},
		{"INSERT INTO default.s.c (KEY, VALUE) VALUES (\"k\", {\"v\": 7})", "", `[]`},
		{"UPSERT INTO c (KEY, VALUE) VALUES ($key, $value)", `,"$key":"l","$value":{"v":8},"query_context":"default:default.s"`, `[]`},
		{"SELECT RAW v FROM c", ",\"query_context\":\"default:`default`.`s`\"", `[7,8]`},
	} {
		q := a.query(`{"statement":` + quoted(row.statement) + row.more + `}`).query(t)
		require.Empty(t, q.Errors, row.statement)
		require.JSONEq(t, row.want, string(results(t, q)), row.statement)
	}
	for statement, code := range map[string]int{
		"MERGE INTO default t USING [] s ON KEY 'x' WHEN MATCHED THEN DELETE": 5000,
		"INFER default":                                  5000,
		"SELECT SEARCH_META() FROM default":              5000,
		"SELECT a FROM default LIMIT x":                  3080,
		"SELECT a FROM default WHERE":                    3000,
		"SELECT a, COUNT(*) FROM default":                4210,
		"SELECT a FROM default a, default a":             4020,
		"SELECT NOSUCH(1)":                               5000,
		"INSERT INTO default (KEY, VALUE) VALUES (1, 2)": 5070,
	} {
		require.Equal(t, code, a.query(`{"statement":`+quoted(statement)+`}`).query(t).code(), statement)
	}
	require.Contains(t, string(a.query(`{"statement":"INFER default"}`).body), "ScriptQuery", "it says what to do")
	got := a.query(`{"statement":"INSERT INTO default.s.c (KEY, VALUE) VALUES (\"k\", {})"}`)
	require.Equal(t, 200, got.status)
	require.Equal(t, 12009, got.query(t).code())
	require.Contains(t, string(got.body), `"code":17012`)

	analytics := func(statement string) queryAnswer {
		return a.do(mock.AnalyticsService, "POST", "/query/service", `{"statement":`+quoted(statement)+`}`).query(t)
	}
	require.Equal(t, 24045, analytics("SELECT * FROM data").code())
	require.Zero(t, analytics("CREATE DATASET `data` ON `default`").code())
	require.Equal(t, 24040, analytics("CREATE DATASET data ON default").code())
	require.Zero(t, analytics("CREATE DATASET IF NOT EXISTS data ON default").code())
	require.Equal(t, 24025, analytics("CREATE DATASET more ON absent").code())
	require.Zero(t, analytics("CONNECT LINK Local").code())
	require.Zero(t, analytics("ALTER COLLECTION default.s.c ENABLE ANALYTICS").code())
	require.Len(t, analytics("SELECT * FROM default.s.c").Results, 2)
	require.JSONEq(t, `[3]`, string(results(t, analytics("SELECT RAW n FROM data WHERE kind = 'bus'"))))
}

func TestStatementsSeeTimeTravel(t *testing.T) {
	c := mock.Start(t, mock.Bucket("default", 8))
	w := documents(t, c)
	w.store("stays", `{"n":1}`)
	w.call(memd.Packet{Opcode: memd.OpSet, Key: []byte("expires"), Extras: []byte{0, 0, 0, 0, 0, 0, 0, 100}, Value: []byte(`{"n":2}`)})
	a := newAsker(t, c)
	require.Zero(t, a.query(`{"statement":"CREATE PRIMARY INDEX ON default"}`).query(t).code())
	keys := `{"statement":"SELECT RAW META().id FROM default"}`
	require.JSONEq(t, `["expires","stays"]`, string(results(t, a.query(keys).query(t))))
	c.TimeTravel(101 * time.Second)
	require.JSONEq(t, `["stays"]`, string(results(t, a.query(keys).query(t))))
}
