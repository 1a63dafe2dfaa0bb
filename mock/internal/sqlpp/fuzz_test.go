package sqlpp_test

import (
	"testing"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// seeds are statements of every kind.
var seeds = []string{
	"SELECT a.*, META(a).id, ARRAY x.y FOR x IN a.l WHEN x.y > 1 END AS l FROM b AS a WHERE a.n BETWEEN 1 AND 3 " +
		"OR a.s LIKE '%x_' ORDER BY a.n DESC NULLS LAST LIMIT 3 OFFSET 1",
	"SELECT t, COUNT(*) c, SUM(DISTINCT n), ARRAY_AGG(s) FROM b GROUP BY t HAVING COUNT(*) > 0",
	"SELECT RAW l FROM b UNNEST b.l AS l UNION ALL SELECT RAW 1",
	"SELECT x.n FROM b x LEFT OUTER JOIN b y ON x.n = y.n JOIN b z ON KEYS x.k WHERE ANY v IN x.l SATISFIES v = 1 END",
	"WITH w AS (SELECT n FROM b) SELECT (SELECT RAW MAX(n) FROM w)[0], {'a': 1, \"b\": [1, 2.5e3][0:1]}.a, -n FROM w",
	"SELECT CASE WHEN n IS VALUED THEN n ELSE missing END, CASE n WHEN 1 THEN 'one' END FROM b USE KEYS ['k', $1, ?]",
	"SELECT REPEAT('a', 3) || SUBSTR('abc', 1), ARRAY_RANGE(0, 9, 3), REPLACE('a', '', 'b'), OBJECT_ADD({}, 'a', 1)",
	"SELECT REGEXP_LIKE('abc', '[a-z]+'), ROUND(1.55, 1), TO_STRING(1), TYPE(n), MILLIS_TO_STR(0), ARRAY_SORT([2,1])",
	"INSERT INTO b (KEY, VALUE, OPTIONS) VALUES ('k', {'a': $n}, {'expiration': 5}) RETURNING META().id",
	"INSERT INTO b (KEY UUID(), VALUE v) SELECT n AS v FROM b", "UPSERT INTO b VALUES ('k', 1), VALUES ('l', 2)",
	"UPDATE b AS d SET d.n = d.n + 1, x.y = 2 FOR x IN l WHEN x.z END UNSET d.s WHERE d.n IN [1] LIMIT 1 RETURNING d.*",
	"DELETE FROM b USE KEYS 'k' RETURNING RAW n", "EXPLAIN SELECT * FROM b WHERE n = 1",
	"CREATE INDEX i IF NOT EXISTS ON b(n DESC, LOWER(s)) WHERE t = 'q' USING GSI WITH {'defer_build': true}",
	"DROP INDEX b.i", "BUILD INDEX ON b(i, 'j', ['k'])", "CREATE COLLECTION b.s.c IF NOT EXISTS WITH {'maxTTL': 5}",
	"BEGIN WORK; ", "ROLLBACK TO SAVEPOINT s", "MERGE INTO b",
	"/* c */ SELECT 'it''s', \"\\u00e9\\n\", `a``b`, $$ -- x",
	"SELECT EVERY x IN [1] SATISFIES x WITHIN [[1]] END, FIRST y FOR i : y IN [1] END, OBJECT 'a' : z FOR z IN [1] END",
	"FROM b SELECT DISTINCT n.`x`.[s], n[-1], NOT n, EXISTS l, n || s, n % 0, n / 0, 1e400, 9223372036854775807 + 1",
}

func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, statement string) {
		first, again := sqlpp.Check(statement), sqlpp.Check(statement)
		if (first == nil) != (again == nil) || first != nil && (*first != *again || first.Code == 0) {
			t.Fatalf("%v and %v", first, again)
		}
		if p, ok := sqlpp.Split(statement); ok && len(p.Statement)+len(p.Name) > 2*len(statement) {
			t.Fatalf("%+v", p)
		}
		sqlpp.IsStatement(statement)
		sqlpp.ParseContext(statement)
	})
}

// FuzzRun executes any statement twice: nothing panics, it ends within its limits, and does the same each time.
func FuzzRun(f *testing.F) {
	for _, s := range seeds {
		f.Add(s, `{"n":1,"s":"x","t":"q","l":[1,{"y":2}],"k":["k"]}`)
	}
	f.Fuzz(func(t *testing.T, statement, doc string) {
		var results [2]sqlpp.Result
		for i := range results {
			o := newMemory(map[string]string{"k": doc, "l": `{"n":2,"l":[[]],"o":{"a":null}}`}).options()
			o.Limits = sqlpp.Limits{Steps: 20000, Rows: 1000, Bytes: 1 << 20}
			results[i] = sqlpp.Run(statement, o)
			size := 0
			for _, row := range results[i].Rows {
				size += len(row)
				if _, ok := sqlpp.Decode([]byte(row)); !ok {
					t.Fatalf("a row is no JSON: %q", row)
				}
			}
			if size > 1<<21 {
				t.Fatalf("%d bytes of rows", size)
			}
		}
		if len(results[0].Rows) != len(results[1].Rows) || len(results[0].Errors) != len(results[1].Errors) ||
			results[0].Mutated != results[1].Mutated {
			t.Fatalf("%v and %v", results[0], results[1])
		}
		for i, row := range results[0].Rows {
			if row != results[1].Rows[i] {
				t.Fatalf("%q and %q", row, results[1].Rows[i])
			}
		}
	})
}
