package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// explainedBy is what explain prints about a write under a policy file.
func explainedBy(t *testing.T, text string, args ...string) (lines string, policy string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	args = append([]string{
		"explain", "--service", "kv", "--op", "upsert", "--status", "0x86", "--strategy",
		"@" + file,
	}, args...)
	r := couchcore(args...)
	require.Zero(t, r.code, r.stderr)
	j := couchcore(append(args, "--json")...)
	require.Zero(t, j.code, j.stderr)
	var o struct {
		Policy json.RawMessage `json:"policy"`
	}
	require.NoError(t, json.Unmarshal([]byte(j.stdout), &o))
	return r.stdout, string(o.Policy)
}

// TestAPolicyFileRoundTripsThroughExplain: what explain shows is a policy that a file may have, and it does the same.
func TestAPolicyFileRoundTripsThroughExplain(t *testing.T) {
	const head, tail = `{"tokenBucket":{"capacity":20,"costs":{"throttling":10}},"operationConfig":[{"name":[{"service":"kv","operation":"upsert"}],`, `}]}`
	lines, policy := explainedBy(t, head+`"retryPolicy":{"maxAttempts":8,"delays":["10ms","50ms","0.1s"],"retryableReasons":["kv_temporary_failure","0x09"],
		"softLimit":"1s","hardLimit":"2s","fit":"truncate","jitter":"equal"}`+tail, "--most-attempts", "6", "--retries", "1")
	require.Contains(t, lines, "retry after 25 to 50 ms")
	require.Contains(t, lines, `budget      {"capacity":20,"costs":{"server":5,"client":5,"throttling":10,"timeout":5}}, a retry after this failure (throttling) costs 10`)
	require.JSONEq(t, `{"retryPolicy":{"maxAttempts":6,"delays":["0.01s","0.05s","0.1s"],"jitter":"equal",
		"retryableReasons":["KV_TEMPORARY_FAILURE",9],"softLimit":"1s","hardLimit":"2s","fit":"truncate","pinned":false}}`, policy)
	again, same := explainedBy(t, head+policy[1:len(policy)-1]+tail, "--most-attempts", "6", "--retries", "1")
	require.Equal(t, policy, same)
	for _, part := range []string{"decision", "policy", "budget"} {
		require.Contains(t, again, "\n"+part)
	}
	_, policy = explainedBy(t, `{"operationConfig":[{"name":[{}],"timeout":"0.1s","hedgingPolicy":{"maxAttempts":9,"hedgingDelay":"0.02s"}}]}`)
	require.JSONEq(t, `{"hedgingPolicy":{"maxAttempts":5,"hedgingDelay":"0.02s","nonFatalReasons":[],"pinned":false}}`, policy)
	_, policy = explainedBy(t, `{"operationConfig":[{"name":[{}],"timeout":"0.1s"}]}`)
	require.Empty(t, policy)
}

func TestExplainKnowsEventingAndBackup(t *testing.T) {
	for _, service := range []string{"eventing", "backup"} {
		r := couchcore("explain", "--service", service, "--op", "get", "--http", "503")
		require.Zero(t, r.code, r.stderr)
		require.Contains(t, r.stdout, "SERVICE_RESPONSE_CODE_INDICATED")
		require.Contains(t, r.stdout, "retry after")
	}
}
