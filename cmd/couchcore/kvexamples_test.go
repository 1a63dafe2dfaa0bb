package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// exampleFails are the examples that name a version or a history of another cluster: what they meet.
var exampleFails = map[string]string{
	"replace": "cas_mismatch", "unlock": "cas_mismatch", "observe-seqno": "document_not_found",
}

// exampleNeeds is what a verb's example finds beside the document that most of them are about.
var exampleNeeds = map[string][]string{
	"replace": {"upsert order::1 {}"}, "remove": {"upsert order::1 {}"}, "touch": {"upsert session::1 {}"}, "get-and-touch": {"upsert session::1 {}"},
	"get-and-lock": {"upsert order::1 {}"}, "unlock": {"upsert order::1 {}", "get-and-lock order::1"}, "append": {"upsert log x"},
	"prepend": {"upsert log x"}, "decrement": {"upsert seats 5"}, "path-insert": {"path-remove airline_10 iata"},
	"path-replace-body": {"path-upsert airline_10 xattr:staged {}"},
}

// Every verb's example runs as its help has it, for people and as JSON.
func TestEveryVerbDoesWhatItsExampleSays(t *testing.T) {
	m, c := startMock(t, mock.VBuckets(1024))
	_, err := m.CreateCollection(mock.DefaultBucket, "inventory", "c")
	require.NoError(t, err)
	for verb := range verbs(t) {
		for _, more := range [][]string{nil, {"--json"}} {
			require.NoError(t, m.Flush(mock.DefaultBucket))
			needs := append([]string{`upsert airline_10 {"name":"a","n":1,"routes":[1],"iata":"x","old":1}`}, exampleNeeds[verb]...)
			for _, need := range needs {
				r := c.run(append([]string{"kv"}, strings.Fields(need)...)...)
				require.Zero(t, r.code, "%s: %s", need, r.stderr)
			}
			args := slices.Concat(words(exampleOf["kv "+verb])[1:], more)
			r := cmd{stdin: "a value", env: c.env}.run(args...)
			kind := exampleFails[verb]
			require.Equal(t, kind == "", r.code == exitOK, "%v: %s", args, r.stderr)
			if more == nil {
				continue
			}
			for _, line := range strings.Split(strings.TrimSpace(r.stdout), "\n") {
				var o struct {
					Op       string    `json:"op"`
					Attempts *int      `json:"attempts"`
					Reasons  *[]string `json:"retry_reasons"`
					Elapsed  *int64    `json:"elapsed_us"`
					Error    *failure  `json:"error"`
				}
				require.NoError(t, json.Unmarshal([]byte(line), &o), "%v: %s", args, line)
				require.Equal(t, verb, o.Op)
				require.NotNil(t, o.Attempts, verb)
				require.NotNil(t, o.Reasons, verb)
				require.NotNil(t, o.Elapsed, verb)
				if kind == "" {
					require.Nil(t, o.Error, verb)
				} else {
					require.Equal(t, kind, o.Error.Kind)
				}
			}
		}
	}
}

// Every verb says no to a cluster that does not let it in, with the cause and the exit code.
func TestEveryVerbFailsWithoutALogin(t *testing.T) {
	_, c := startMock(t, mock.Nodes(1), mock.Replicas(0))
	for verb := range verbs(t) {
		r := c.run(append(words(exampleOf["kv "+verb])[1:], "-p", "wrong", "--timeout", "5s", "--json")...)
		require.Equal(t, exitFailed, r.code, verb)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), verb)
		require.Equal(t, "authentication_failure", r.object(t)["error"].(map[string]any)["kind"], "%s: %s", verb, r.stderr)
	}
}

func TestVerboseConnections(t *testing.T) {
	_, c := startMock(t)
	for _, verb := range []string{"ping", "wait", "diagnostics", "doctor"} {
		quiet, told := c.run(verb), c.run(verb, "-v")
		require.Zero(t, told.code, told.stderr)
		require.Empty(t, quiet.stderr)
		require.Contains(t, told.stderr, "Config applied")
		require.Empty(t, c.run(verb, "--json").stderr)
	}
}
