package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMockTakesASetup holds that the command begins with the services, versions, buckets and accounts that --setup
// names, whether it is an object or a file of one.
func TestMockTakesASetup(t *testing.T) {
	const setup = `{"nodes": {"0": {"version": "7.2"}, "1": {"version": "7.6", "services": ["kv"]}}, "http2": true,
		"server_groups": ["a", "b"], "report_units": true, "app_telemetry": true, "seed": 7,
		"services": ["kv", "n1ql"], "subdoc_max_paths": 20, "iterations": 5000, "mechanisms": ["SCRAM-SHA1", "PLAIN"],
		"refuse_features": ["Snappy"], "capabilities": {"n1ql": ["costBasedOptimizer"]}, "tokens": {"t": "far"},
		"buckets": [{"name": "a", "type": "ephemeral", "vbuckets": 8, "replicas": 0, "collections": ["s.c"],
			"min_durability": "majority", "compression": "off", "resolve_by_time": true}],
		"users": [{"name": "far", "password": "pw", "external": true}, {"name": "near", "password": "pw",
			"buckets": ["a"], "reader": true, "iterations": 4000}]}`
	file := filepath.Join(t.TempDir(), "setup.json")
	require.NoError(t, os.WriteFile(file, []byte(setup), 0o600))
	for _, value := range []string{setup, file} {
		p := startMockCommand(t, "--nodes", "2", "--setup", value, "--exit-on-stdin-close")
		require.Equal(t, []any{"a"}, p.ready["buckets"])
		ask := func(path, user string) (answer struct {
			Nodes []struct {
				Version  string   `json:"version"`
				Services []string `json:"services"`
			} `json:"nodes"`
			BucketType string `json:"bucketType"`
		},
		) {
			at := p.ready["management"].([]any)[0].(string)
			rq, err := http.NewRequestWithContext(t.Context(), "GET", at+path, nil)
			require.NoError(t, err)
			rq.SetBasicAuth(user, "pw")
			res, err := http.DefaultClient.Do(rq)
			require.NoError(t, err)
			text, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, 200, res.StatusCode, "%s", text)
			require.NoError(t, json.Unmarshal(text, &answer))
			return answer
		}
		nodes := ask("/pools/nodes", "far").Nodes // an external administrator, by its password
		require.Contains(t, nodes[0].Version, "7.2")
		require.Contains(t, nodes[1].Version, "7.6")
		require.ElementsMatch(t, []string{"kv", "n1ql"}, nodes[0].Services)
		require.Equal(t, []string{"kv"}, nodes[1].Services)
		require.Equal(t, "ephemeral", ask("/pools/default/buckets/a", "near").BucketType)
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, p.stdin.Close())
		p.ends(t)
	}
	p := startMockCommand(t, "--setup", `{"buckets": []}`, "--exit-on-stdin-close")
	require.Empty(t, p.ready["buckets"])
	require.NoError(t, p.stdin.Close())
	p.ends(t)
	for _, wrong := range []string{
		"{", `{"what": 1}`, "/no/such/file", `{"services": ["x"]}`, `{"nodes": {"0": {"services": ["x"]}}}`,
		`{"refuse_features": ["x"]}`, `{"buckets": [{"name": "a", "collections": ["x"]}]}`,
		`{"buckets": [{"name": "a", "type": "x"}]}`, `{"buckets": [{"name": "a", "min_durability": "x"}]}`,
		`{"nodes": {"0": {"version": "1"}}}`,
	} {
		p, text := tryMockCommand(t, "--setup", wrong)
		require.Nil(t, p, wrong)
		require.Contains(t, text, "mock", wrong)
	}
}

// TestAWrongSetupIsNamedByItsPlace: a line and a byte, a member, or an element.
func TestAWrongSetupIsNamedByItsPlace(t *testing.T) {
	for text, want := range map[string]string{
		"{":                                     "line 1, byte 2: the JSON object has no end",
		"{\n\"seed\": tru":                      "line 2, byte 12: the JSON object has no end",
		"\n\n {\"http2\" true}":                 "line 3, byte 11: invalid character 't' after object key",
		"{\"seed\":1,\n\"buckets\": 7}":         "line 2, byte 12: json: cannot unmarshal number",
		"{}\n }":                                "line 2, byte 2: there is more behind the JSON object",
		"{} {}":                                 "line 1, byte 4: there is more behind the JSON object",
		`{"what": 1}`:                           `json: unknown field "what"`,
		`{"services": ["x"]}`:                   `services: "x"`,
		`{"nodes": {"1": {"services": ["x"]}}}`: `nodes: 1: services: "x"`,
		`{"nodes": {"64": {}}}`:                 "nodes: 64, want 0 to 63",
		`{"nodes": {"-1": {}}}`:                 "nodes: -1, want 0 to 63",
		`{"buckets": [{"name": "a"}, {"type": "x"}]}`:            `buckets: 1: mock: bucket type "x"`,
		`{"buckets": [{"name": "a", "collections": ["x"]}]}`:     `buckets: 0: collection "x"`,
		`{"buckets": [{"name": "a", "min_durability": "none"}]}`: `buckets: 0: min_durability "none"`,
		`{"refuse_features": ["x"]}`:                             `refuse_features: "x"`,
	} {
		file := filepath.Join(t.TempDir(), "setup.json")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		r := cmd{}.run("mock", "--exit-on-stdin-close", "--setup", file)
		require.Equal(t, exitUsage, r.code, text)
		require.Contains(t, r.stderr, "mock: --setup: "+want, text)
	}
	file := filepath.Join(t.TempDir(), "setup.json")
	require.NoError(t, os.WriteFile(file, bytes.Repeat([]byte(" "), setupMax+1), 0o600))
	r := cmd{}.run("mock", "--exit-on-stdin-close", "--setup", file)
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "setup.json has more than 16777216 bytes")
}
