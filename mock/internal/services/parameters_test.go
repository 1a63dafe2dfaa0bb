package services_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// What a request says beside its statement is read as the query service does, with its codes, texts and statuses. The
// first kind of body is JSON, where types matter; in a form all values are texts.
func TestParametersOfQueries(t *testing.T) {
	a := newAsker(t, mock.Start(t, mock.Bucket("default", 8)))
	for _, row := range []struct {
		more string
		code int
		text string
	}{
		{`"tiemout":"1s"`, 1065, "Unrecognized parameter in request: tiemout"},
		{`"scan_consistency":"requestplus"`, 1030, "Unknown scan_consistency value: requestplus"},
		{`"scan_consistency":"at_plus"`, 1050, "No scan_vector value"},
		{`"timeout":"1x"`, 1040, "Error processing duration - cause: Unable to parse duration: 1x"},
		{`"timeout":5`, 1070, "timeout has to be of type string"},
		{`"readonly":"true"`, 1070, "readonly has to be of type boolean"},
		{`"max_parallelism":"x"`, 1040, "Error processing max_parallelism - cause: max_parallelism is invalid"},
		{`"args":{"a":1}`, 1070, "args has to be of type array"},
		{`"profile":"all"`, 1030, "Unknown profile value: all"},
		{`"format":"CSV"`, 1020, "CSV format not yet implemented"},
		{`"durability_level":"most"`, 1040, "Error processing durability_level - cause: durability_level is invalid"},
		{`"use_replica":"yes"`, 1040, "Error processing use_replica - cause: Unknown use_replica value: yes"},
	} {
		got := a.query(`{"statement":"SELECT 1",` + row.more + `}`)
		require.Equal(t, http.StatusBadRequest, got.status, row.more)
		require.Equal(t, row.code, got.query(t).code(), row.more)
		require.Contains(t, string(got.body), row.text)
	}
	for _, more := range []string{
		`"Timeout":"75s","scan_wait":"","scan_consistency":"request_plus","profile":"timings","use_replica":"on"`,
		`"timeout":"0.5","max_parallelism":"4","pipeline_batch":16,"readonly":true,"durability_level":"majority"`,
		`"args":[1],"$x":1,"@y":2,"creds":[],"client_context_id":"a","query_context":"default:default._default"`,
		`"scan_consistency":"at_plus","scan_vectors":{"default":{}}`,
	} {
		require.Zero(t, a.query(`{"statement":"SELECT 1",`+more+`}`).query(t).code(), more)
	}
	form := func(method, body string) int {
		got, err := a.try(0, mock.QueryService, method, "/query/service?"+body, "", nil)
		require.NoError(t, err)
		return got.query(t).code()
	}
	require.Zero(t, form("POST", "statement=SELECT+1&readonly=true&metrics=&max_parallelism=2&args=[1]"))
	require.Equal(t, 1040, form("POST", "statement=SELECT+1&readonly=maybe"))
	require.Equal(t, 1040, form("POST", "statement=SELECT+1&args=1"))
	require.Equal(t, 1000, form("GET", "statement=DELETE+FROM+default"), "GET only reads")
}

// Scripts come before the reading of parameters, as they come before the interpreter.
func TestScriptsMayHaveParametersOfTheirOwn(t *testing.T) {
	c := mock.Start(t)
	c.ScriptQuery("SELECT 1", mock.Answer{Rows: []string{"1"}})
	require.Zero(t, newAsker(t, c).query(`{"statement":"SELECT 1","mine":1}`).query(t).code())
}

// A version knows the parameters that it has, and since 7.6 the status of a missing keyspace says that it is missing.
func TestParametersOfVersions(t *testing.T) {
	for version, want := range map[string]struct{ context, expiry, replica, status int }{
		"6.6": {1065, 1065, 1065, 500}, "7.0": {0, 1065, 1065, 500}, "7.1": {0, 0, 1065, 500},
		"7.2": {0, 0, 1065, 500}, "7.6": {0, 0, 0, 424}, "8.0": {0, 0, 0, 424},
	} {
		a := newAsker(t, mock.Start(t, mock.Version(version)))
		with := func(more string) int { return a.query(`{"statement":"SELECT 1",` + more + `}`).query(t).code() }
		require.Equal(t, want.context, with(`"query_context":"default:default._default"`), version)
		require.Equal(t, want.expiry, with(`"preserve_expiry":true`), version)
		require.Equal(t, want.replica, with(`"use_replica":"on"`), version)
		missing := a.query(`{"statement":"SELECT * FROM nothing"}`)
		require.Equal(t, 12003, missing.query(t).code(), version)
		require.Equal(t, want.status, missing.status, version)
	}
}
