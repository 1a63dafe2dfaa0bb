package field_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// An answer of the query service says what its rows are, as Signature of the statements in couchbase/query does.
func TestAnswersOfQueriesHaveTheSignatureOfTheirRows_D202(t *testing.T) {
	c := mock.Start(t)
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	for _, row := range []struct{ statement, signature string }{
		{"SELECT 1=1", `{"$1":"boolean"}`},
		{"SELECT *, 1+1 AS sum FROM `default`", `{"*":"*","sum":"number"}`},
		{
			"SELECT d.*, d.a, \"x\" || \"y\" AS t, [1] AS l, {\"a\":1} AS o FROM `default` AS d",
			`{"*":"*","a":"json","t":"string","l":"array","o":"object"}`,
		},
		{"SELECT COUNT(*) AS n FROM `default`", `{"n":"number"}`},
		{"SELECT RAW LOWER(\"A\")", `"string"`},
		{"SELECT 1 AS a UNION SELECT 2 AS a", `{"a":"number"}`},
		{"EXPLAIN SELECT 1", `"json"`},
		{"PREPARE SELECT 1", `"json"`},
		{"INSERT INTO `default` VALUES (\"k\", 1)", `null`},
		{"DELETE FROM `default` WHERE 1 = 2 RETURNING META().id", `{"id":"json"}`},
	} {
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			"http://"+c.Node(0).ServiceAddr(mock.QueryService)+"/query/service",
			strings.NewReader(`{"statement":`+strconv.Quote(row.statement)+`}`))
		require.NoError(t, err)
		rq.SetBasicAuth("Administrator", "password")
		rq.Header.Set("Content-Type", "application/json")
		answer, err := client.Do(rq)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		var out struct{ Signature json.RawMessage }
		require.NoError(t, json.Unmarshal(text, &out), string(text))
		require.JSONEq(t, row.signature, string(out.Signature), row.statement)
	}
}
