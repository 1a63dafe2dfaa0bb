package main

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoctorReadsReportsOfOrphans(t *testing.T) {
	one := func(remote string, server int) string {
		return `{"total_duration_us":3000000,"last_server_duration_us":` + strconv.Itoa(server) + `,"operation_name":"get","last_remote_socket":"` + remote + `","timeout_ms":2500}`
	}
	report := func(top ...string) string {
		return `{"kv":{"total_count":7,"top_requests":[` + strings.Join(top, ",") + `]}}`
	}
	slow, quick, other := one("10.0.0.1:11210", 2600000), one("10.0.0.1:11210", 40), one("10.0.0.2:11210", 40)
	for _, c := range []struct{ log, likely string }{
		{"nothing of the kind\n", orphanNone},
		{report(slow, quick, quick), orphanBehind},
		{report(slow, slow, slow), orphanServers},
		{report(quick, other), orphanClient},
		{report(quick, quick), orphanNode},
		{`{"level":"WARN","msg":"Orphaned responses observed","report":` + strconv.Quote(report(quick)) + "}", orphanNode},
		{`{"level":"WARN","report":` + report(quick) + "}", orphanNode},
		{`time=x level=WARN msg="Orphaned responses observed" count=7 report=` + strconv.Quote(report(quick)), orphanNode},
		{"2030-01-02 WARN Orphaned responses observed " + report(quick), orphanNode},
	} {
		r := cmd{stdin: "first line\n" + c.log + "\n"}.run("doctor", "--orphans", "-", "--json")
		require.Zero(t, r.code, r.stderr)
		o := r.object(t)
		require.Equal(t, c.likely, o["likely"], c.log)
		if c.likely != orphanNone {
			require.InDelta(t, 7, o["orphans"], 0)
		}
	}
	r := cmd{stdin: report(slow, quick, quick)}.run("doctor", "--orphans", "-")
	require.Equal(t, "orphans   7, the reports describe 3 from 1 node\nslowest   get on 10.0.0.1:11210: 3.0 s in "+
		"all, 2.6 s of it in the server\nlikely    "+orphanBehind+"\n", r.stdout)
}

// TestALogOfAnySizeIsRead: a report behind many others counts, and what cannot be read is named by its line.
func TestALogOfAnySizeIsRead(t *testing.T) {
	const report = `{"kv":{"total_count":2,"top_requests":[{"last_remote_socket":"n:1"}]}}` + "\n"
	long := strings.Repeat("x", orphanLineMax/2)
	read := func(parts ...string) (r result) {
		var in []io.Reader
		for _, p := range parts {
			in = append(in, strings.NewReader(p))
		}
		var out, errs bytes.Buffer
		r.code = run([]string{"doctor", "--orphans", "-", "--json"}, io.MultiReader(in...), &out, &errs,
			func(string) string { return "" })
		r.stdout, r.stderr = out.String(), errs.String()
		return r
	}
	r := read(report, long, "\n", long, "\n", long, "\n", report)
	require.Zero(t, r.code, r.stderr)
	require.InDelta(t, 4, r.object(t)["orphans"], 0)
	read(report, long, long, "\n", report).failsWith(t, exitUsage, "--orphans: line 2 has more than 67108863 bytes")

	var nodes []string
	for i := range orphanNodeMax {
		nodes = append(nodes, strings.ReplaceAll(report, "n:1", "n:"+strconv.Itoa(i)))
	}
	r = read(nodes...)
	require.Zero(t, r.code, r.stderr)
	require.Len(t, r.object(t)["nodes"], orphanNodeMax)
	read(append(nodes, report, strings.ReplaceAll(report, "n:1", "m:1"))...).failsWith(t, exitUsage,
		"--orphans: line 4098: orphans of more than 4096 nodes")
}

// TestWhatNoClientWritesIsNoReport: numbers and names that are out of all bounds do not count.
func TestWhatNoClientWritesIsNoReport(t *testing.T) {
	for _, entry := range []string{
		`{"total_duration_us":-1}`, `{"total_duration_us":9223372036854775807}`, `{"timeout_ms":9223372036854775807}`,
		`{"last_server_duration_us":4611686018427387904}`, `{"operation_name":7}`,
		`{"last_remote_socket":"` + strings.Repeat("n", orphanTextMax+1) + `"}`, `7`, `[]`,
	} {
		log := `{"kv":{"total_count":1,"top_requests":[` + entry + `]}}`
		require.Contains(t, cmd{stdin: log}.run("doctor", "--orphans", "-").stdout, orphanNone, entry)
	}
	for _, value := range []string{
		`{"total_count":-1}`, `{"total_count":4294967296}`, `{"top_requests":{}}`, `{"top_requests":7}`, `[]`,
	} {
		r := cmd{stdin: `{"kv":` + value + `}`}.run("doctor", "--orphans", "-")
		require.Equal(t, "orphans   0, the reports describe 0 from 0 nodes\nlikely    "+orphanNone+"\n", r.stdout, value)
	}
}
