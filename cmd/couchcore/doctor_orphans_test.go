package main

import (
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
