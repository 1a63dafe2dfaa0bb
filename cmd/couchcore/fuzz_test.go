package main

import (
	"bytes"
	"encoding/json"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// FuzzOrphans: any log is judged, in memory of its size, and no number in it makes the judgement contradict itself. A
// line that is added counts by itself.
func FuzzOrphans(f *testing.F) {
	const report = `{"kv":{"total_count":7,"top_requests":[{"total_duration_us":3000000,` +
		`"last_server_duration_us":40,"operation_name":"get","last_remote_socket":"10.0.0.1:11210","timeout_ms":2500}]}}`
	quoted, err := json.Marshal(report)
	require.NoError(f, err)
	for _, line := range []string{
		"", report, `{"level":"WARN","report":` + string(quoted) + `}`, `{"level":"WARN","report":` + report + `}`,
		"time=x level=WARN count=7 report=" + string(quoted), "2030-01-02 WARN " + report, report[:len(report)/2],
		`{"kv":{"total_count":4294967295,"top_requests":[{"timeout_ms":9223372036854775807},null]}}`,
		`{"kv":{"top_requests":[{}],"top_requests":null},"KV":{"total_count":-100}}`,
		"report=\"\\x7b", strings.Repeat("[", 11000),
	} {
		f.Add([]byte(line + "\n" + report + "\r\n"))
	}
	f.Fuzz(func(t *testing.T, log []byte) {
		v := judgeLog(t, log)
		require.GreaterOrEqual(t, v.Orphans, int64(0))
		described := int64(0)
		for node, count := range v.Nodes {
			require.Positive(t, count)
			require.LessOrEqual(t, len(node), 3*orphanTextMax, "bytes that are no UTF-8 have three each in JSON")
			described += count
		}
		require.Equal(t, described == 0, v.Likely == orphanNone)
		require.Equal(t, described == 0, v.Slowest == nil)
		require.Contains(t, []string{orphanNone, orphanBehind, orphanServers, orphanClient, orphanNode}, v.Likely)
		if len(v.Nodes) == orphanNodeMax {
			return
		}
		more := judgeLog(t, append(bytes.Clone(log), "\n"+report+"\n"...))
		require.Equal(t, v.Orphans+7, more.Orphans)
		require.Equal(t, v.Nodes["10.0.0.1:11210"]+1, more.Nodes["10.0.0.1:11210"])
	})
}

// judgeLog is what doctor --orphans says of a log.
func judgeLog(t *testing.T, log []byte) (v orphanVerdict) {
	t.Helper()
	var out bytes.Buffer
	a := newApp(bytes.NewReader(log), &out, io.Discard, func(string) string { return "" })
	a.json = true
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := a.readOrphans("-")
	runtime.ReadMemStats(&after)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128*len(log)+64<<10))
	if err != nil {
		require.Regexp(t, `^--orphans: line \d+`, err.Error())
		t.Skip("too many nodes")
	}
	require.NoError(t, json.Unmarshal(out.Bytes(), &v), "%s", out.Bytes())
	return v
}

// FuzzSetup: any file is taken as a setup or refused with an error that names the place, in memory of its size. A
// cluster can be made of what is taken, or says why not.
func FuzzSetup(f *testing.F) {
	for _, text := range []string{
		`{"nodes": {"0": {"version": "7.2"}, "1": {"version": "7.6", "services": ["kv"]}}, "http2": true,
			"server_groups": ["a", "b"], "report_units": true, "app_telemetry": true, "seed": 7}`,
		`{"services": ["kv", "n1ql"], "subdoc_max_paths": 20, "iterations": 5000, "mechanisms": ["SCRAM-SHA1", "PLAIN"],
			"refuse_features": ["Snappy"], "capabilities": {"n1ql": ["costBasedOptimizer"]}, "tokens": {"t": "far"}}`,
		`{"buckets": [{"name": "a", "type": "ephemeral", "vbuckets": 8, "replicas": 0, "collections": ["s.c"],
			"min_durability": "majority", "compression": "off", "resolve_by_time": true}],
			"users": [{"name": "far", "password": "pw", "external": true}, {"name": "near", "password": "pw",
			"buckets": ["a"], "reader": true, "iterations": 4000}]}`,
		`{"buckets": [], "services": []}`, `{"buckets": [{"replicas": -1, "vbuckets": 1000000000000}]}`,
		`{"nodes": {"-1": {"version": ""}, "99": {}}}`, `{"what": 1}`, "{\n\"seed\" 1}", "{} x", "null", "7", "", "{",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		setup, err := parseSetup(text)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(128*len(text)+64<<10))
		if err != nil {
			require.Regexp(t, `^(line [1-9]\d*, byte [1-9]\d*: |json: unknown field ")`, err.Error())
			return
		}
		opts, names, err := setup.options()
		if err != nil {
			require.Regexp(t, `^(services|nodes|buckets|refuse_features): `, err.Error())
			return
		}
		require.Equal(t, setup.Buckets == nil, names == nil)
		m, err := mock.New(append([]mock.Option{mock.Virtual(), mock.Nodes(2), mock.VBuckets(4)}, opts...)...)
		if err != nil {
			require.Regexp(t, "^mock: .", err.Error())
			return
		}
		if names != nil {
			require.ElementsMatch(t, names, m.Buckets())
		}
		require.NoError(t, m.Close())
	})
}
