package sqlpp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// library are the documents of the tables below.
func library() *memory {
	return newMemory(map[string]string{
		"a": `{"t":"q","n":1,"s":"one","l":[1,2],"o":{"x":1},"nul":null}`,
		"b": `{"t":"q","n":2.5,"s":"two","l":[{"v":3},{"v":4}],"k":"a"}`,
		"c": `{"t":"z","n":3,"s":"three","l":[]}`,
		"d": `[1]`,
		"e": "no json",
	})
}

func rows(t *testing.T, o *sqlpp.Options, statement string) string {
	t.Helper()
	res := sqlpp.Run(statement, o)
	require.Empty(t, res.Errors, statement)
	return "[" + strings.Join(res.Rows, ",") + "]"
}

// expressions are constants with their values, which SELECT RAW [...] shows; MISSING shows as null.
var expressions = []struct{ expr, want string }{
	{`1 + 2 * 3 - 4 / 2 % 3`, `5`},
	{`7 / 2`, `3.5`},
	{`1 / 0`, `null`},
	{`9223372036854775807 + 1`, `9223372036854775807`},
	{`-(2) + +3`, `1`},
	{`1 = 1.0 AND "a" < 'b' AND NULL IS NULL`, `true`},
	{`1 < "a"`, `true`}, // types are ordered
	{`NULL = NULL`, `null`},
	{`TYPE(MISSING AND NULL)`, `"missing"`},
	{`TYPE(MISSING OR NULL)`, `"null"`},
	{`FALSE AND MISSING`, `false`},
	{`TRUE OR MISSING`, `true`},
	{`NOT FALSE AND NOT (1 = 2)`, `true`},
	{`TYPE(MISSING = 1)`, `"missing"`},
	{`MISSING IS MISSING AND NULL IS NOT MISSING AND NULL IS NOT VALUED`, `true`},
	{`TYPE(MISSING IS NULL)`, `"missing"`},
	{`3 IN [1, 2, 3] AND 4 NOT IN [1]`, `true`},
	{`4 IN [1, NULL]`, `null`},
	{`4 IN 5`, `null`},
	{`3 WITHIN {"a": [1, {"b": 3}]}`, `true`},
	{`5 BETWEEN 1 AND 5 AND 6 NOT BETWEEN 1 AND 5`, `true`},
	{`"abc" LIKE "a%" AND "abc" LIKE "_b_" AND "a%c" LIKE "a\\%c" AND NOT ("abc" LIKE "b%")`, `true`},
	{`"aaab" LIKE "%a%ab" AND "" LIKE "%" AND "x" NOT LIKE ""`, `true`},
	{`"a" || 'b' || "c"`, `"abc"`},
	{`"a" || 1`, `null`},
	{`'it''s "x" \u00e9'`, `"it's \"x\" é"`},
	{`[1, 2, 3][1]`, `2`},
	{`[1, 2, 3][-1]`, `3`},
	{`[1, 2, 3][5]`, `null`},
	{`[1, 2, 3][1:]`, `[2,3]`},
	{`[1, 2, 3][0:2]`, `[1,2]`},
	{`{"a": {"b c": 1}}.a.["b c"]`, `1`},
	{`{"a": 1, "m": MISSING, "n": NULL}`, `{"a":1,"n":null}`},
	{`CASE WHEN 1 > 2 THEN "a" WHEN 2 > 1 THEN "b" ELSE "c" END`, `"b"`},
	{`CASE 3 WHEN 1 THEN "a" END`, `null`},
	{`ANY x IN [1, 2] SATISFIES x > 1 END`, `true`},
	{`EVERY x IN [] SATISFIES x > 1 END`, `true`},
	{`ANY AND EVERY x IN [] SATISFIES x > 1 END`, `false`},
	{`SOME x IN [1], y IN [2] SATISFIES x < y END`, `true`},
	{`TYPE(ANY x IN MISSING SATISFIES x END)`, `"missing"`},
	{`ARRAY x * 2 FOR x IN [1, 2, 3] WHEN x != 2 END`, `[2,6]`},
	{`FIRST x FOR x IN [1, 2, 3] WHEN x > 1 END`, `2`},
	{`OBJECT "k" || TO_STRING(x) : x FOR x IN [1, 2] END`, `{"k1":1,"k2":2}`},
	{`ARRAY i FOR i : x IN ["a", "b"] END`, `[0,1]`},
	{`EXISTS [] OR EXISTS [1]`, `true`},
	{`(SELECT RAW 1)[0] + (SELECT 2 AS x)[0].x`, `3`},
	{`IFMISSINGORNULL(MISSING, NULL, 3) + IFMISSING(MISSING, 4) + COALESCE(NULL, 5)`, `12`},
	{`NULLIF(1, 1)`, `null`},
	{`GREATEST(1, 3, NULL) - LEAST(1, 3)`, `2`},
	{`DECODE(2, 1, "a", 2, "b", "c")`, `"b"`},
	{`UPPER("a") || LOWER("B") || TRIM(" c ") || SUBSTR("hello", 1, 3) || SUBSTR1("hello", 1, 1)`, `"Abcellh"`},
	{`LENGTH("é") + POSITION("abc", "c")`, `4`},
	{`SPLIT("a,b", ",")`, `["a","b"]`},
	{`REPLACE("aXbX", "X", "-") || REPEAT("z", 3) || REVERSE("ab") || INITCAP("hello world")`, `"a-b-zzzbaHello World"`},
	{`CONTAINS("abc", "b") AND REGEXP_CONTAINS("abc", "b.") AND NOT REGEXP_LIKE("abc", "b")`, `true`},
	{`LOWER(1)`, `null`},
	{`ROUND(2.567, 2) + TRUNC(1.9) + CEIL(1.1) + FLOOR(1.9) + ABS(-1) + POWER(2, 3) + SIGN(-5)`, `14.57`},
	{`TO_NUMBER("1.5") + TO_NUMBER(TRUE)`, `2.5`},
	{`TO_STRING(1.5) || TO_STRING(TRUE)`, `"1.5true"`},
	{`IS_ARRAY([]) AND ISSTRING("") AND IS_NUMBER(1) AND IS_OBJECT({}) AND IS_ATOM(1) AND NOT IS_BOOLEAN(1)`, `true`},
	{`ARRAY_LENGTH([1, 2]) + ARRAY_COUNT([1, NULL]) + ARRAY_SUM([1, "x", 2]) + ARRAY_MAX([1, 5]) + ARRAY_AVG([2, 4])`, `14`},
	{`ARRAY_APPEND(ARRAY_PREPEND(0, [1]), 2, 3)`, `[0,1,2,3]`},
	{`ARRAY_CONCAT([1], [2], [3])`, `[1,2,3]`},
	{`ARRAY_SORT(ARRAY_DISTINCT([3, 1, "a", NULL, 1]))`, `[null,1,3,"a"]`},
	{`ARRAY_FLATTEN([1, [2, [3]]], 1)`, `[1,2,[3]]`},
	{`ARRAY_RANGE(5, 0, -2)`, `[5,3,1]`},
	{`ARRAY_CONTAINS([1], 1) AND ARRAY_POSITION([1, 2], 2) = 1`, `true`},
	{`ARRAY_REMOVE(ARRAY_PUT([1, 2], 2, 3), 1)`, `[2,3]`},
	{`OBJECT_NAMES({"b": 1, "a": 2})`, `["a","b"]`},
	{`OBJECT_PUT(OBJECT_ADD({"a": 1}, "a", 2), "b", OBJECT_LENGTH({}))`, `{"a":1,"b":0}`},
	{`OBJECT_CONCAT(OBJECT_REMOVE({"a": 1}, "a"), {"c": 3})`, `{"c":3}`},
	{`NOW_STR()`, `"2023-11-14T22:13:20Z"`},
	{`STR_TO_MILLIS(MILLIS_TO_STR(1500)) + NOW_MILLIS() * 0`, `1500`},
	{`DECODE_JSON(ENCODE_JSON({"a": [1, "x"]}))`, `{"a":[1,"x"]}`},
	{`$n + @n + $2`, `8`},
	{`$1 || ?`, `"firstfirst"`},
}

func TestExpressions(t *testing.T) {
	for _, row := range expressions {
		require.JSONEq(t, "["+row.want+"]", rows(t, library().options(), "SELECT RAW "+row.expr), row.expr)
	}
}

var queries = []struct{ statement, want string }{
	{`SELECT META().id, n FROM b WHERE t = "q"`, `[{"id":"a","n":1},{"id":"b","n":2.5}]`},
	{`SELECT RAW META(x).id FROM b AS x WHERE x.n > 2 ORDER BY META(x).id DESC`, `["c","b"]`},
	{`SELECT RAW META().type FROM b USE KEYS ["e", "nope", "a", "e"]`, `["base64","json"]`},
	{`SELECT RAW b FROM b USE KEYS ["d", "e"]`, `[[1],"<binary (7 b)>"]`},
	{
		`SELECT t, COUNT(*) AS c, SUM(n) AS s, AVG(n) AS a, MIN(s) AS m FROM b WHERE t IS NOT MISSING GROUP BY t ORDER BY t`,
		`[{"t":"q","c":2,"s":3.5,"a":1.75,"m":"one"},{"t":"z","c":1,"s":3,"a":3,"m":"three"}]`,
	},
	{`SELECT u, COUNT(n) AS c FROM b GROUP BY t AS u HAVING COUNT(n) > 1`, `[{"u":"q","c":2}]`},
	{`SELECT x FROM b GROUP BY t LETTING x = MAX(n) HAVING x > 2.6`, `[{"x":3}]`},
	{`SELECT COUNT(n) AS c, MAX(n) AS m, ARRAY_AGG(n) AS l FROM b WHERE n > 100`, `[{"c":0,"m":null,"l":null}]`},
	{`SELECT COUNT(DISTINCT t) AS c FROM b`, `[{"c":2}]`},
	{`SELECT RAW SUM(n) + 1 FROM b`, `[7.5]`},
	{`SELECT n AS x FROM b WHERE n IS VALUED ORDER BY x DESC LIMIT 1 OFFSET 1`, `[{"x":2.5}]`},
	{`SELECT RAW n FROM b ORDER BY n NULLS LAST LIMIT 3`, `[1,2.5,3]`},
	{`SELECT DISTINCT t FROM b WHERE t IS NOT MISSING ORDER BY t DESC`, `[{"t":"z"},{"t":"q"}]`},
	{`SELECT META(x).id, v FROM b x UNNEST x.l v`, `[{"id":"a","v":1},{"id":"a","v":2},{"id":"b","v":{"v":3}},
		{"id":"b","v":{"v":4}}]`},
	{`SELECT RAW META(x).id FROM b x LEFT UNNEST x.l v WHERE v IS MISSING AND x.t = "z"`, `["c"]`},
	{`SELECT x.s, y.s AS other FROM b x JOIN b y ON KEYS x.k`, `[{"s":"two","other":"one"}]`},
	{
		`SELECT x.s, y.s AS other FROM b x LEFT JOIN b y ON META(y).id = x.k WHERE x.t = "q"`,
		`[{"s":"one"},{"s":"two","other":"one"}]`,
	},
	{`SELECT x.n, y.n AS m FROM b x, b y WHERE x.n < y.n`, `[{"n":1,"m":2.5},{"n":1,"m":3},{"n":2.5,"m":3}]`},
	{`SELECT * FROM b x USE KEYS "c"`, `[{"x":{"t":"z","n":3,"s":"three","l":[]}}]`},
	{`SELECT x.*, 1 AS n FROM b x USE KEYS "c"`, `[{"t":"z","n":1,"s":"three","l":[]}]`},
	{`SELECT RAW x + y FROM [1, 2] AS x LET y = x * 10 WHERE y > 10`, `[22]`},
	{`SELECT RAW q.n FROM (SELECT n FROM b WHERE n > 1) AS q`, `[2.5,3]`},
	{`SELECT RAW (SELECT RAW v.v FROM x.l AS v WHERE v.v > 3) FROM b AS x USE KEYS "b"`, `[[4]]`},
	{`SELECT RAW s FROM b WHERE n = (SELECT RAW MAX(i.n) FROM default:b AS i)[0]`, `["three"]`},
	{`WITH big AS (SELECT RAW n FROM b WHERE n > 1), one AS (1) SELECT RAW w + one FROM big AS w`, `[3.5,4]`},
	{`SELECT RAW 1 UNION SELECT RAW 2 UNION SELECT RAW 1`, `[1,2]`},
	{`SELECT RAW 1 UNION ALL SELECT RAW 1`, `[1,1]`},
	{`(SELECT 2 AS x) UNION ALL (SELECT 1 AS x) ORDER BY x`, `[{"x":1},{"x":2}]`},
	{`SELECT RAW x FROM [1, 2, 3] AS x EXCEPT SELECT RAW 2`, `[1,3]`},
	{`SELECT RAW x FROM [1, 2] AS x INTERSECT SELECT RAW 2`, `[2]`},
	{`FROM b SELECT RAW n WHERE n = 1`, ``},
	{`FROM b WHERE n = 1 SELECT RAW s`, `["one"]`},
	{`SELECT RAW name FROM system:dual`, `["dual"]`},
	{`SELECT t.o.x, l[0] FROM b AS t WHERE t.o.x = 1`, `[{"x":1,"$1":1}]`},
	{`SELECT VALUE n FROM b WHERE nul IS NULL`, `[1]`},
	{"SELECT `b`.`n` AS `select` -- a comment\n FROM default:b /* another */ WHERE n = 1;", `[{"select":1}]`},
}

func TestQueries(t *testing.T) {
	for _, row := range queries {
		if row.want == "" {
			require.NotEmpty(t, sqlpp.Run(row.statement, library().options()).Errors, row.statement)
			continue
		}
		require.JSONEq(t, row.want, rows(t, library().options(), row.statement), row.statement)
	}
}

// TestRefusals holds the codes of what is wrong, and of what the interpreter does not know.
func TestRefusals(t *testing.T) {
	for statement, code := range map[string]int{
		"":                                      sqlpp.CodeSyntax,
		"SELECT":                                sqlpp.CodeSyntax,
		"SELECT 'open":                          sqlpp.CodeSyntax,
		"SELECT 1 2":                            sqlpp.CodeSyntax,
		"SELECT * FROM b WHERE":                 sqlpp.CodeSyntax,
		"SELECT n FROM b GROUP":                 sqlpp.CodeSyntax,
		"SELECT LOWER()":                        sqlpp.CodeSyntax,
		"SELECT n":                              sqlpp.CodeAmbiguous,
		"SELECT n FROM b x JOIN b y ON TRUE":    sqlpp.CodeAmbiguous,
		"SELECT META().id FROM b x, b y":        4310,
		"SELECT n, COUNT(*) FROM b":             sqlpp.CodeNotGrouped,
		"SELECT t FROM b GROUP BY n":            sqlpp.CodeNotGrouped,
		"SELECT t FROM b GROUP BY t ORDER BY n": sqlpp.CodeNotGrouped,
		"SELECT n FROM b WHERE COUNT(*) > 1":    sqlpp.CodeSemantics,
		"SELECT 1 FROM b x, b x":                sqlpp.CodeDuplicateAlias,
		"SELECT 1 FROM nope":                    sqlpp.CodeNoKeyspace,
		"SELECT 1 FROM system:nope":             sqlpp.CodeNoSystem,
		"SELECT 1 FROM other:b":                 sqlpp.CodeNoNamespace,
		"SELECT n FROM b.s.c":                   sqlpp.CodeNoIndex,
		"DELETE FROM b.s.c":                     sqlpp.CodeNoIndex,
		"EXPLAIN SELECT n FROM b.s.c":           sqlpp.CodeNoIndex,
		"SELECT $absent":                        sqlpp.CodeEvaluation,
		"SELECT $7":                             sqlpp.CodeEvaluation,
		"SELECT n FROM b LIMIT 'x'":             sqlpp.CodeEvaluation,
		"COMMIT":                                sqlpp.CodeTxnStatement,
		"INSERT INTO b VALUES (1, 2)":           sqlpp.CodeInsertKeyType,
		"MERGE INTO b USING c ON KEY x":         sqlpp.CodeExecution,
		"SELECT ROW_NUMBER() OVER () FROM b":    sqlpp.CodeExecution,
		"SELECT SUM(n) OVER () FROM b":          sqlpp.CodeExecution,
		"SELECT NO_SUCH(1)":                     sqlpp.CodeExecution,
		"SELECT 'a' LIKE 'b' ESCAPE 'c'":        sqlpp.CodeExecution,
		"SELECT 1 FROM b NEST b c ON KEYS 'a'":  sqlpp.CodeExecution,
		"ALTER INDEX b.i WITH {}":               sqlpp.CodeExecution,
		"CREATE FUNCTION f() { 1 }":             sqlpp.CodeExecution,
		"GRANT admin TO me":                     sqlpp.CodeExecution,
		"UPDATE STATISTICS FOR b":               sqlpp.CodeExecution,
		"how are you":                           sqlpp.CodeSyntax,
		"SELECT d.* EXCLUDE n FROM b d":         sqlpp.CodeExecution,
		"SELECT 1 FROM b, LATERAL (SELECT 1) c": sqlpp.CodeExecution,
		"SELECT (CORRELATED (SELECT 1))":        sqlpp.CodeExecution,
		"SELECT NEXTVAL FOR s":                  sqlpp.CodeExecution,
		"SELECT PREV VALUE FOR s":               sqlpp.CodeExecution,
		"SELECT default:f(1)":                   sqlpp.CodeExecution,
		"UPDATE b LET x = 1 SET n = x":          sqlpp.CodeExecution,
		"CREATE INDEX i ON b(n) INCLUDE (s)":    sqlpp.CodeExecution,
		"CREATE INDEX i ON b(f(x, y DESC))":     sqlpp.CodeExecution,
		"EXPLAIN FUNCTION f":                    sqlpp.CodeExecution,
		"USING AI WITH {} all users":            sqlpp.CodeExecution,
		"SELECT n FOR b":                        sqlpp.CodeSyntax,
		"TRUNCATE b":                            sqlpp.CodeSyntax,
	} {
		res := sqlpp.Run(statement, library().options())
		require.Len(t, res.Errors, 1, statement)
		require.Equal(t, code, res.Errors[0].Code, "%s: %v", statement, res.Errors[0])
		require.Empty(t, res.Rows, statement)
		if code == sqlpp.CodeExecution {
			require.Contains(t, res.Errors[0].Message, "The mock does not support", statement)
			require.Contains(t, res.Errors[0].Message, "Cluster.ScriptQuery(", statement)
		}
	}
	for statement, name := range map[string]string{
		"ALTER INDEX b.i WITH {}": "ALTER INDEX", "EXECUTE FUNCTION f()": "EXECUTE FUNCTION",
	} {
		res := sqlpp.Run(statement, library().options())
		require.Contains(t, res.Errors[0].Message, "The mock does not support "+name+".", statement)
	}
}
