package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

func TestExplainServices(t *testing.T) {
	golden(t, "explain_http", transcript(
		"explain --service query --op query --code 4040",
		"explain --service query --op query --code 4040 --http 404 --prepared",
		"explain --service query --op query --code 5000",
		"explain --service query --op query --code 5000 --body testdata/index_not_found.txt",
		"explain --service query --op query --code 5000 --body testdata/index_not_found.txt --prepared",
		"explain --service query --op query --http 200 --body testdata/rows_then_error.json",
		"explain --service query --op query --http 200 --body testdata/rows_then_error.json --readonly",
		"explain --service query --op query --http 503",
		"explain --service query --op query --http 503 --readonly",
		"explain --service query --op query --http 503 --retry-after 7",
		"explain --service query --op query --lost-socket",
		"explain --service query --op query --lost-socket --readonly",
		"explain --service query --op query --reason AUTHENTICATION_ERROR",
		"explain --service search --op query --http 429",
		"explain --service views --op query --http 302",
		"explain --service views --op query --http 404",
		"explain --service views --op query --http 404 --body testdata/missing.json",
		"explain --service analytics --op query --code 23007 --retries 3",
		"explain --service management --op GET --http 503",
		"explain --service management --op POST --http 503",
		"explain --service management --op POST --http 429 --strategy best-effort",
		"explain --service management --op GET --http 200",
		"explain --service management --op PUT --lost-socket",
	))
}

func TestExplainServicesAsJSON(t *testing.T) {
	const (
		first  = `"decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":true}`
		always = `"decision":"retry","delay_ms":[1,1],"error":null,"consulted_strategy":false}`
	)
	again := func(reason string) string { return `{"reason":"` + reason + `",` + first }
	fails := func(kind string) string {
		return `{"reason":null,"decision":"fail","delay_ms":null,"error":"` + kind + `","consulted_strategy":false}`
	}
	const succeeds = `{"reason":null,"decision":"succeed","delay_ms":null,"error":null,"consulted_strategy":false}`
	lost := `{"reason":"SOCKET_CLOSED_WHILE_IN_FLIGHT","decision":"fail","delay_ms":null,"error":"request_canceled","consulted_strategy":false}`
	for args, want := range map[string]string{
		"--service query --op query --code 4040":                                    fails("prepared_statement_failure"),
		"--service query --op query --code 4040 --prepared":                         again("QUERY_PREPARED_STATEMENT_FAILURE"),
		"--service query --op query --http 200":                                     succeeds,
		"--service search --op query --http 200":                                    succeeds,
		"--service views --op query --http 200":                                     succeeds,
		"--service analytics --op query --http 200":                                 succeeds,
		"--service query --op query --http 200 --body testdata/index_not_found.txt": fails("decoding_failure"),
		"--service query --op query --code 4070 --http 404 --prepared":              again("QUERY_PREPARED_STATEMENT_FAILURE"),
		"--service query --op query --code 3000":                                    fails("parsing_failure"),
		"--service query --op query --code 1080":                                    fails("ambiguous_timeout"),
		"--service query --op query --code 1080 --readonly":                         fails("unambiguous_timeout"),
		"--service query --op query --code 1080 --idempotent":                       fails("unambiguous_timeout"),
		"--service query --op query --http 401":                                     fails("authentication_failure"),
		"--service query --op query --http 504":                                     fails("couchbase"),
		"--service query --op query --http 504 --readonly":                          again("SERVICE_RESPONSE_CODE_INDICATED"),
		"--service query --op query --http 429":                                     again("SERVICE_RESPONSE_CODE_INDICATED"),
		"--service query --op query --lost-socket":                                  lost,
		"--service query --op query --reason SOCKET_CLOSED_WHILE_IN_FLIGHT":         lost,
		"--service analytics --op query --lost-socket --readonly":                   again("SOCKET_CLOSED_WHILE_IN_FLIGHT"),
		"--service analytics --op query --code 23000":                               again("ANALYTICS_TEMPORARY_FAILURE"),
		"--service analytics --op query --code 24000":                               fails("parsing_failure"),
		"--service search --op query --http 429":                                    again("SEARCH_TOO_MANY_REQUESTS"),
		"--service search --op query --code 429":                                    again("SEARCH_TOO_MANY_REQUESTS"),
		"--service search --op query --http 503":                                    again("SERVICE_RESPONSE_CODE_INDICATED"),
		"--service search --op query --http 500":                                    fails("internal_server_failure"),
		"--service search --op query --lost-socket":                                 again("SOCKET_CLOSED_WHILE_IN_FLIGHT"),
		"--service views --op query --http 302":                                     `{"reason":"VIEWS_NO_ACTIVE_PARTITION",` + always,
		"--service views --op query --http 500":                                     again("VIEWS_TEMPORARY_FAILURE"),
		"--service views --op query --http 404":                                     fails("view_not_found"),
		"--service management --op get --lost-socket":                               again("SOCKET_CLOSED_WHILE_IN_FLIGHT"),
		"--service management --op HEAD --http 504":                                 again("SERVICE_RESPONSE_CODE_INDICATED"),
		"--service management --op DELETE --http 504":                               fails("temporary_failure"),
		"--service management --op DELETE --http 502":                               fails("couchbase"),
		"--service management --op DELETE --http 504 --idempotent":                  again("SERVICE_RESPONSE_CODE_INDICATED"),
		"--service management --op POST --http 403":                                 fails("authentication_failure"),
		"--service management --op POST --http 204":                                 succeeds,
	} {
		r := couchcore(append([]string{"explain", "--json"}, strings.Fields(args)...)...)
		require.Zero(t, r.code, "%s: %s", args, r.stderr)
		require.Equal(t, want+"\n", r.stdout, args)
	}
}

func TestRetryAfterIsObeyedExactly(t *testing.T) {
	for after, want := range map[string]any{
		"0": []any{0.0, 0.0}, "120": []any{120000.0, 120000.0}, "2147483647": []any{2147483647000.0, 2147483647000.0},
		"Wed, 21 Oct 2015 07:28:00 GMT": []any{0.0, 0.0},
		"soon":                          nil, // not readable: as if it were not there
	} {
		o := couchcore("explain", "--json", "--service", "management", "--op", "POST", "--http", "503", "--retry-after",
			after).object(t)
		require.Equal(t, want, o["delay_ms"], after)
	}
}

func TestEveryReasonOfAServiceIsExplained(t *testing.T) {
	for service, id := range httpServices {
		op := "query"
		if slices.Contains(byMethod, id) {
			op = "GET"
		}
		for why := range retry.All() {
			o := explainedAs(t, explainCmd{Service: service, Op: op, Reason: why.String(), Idempotent: true})
			require.Equal(t, why.String(), o["reason"], service)
			switch {
			case why == retry.Unknown || why.Terminal():
				require.Equal(t, "fail", o["decision"], "%s %v", service, why)
			default:
				require.Equal(t, "retry", o["decision"], "%s %v", service, why)
			}
			require.Equal(t, !why.AlwaysRetry() && why != retry.Unknown, o["consulted_strategy"], "%s %v", service, why)
		}
	}
}

// explainedAs is what explain prints as JSON. Building the command line for each of many questions would take longer.
func explainedAs(t *testing.T, c explainCmd) map[string]any {
	t.Helper()
	var out bytes.Buffer
	a := newApp(strings.NewReader(""), &out, io.Discard, func(string) string { return "" })
	a.json = true
	require.NoError(t, c.Run(a))
	return result{stdout: out.String()}.object(t)
}

func TestExampleAnswersHaveTheirReason(t *testing.T) {
	for service, list := range examples {
		for why, e := range list {
			x := &explanation{subject: &httpSubject{
				service: service, answered: true, status: e.status, body: e.body, method: "GET", prepared: e.prepared,
				idempotent: true,
			}}
			x.strategy.base = retry.BestEffort{}
			j, err := x.judge(0, 0)
			require.NoError(t, err)
			require.True(t, j.retried, "%v %v", service, why)
			require.Equal(t, why, *j.reason, "%v", service)
		}
	}
}

func TestExplainServicesUsage(t *testing.T) {
	for args, text := range map[string]string{
		"--service query --op select --code 1":                                              "the operation of query is query",
		"--service query --op query":                                                        "give one of --code, --http",
		"--service query --op query --code 1 --lost-socket":                                 "give one of --code, --http",
		"--service search --op query --http 429 --prepared":                                 "statements of query",
		"--service kv --op get --status 0x86 --prepared":                                    "statements of query",
		"--service query --op query --status 0x86":                                          "answers of kv",
		"--service query --op query --code x":                                               "--code",
		"--service query --op query --code=-1":                                              "--code",
		"--service query --op query --http 99":                                              "200 to 599",
		"--service query --op query --http 1e3":                                             "200 to 599",
		"--service query --op query --lost-socket --body testdata/missing.json":             "belong to an answer",
		"--service query --op query --code 5000 --body no/such/file":                        "--body",
		"--service query --op query --code 4040 --body testdata/rows_then_error.json":       "has not the --code 4040",
		"--service search --op query --code 400 --http 429":                                 "is its --http status",
		"--service views --op query --reason NO_SUCH":                                       "couchcore reasons",
		"--service management --op query --http 503":                                        "GET HEAD POST",
		"--service kv --op get --status 1 --retry-after 1":                                  "have a --status",
		"--service management --op GET --http 503 --strategy @testdata/index_not_found.txt": "index_not_found.txt: ",
	} {
		couchcore(append([]string{"explain"}, strings.Fields(args)...)...).failsWith(t, exitUsage, text)
	}
}

func TestExplainWithAPolicyFile(t *testing.T) {
	golden(t, "explain_policy", transcript(
		"explain --service query --op query --reason QUERY_INDEX_NOT_FOUND --strategy @testdata/policy.json",
		"explain --service query --op query --reason QUERY_INDEX_NOT_FOUND "+
			"--strategy @testdata/policy.json --retries 2",
		"explain --service query --op query --reason QUERY_INDEX_NOT_FOUND "+
			"--strategy @testdata/policy.json --retries 3",
		"explain --service query --op query --http 429 --strategy @testdata/policy.json",
		"explain --service query --op query --code 4040 --prepared --strategy @testdata/policy.json",
		"explain --service kv --op get --status 0x86 --strategy @testdata/policy.json",
		"explain --service kv --op get --status 0x86 --strategy @testdata/policy.json --retries 2",
		"explain --service kv --op get --status 0x09 --strategy @testdata/policy.json",
		"explain --service kv --op get --status 0x07 --strategy @testdata/policy.json",
		"explain --service kv --op get --status 0x01 --strategy @testdata/policy.json",
		"explain --service kv --op upsert --status 0x86 --strategy @testdata/policy.json",
		"explain --service kv --op upsert --status 0x86 --retries 2 --strategy @testdata/policy.json",
		"explain --service search --op query --http 429 --strategy @testdata/policy.json",
		"explain --service search --op query --lost-socket --strategy @testdata/policy.json",
		"explain --service management --op POST --lost-socket --strategy @testdata/policy.json",
	))
}

func TestABadPolicyFileIsNamedWithThePathAndTheValue(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	_, c := startMock(t)
	for text, want := range map[string]string{
		``:  ": ",
		`{`: ": ",
		`{"operationConfig":[{"name":[{}],"retryPolicy":{"maxAttempts":1}}]}`: ": operationConfig[0].retryPolicy.maxAttempts: must be an integer above 1: 1",
		`{"operationConfig":[{"name":[{"service":"kv"}],"timeout":"soon"}]}`:  `: operationConfig[0].timeout: `,
		`{"retries":3}`: ": retries: ",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		couchcore("explain", "--service", "kv", "--op", "get", "--status", "1", "--strategy", "@"+file).failsWith(t,
			exitUsage, file+want)
		c.run("kv", "get", "k", "--retry", "@"+file).failsWith(t, exitUsage, file+want)
	}
	c.run("kv", "get", "k", "--retry", "@"+file+".not").failsWith(t, exitUsage, file+".not")
}
