package sqlpp_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// doubling is a statement with so many values, each of which holds the one before it twice.
func doubling(n int, last string) string {
	var s strings.Builder
	s.WriteString("SELECT RAW " + last + " FROM [1] AS a LET v0 = [1, 1]")
	for i := 1; i <= n; i++ {
		p := "v" + strconv.Itoa(i-1)
		s.WriteString(", v" + strconv.Itoa(i) + " = [" + p + ", " + p + "]")
	}
	return s.String()
}

// TestNoStatementGoesBeyondItsLimits has statements that would use any time or memory.
func TestNoStatementGoesBeyondItsLimits(t *testing.T) {
	deep := func(open, middle, shut string) string {
		return "SELECT " + strings.Repeat(open, 5000) + middle + strings.Repeat(shut, 5000)
	}
	many := "[" + strings.Repeat("1,", 2000) + "1]"
	for name, statement := range map[string]string{
		"brackets":        deep("(", "1", ")"),
		"arrays":          deep("[", "", "]"),
		"objects":         deep(`{"a":`, "1", "}"),
		"subqueries":      deep("(SELECT ", "1", ")"),
		"negations":       deep("NOT ", "1", ""),
		"signs":           deep("- ", "a", ""),
		"calls":           deep("LOWER(", "'a'", ")"),
		"cases":           deep("CASE WHEN ", "1", " THEN 1 END"),
		"sums":            "SELECT " + strings.Repeat("1 + ", 5000) + "1",
		"fields":          "SELECT a" + strings.Repeat(".a", 5000),
		"explains":        strings.Repeat("EXPLAIN ", 5000) + "SELECT 1",
		"text":            "SELECT '" + strings.Repeat("x", sqlpp.MaxStatement) + "'",
		"repeat":          "SELECT REPEAT('aaaaaaaaaa', 1000000000000)",
		"replace":         "SELECT REPLACE(REPEAT('a', 10000), '', REPEAT('b', 10000))",
		"range":           "SELECT ARRAY_RANGE(0, 9223372036854775807)",
		"range down":      "SELECT ARRAY_RANGE(0, -9223372036854775807, -1)",
		"cross join":      "SELECT RAW 1 FROM " + many + " AS a, " + many + " AS b, " + many + " AS c",
		"unnest":          "SELECT RAW 1 FROM " + many + " AS a UNNEST " + many + " AS b UNNEST " + many + " AS c",
		"doubled rows":    doubling(60, "v60"),
		"doubled compare": doubling(60, "v60 = v60"),
		"doubled within":  doubling(60, "2 WITHIN v60"),
		"doubled flat":    doubling(60, "ARRAY_FLATTEN(v60, -1)"),
		"doubled group":   doubling(60, "COUNT(*)") + " GROUP BY v60",
		"doubled like":    "SELECT " + strings.Repeat("REPLACE(", 50) + "'ab'" + strings.Repeat(", 'a', 'aaaaaaa')", 50),
		"pattern":         "SELECT RAW REGEXP_CONTAINS(REPEAT('a', 500000), '(a*)*" + strings.Repeat("(a|b)*", 100) + "c')",
	} {
		t.Run(name, func(t *testing.T) {
			o := library().options()
			o.Limits = sqlpp.Limits{Steps: 200_000, Rows: 10_000, Bytes: 1 << 20}
			res := sqlpp.Run(statement, o)
			require.Len(t, res.Errors, 1)
			require.Contains(t, res.Errors[0].Message, "limit")
			require.Empty(t, res.Rows)
		})
	}
	res := sqlpp.Run("SELECT RAW REPEAT('a', 10000) LIKE '"+strings.Repeat("%a", 500)+"b'", library().options())
	require.Equal(t, []string{"false"}, res.Rows, "a pattern is not tried in every way")
	require.Empty(t, sqlpp.Run("SELECT "+strings.Repeat("FALSE OR ", 20000)+"TRUE", library().options()).Errors,
		"a chain of OR is one level")
}
