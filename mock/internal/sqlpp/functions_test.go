package sqlpp_test

import (
	"math/rand"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock/internal/sqlpp"
)

// calls are calls of functions with their values, which follow the query service's own (package expression of
// github.com/couchbase/query); MISSING shows as null.
var calls = []struct{ expr, want string }{
	// times
	{`DATE_ADD_STR("2020-01-31", 1, "month")`, `"2020-03-02"`},
	{`DATE_ADD_STR("2020-01-31", 1, "calendar_month")`, `"2020-02-29"`},
	{`DATE_ADD_STR("2020-02-29", 1, "calendar_month")`, `"2020-03-31"`},
	{`DATE_ADD_STR("2020-01-31T10:00:00.5Z", -2, "hour")`, `"2020-01-31T08:00:00.5Z"`},
	{`DATE_ADD_STR("2020/05/06 07:08", 1, "century")`, `"2120/05/06 07:08"`},
	{`DATE_ADD_STR("2020-01-31", 1.5, "day")`, `null`},
	{`DATE_ADD_STR("2020-01-31", 1, "fortnight")`, `null`},
	{`DATE_ADD_STR("no time", 1, "day")`, `null`},
	{`TYPE(DATE_ADD_STR(MISSING, 1, "day"))`, `"missing"`},
	{`DATE_ADD_MILLIS(0, 2, "day")`, `172800000`},
	{`DATE_ADD_MILLIS(0, 900000000000, "year")`, `null`},
	{`DATE_DIFF_STR("2020-03-01", "2020-02-28", "day")`, `2`},
	{`DATE_DIFF_STR("2020-02-28T23:00:00Z", "2020-03-01T01:00:00Z", "hour")`, `-26`},
	{`DATE_DIFF_STR("2021-01-01", "2019-12-31", "year")`, `2`},
	{`DATE_DIFF_STR("2021-01-01", "2019-12-31", "quarter")`, `5`},
	{`DATE_DIFF_STR("2021-01-01", "2019-12-31", "month")`, `13`},
	{`DATE_DIFF_STR("2020-01-15", "2020-01-01", "week")`, `2`},
	{`DATE_DIFF_ABS_STR("2020-01-01", "2020-01-15", "day")`, `14`},
	{`DATE_DIFF_MILLIS(1500, 0, "millisecond") + DATE_DIFF_ABS_MILLIS(0, 60000, "second")`, `1560`},
	{`DATE_TRUNC_STR("2020-05-17T10:11:12.345Z", "hour")`, `"2020-05-17T10:00:00Z"`},
	{`DATE_TRUNC_STR("2020-05-17", "quarter") || DATE_TRUNC_STR("2027-05-17", "decade")`, `"2020-04-012020-01-01"`},
	{`DATE_TRUNC_STR("2020-05-14", "week") || DATE_TRUNC_STR("2020-05-14", "iso_week")`, `"2020-05-102020-05-11"`},
	{`DATE_TRUNC_STR("17.05.2020", "month", "DD.MM.YYYY")`, `"01.05.2020"`},
	{`DATE_TRUNC_MILLIS(90000000, "day")`, `86400000`},
	{`DATE_PART_STR("2020-05-17T10:11:12.345+05:30", "millisecond")`, `345`},
	{
		`ARRAY DATE_PART_STR("2020-12-31T10:11:12+05:30", p) FOR p IN ["year", "Quarter", "month", "day", "hour", "week",
			"doy", "dow", "iso_week", "iso_year", "iso_dow", "timezone", "timezone_hour", "timezone_minute", "decade",
			"century", "millennium", "second", "minute"] END`,
		`[2020,4,12,31,10,53,366,4,53,2020,4,19800,5,30,202,21,3,12,11]`,
	},
	{`DATE_PART_MILLIS(0, "hour", "+02:00") + DATE_PART_MILLIS(0, "year")`, `1972`},
	{`DATE_PART_STR("2020-05-17", "nothing")`, `null`},
	{`DATE_RANGE_STR("2020-01-30", "2020-02-02", "day")`, `["2020-01-30","2020-01-31","2020-02-01"]`},
	{
		`DATE_RANGE_STR("2020-01-31", "2020-05-01", "calendar_month")`,
		`["2020-01-31","2020-02-29","2020-03-31","2020-04-30"]`,
	},
	{`DATE_RANGE_STR("2020-02-01", "2020-01-30", "day", 1)`, `[]`},
	{`DATE_RANGE_STR("2020-02-01", "2020-01-30", "day", -1)`, `["2020-02-01","2020-01-31"]`},
	{`DATE_RANGE_MILLIS(0, 7200000, "hour")`, `[0,3600000]`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09.042Z", "DD/MM/YY hh:mm:ss.s")`, `"17/05/20 16:05:09.042"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "Month DD, YYYY HH:MI PM, Day")`, `"May 17, 2020 04:05 PM, Sunday"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09+02:00", "MON DY TZD")`, `"MAY SUN +02:00"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "%d.%m.%y %-I%P %j %%")`, `"17.05.20 4pm 138 %"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "%D %T %^b %a %q %N")`, `"2020-05-17 16:05:09 MAY Sun 2 000000000"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "1111-11-11")`, `"2020-05-17"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "02 Jan 2006")`, `"17 May 2020"`},
	{`DATE_FORMAT_STR("2020-05-17T16:05:09Z", "invalid")`, `"2020-05-17T16:05:09Z"`},
	{`DATE_FORMAT_STR("17/05/2020", "DD/MM/YYYY", "YYYY-MM-DD")`, `"2020-05-17"`},
	{`DATE_FORMAT_STR("2020-05-17", "%Q")`, `null`},
	{`DATE_FORMAT_STR("2040-05-17", "%s")`, `"2220825600"`},
	{`STR_TO_MILLIS("May 17, 2020 04:05 PM", "Month DD, YYYY HH:MI PM")`, `1589731500000`},
	{`STR_TO_MILLIS("2020-05-17T10:00:00+02:00")`, `1589702400000`},
	{`STR_TO_MILLIS("31.02.2020", "DD.MM.YYYY")`, `null`},
	{`STR_TO_MILLIS("1589702400", "%s")`, `1589702400000`},
	{`STR_TO_UTC("2020-05-17T10:00:00+02:00")`, `"2020-05-17T08:00:00Z"`},
	{`STR_TO_UTC("2020-05-17T10:00:00+02:00", "", "YYYY")`, `"2020"`},
	{`STR_TO_TZ("2020-05-17T10:00:00Z", "+05:30")`, `"2020-05-17T15:30:00+05:30"`},
	{`STR_TO_ZONE_NAME("2020-05-17T10:00:00Z", "UTC")`, `"2020-05-17T10:00:00Z"`},
	{`STR_TO_TZ("2020-05-17T10:00:00Z", "Nowhere/Town")`, `null`},
	{`MILLIS_TO_STR(1500) || MILLIS_TO_UTC(0, "YYYY")`, `"1970-01-01T00:00:01.5Z1970"`},
	{`MILLIS_TO_TZ(0, "-07:00") || MILLIS_TO_ZONE_NAME(0, "UTC", "hh")`, `"1969-12-31T17:00:00-07:0000"`},
	{`NOW_STR("YYYY-MM-DD") || NOW_TZ("+01:00", "hh") || CLOCK_LOCAL("hh")`, `"2023-11-142322"`},
	{`WEEKDAY_STR("2020-05-17") || WEEKDAY_MILLIS(0)`, `"SundayThursday"`},
	{`DURATION_TO_STR(STR_TO_DURATION("1h30m"))`, `"1h30m0s"`},

	// texts
	{`LPAD("7", 3, "0") || RPAD("ab", 5, "xy") || LPAD("abc", 2) || "|" || RPAD("a", 3) || "|"`, `"007abxyxab|a  |"`},
	{`LPAD("a", -1)`, `null`},
	{`LPAD("a", 3, "")`, `null`},
	{`MB_LPAD("é", 3, "ü") || MB_RPAD("é", 2)`, `"üüéé "`},
	{`MB_POSITION("aéb", "b") + MB_POS1("aéb", "b") + MB_POSITION("a", "x")`, `4`},
	{`MB_SUBSTR("aéb", 1, 1) || MB_SUBSTR1("aéb", -1)`, `"éb"`},
	{`SUBSTR("abc", 3)`, `null`},
	{`SUFFIXES("aéb")`, `["aéb","éb","b"]`},
	{`URLENCODE("a b&c") || URLDECODE("%20x")`, `"a+b%26c x"`},
	{`TOKENS({"a": ["x y", 1, NULL], "b": "X-y"})`, `[null,1,"X","a","b","x","y"]`},
	{
		`TOKENS({"a": "Me@x.com (here)"}, {"names": false, "case": "lower", "specials": true})`,
		`["com","here","me","me@x.com","x"]`,
	},
	{`TOKENS(" A b ", {"split": false})`, `["A b"]`},
	{`CONTAINS_TOKEN("a Big day", "big", {"case": "lower"}) AND NOT HAS_TOKEN(["bigger"], "big")`, `true`},
	{`REGEXP_REPLACE("aXbXc", "X", "$1") || REGEXP_REPLACE("aXbXc", "X", "-", 1)`, `"a$1b$1ca-bXc"`},
	{`REGEXP_POSITION("abc", "c|d") + REGEXP_POSITION1("abc", "x") + REGEX_POS1("abc", "b")`, `4`},
	{`REGEXP_MATCHES("a1b22", "[0-9]+")`, `["1","22"]`},
	{`REGEXP_SPLIT("a1b22c", "[0-9]+")`, `["a","b","c"]`},
	{`REGEXP_MATCHES("a", "(")`, `null`},

	// numbers
	{`MOD(7, 3) + MOD(-7.5, 2) + IMOD(7.9, 4) + NEG(1) + ADD(1, SUB(3, 2)) + MULT(2, DIV(3, 2))`, `6.5`},
	{`MOD(1, 0)`, `null`},
	{`ATAN2(0, 1) + ROUND_NEAREST(2.5) + ROUND(2.5)`, `5`},
	{`BITAND(6, 3) + BITOR(1, 2, 4) * 10 + BITXOR(6, 3) * 100`, `572`},
	{`BITNOT(0) + BITSHIFT(1, 4) + BITSHIFT(16, -3) + BITSHIFT(1, 64) + BITSHIFT(-1, 1, TRUE)`, `16`},
	{`BITSET(0, [1, 3]) + BITCLEAR(7, 1) * 10`, `65`},
	{`BITTEST(5, [1, 2]) AND NOT ISBITSET(5, [1, 2], TRUE) AND BITTEST(5, [1, 3], TRUE)`, `true`},
	{`BITSET(0, 65)`, `null`},
	{`[NAN(), POSINF(), NEGINF()]`, `["NaN","+Infinity","-Infinity"]`},
	{
		`[IFINF(POSINF(), 1), IFNAN(NAN(), 2), IFNANORINF(NAN(), NEG_INF(), 3), IFINF(NULL, 1), IFNAN(MISSING, 4)]`,
		`[1,2,3,null,4]`,
	},
	{`[NANIF(1, 1), POSINFIF(1, 2), NEGINF_IF(1, 1)]`, `["NaN",1,"-Infinity"]`},
	{`RANDOM() BETWEEN 0 AND 1 AND RANDOM(7) != RANDOM(7)`, `true`},

	// arrays and objects
	{`ARRAY_APPEND([1], NULL)`, `[1,null]`},
	{`ARRAY_PREPEND(NULL, [1])`, `[null,1]`},
	{`ARRAY_INSERT([1, 2], 1, "a", NULL)`, `[1,"a",null,2]`},
	{`ARRAY_INSERT([1, 2], -1, "a")`, `[1,"a",2]`},
	{`ARRAY_INSERT([1, 2], 3, "a")`, `null`},
	{`ARRAY_INTERSECT([1, 2, NULL, 2], [2, NULL, 3], [2])`, `[2]`},
	{`ARRAY_UNION([1, 2], [2, 3], [1])`, `[1,2,3]`},
	{`ARRAY_UNION([1], "x")`, `null`},
	{`ARRAY_SYMDIFF([1, 2], [2, 3], [3, 3, 4])`, `[1,4]`},
	{`ARRAY_SYMDIFFN([1, 2], [2, 3], [2])`, `[1,2,3]`},
	{`ARRAY_EXCEPT([1, 2, 1], [2])`, `[1,1]`},
	{`ARRAY_REPLACE([1, 2, 1], 1, NULL, 1)`, `[null,2,1]`},
	{`ARRAY_REPEAT("x", 3)`, `["x","x","x"]`},
	{`ARRAY_STAR([{"a": 1}, 2, {"a": 3, "b": 4}])`, `{"a":[1,null,3],"b":[null,null,4]}`},
	{
		`ARRAY_CONTAINS_ALL([1, 2], [2, 1]) AND ARRAY_CONTAINS_ANY([1], [3, 1]) AND NOT ARRAY_CONTAINS_ANY([1], 2)`,
		`true`,
	},
	{`ARRAY_SWAP([1, 2, 3], 0, -1)`, `[3,2,1]`},
	{`ARRAY_MOVE([1, 2, 3], 0, 2)`, `[2,3,1]`},
	{`ARRAY_BINARY_SEARCH([1, 3, 5], 3) + ARRAY_BINARY_SEARCH([1, 3], 2)`, `0`},
	{`OBJECT_RENAME({"a": 1, "b": 2}, "a", "c")`, `{"b":2,"c":1}`},
	{`OBJECT_REPLACE({"a": 1, "b": 2, "c": 1}, 1, "x")`, `{"a":"x","b":2,"c":"x"}`},
	{`[OBJECT_UNWRAP({"a": 1}), OBJECT_UNWRAP({"a": 1, "b": 2})]`, `[1,null]`},
	{`OBJECT_INNER_PAIRS({"a": 1})`, `[{"name":"a","val":1}]`},
	{`PAIRS({"a": [1, {"b": 2}], "c": 3})`, `[["a",[1,{"b":2}]],["a",1],["a",{"b":2}],["b",2],["c",3]]`},
	{`[TOATOM([{"a": 5}]), TO_ATOM([1, 2]), TOOBJECT(1), TO_OBJECT({"a": 1})]`, `[5,null,{},{"a":1}]`},
	{`[POLY_LENGTH([1]), POLY_LENGTH("ab"), LEN(123), MB_LEN("é"), POLY_LENGTH(1)]`, `[1,2,3,1,null]`},
	{`BASE64(BASE64_DECODE(BASE64_ENCODE({"a": 1})))`, `"eyJhIjoxfQ=="`},
	{`BASE64_DECODE("!")`, `null`},
}

func TestFunctions(t *testing.T) {
	for _, row := range calls {
		require.JSONEq(t, "["+row.want+"]", rows(t, library().options(), "SELECT RAW "+row.expr), row.expr)
	}
}

// TestNumbersOfASeed holds that a seed makes the numbers that it makes on a server, which takes Go's source of them.
func TestNumbersOfASeed(t *testing.T) {
	source := rand.New(rand.NewSource(42))
	want := strconv.FormatFloat(source.Float64(), 'g', -1, 64)
	want += "," + strconv.FormatFloat(source.Float64(), 'g', -1, 64)
	require.JSONEq(t, "["+want+"]", rows(t, library().options(), "SELECT RAW RANDOM(42) FROM [1, 2] AS x"))
}

// TestAggregatesOfSpread holds the values of MEDIAN and its siblings, for several numbers, one and none.
func TestAggregatesOfSpread(t *testing.T) {
	const list = `MEDIAN(x), STDDEV(x), STDDEV_POP(x), STDDEV_SAMP(x), VARIANCE(x), VAR_POP(x), VAR_SAMP(x),
		VARIANCE_POP(x), VARIANCE_SAMP(x)`
	for from, want := range map[string]string{
		`[1, 3, "a", 5, 7, NULL]`: `[4,2.581988897471611,2.23606797749979,2.581988897471611,6.666666666666667,5,
			6.666666666666667,5,6.666666666666667]`,
		`[2]`:   `[2,0,0,null,0,0,null,0,null]`,
		`["a"]`: `[null,null,null,null,null,null,null,null,null]`,
	} {
		require.JSONEq(t, "["+want+"]", rows(t, library().options(), "SELECT RAW ["+list+"] FROM "+from+" AS x"), from)
	}
	require.JSONEq(t, "[2]", rows(t, library().options(), "SELECT RAW MEDIAN(DISTINCT x) FROM [1, 1, 1, 2, 3] AS x"))
}

// TestEveryFunctionIsListed holds that the page of differences names the functions that there are. On failure it shows
// the paragraph that the page should have.
func TestEveryFunctionIsListed(t *testing.T) {
	page, err := os.ReadFile("../../FIDELITY.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "## Functions of SQL++\n")
	section, _, _ = strings.Cut(section, "\n## ")
	_, list, _ := strings.Cut(section, "\n\n")
	want, line := "", ""
	for _, name := range sqlpp.Functions() {
		if len(line)+len(name) > 118 {
			want, line = want+strings.TrimSuffix(line, " ")+"\n", ""
		}
		line += name + " "
	}
	require.Equal(t, want+strings.TrimSuffix(line, " "), strings.TrimSpace(list))
}
