package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// steady replaces what is different each time, so that a text can be compared with a reviewed one.
func steady(text string) string {
	for _, r := range [][2]string{
		{`\n {20,}`, " "}, // where a line is broken follows from what is different
		{`127\.0\.0\.1:\d+`, "HOST"},
		{`\d+(\.\d+)? ?(\x{b5}s|ms|s)\b`, "TIME"},
		{` {2,}`, "  "},
		{`"features":\[[^]]+\]`, `"features":[...]`},
		{`0x[0-9a-f]{16}`, "0xNUMBER"},
		{`"(requestID|clientContextID|elapsedTime|executionTime)":"[^"]+"`, `"$1":"ANY"`},
		{`[0-9a-f]{16}/[0-9a-f]{16}`, "CONNECTION"},
		{`"id":"[0-9a-f]{16}"`, `"id":"ID"`},
		{`"([a-z_]+_(us|ms))":[0-9.]+`, `"$1":0`},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}

// shaped is the golden text of commands run against a cluster.
func shaped(c cmd, lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		r := c.run(strings.Fields(line)...)
		fmt.Fprintf(&b, "$ couchcore %s\n%s%s", line, steady(r.stdout), steady(r.stderr))
		if r.code != 0 {
			fmt.Fprintf(&b, "exit %d\n", r.code)
		}
	}
	return b.String()
}

func TestPingDiagnosticsAndWait(t *testing.T) {
	_, c := startMock(t, mock.Nodes(1), mock.Replicas(0))
	golden(t, "health", shaped(c,
		"ping", "ping --services kv,mgmt", "ping --services kv --json", "diagnostics", "diagnostics --json", "wait",
		"wait --services kv,query --state degraded", "wait --services n1ql", "wait --state offline",
		"ping --services kv,fts",
		"ping --scope s", "diagnostics --timeout=-1s", "ping -p wrong", "wait -p wrong",
		"wait -b nosuch --timeout 600ms",
	))
}

func TestPingNamesWhoDoesNotAnswer(t *testing.T) {
	m, c := startMock(t)
	m.Inject(mock.Match{Nodes: []int{1}, Opcodes: []memd.Opcode{memd.OpNoop}}, mock.Drop())
	r := c.run("ping", "--services", "kv", "--timeout", "200ms")
	require.Equal(t, exitFailed, r.code)
	addr := m.Node(1).Addr()
	require.Regexp(t, "(?m)^kv +"+addr+" +timeout +- +.*unambiguous timeout", r.stdout)
	require.Regexp(t, "(?m)^kv +"+m.Node(0).Addr()+" +ok +.* ms$", r.stdout)
	require.Contains(t, r.stderr, "couchcore: ping: 1 of 2 did not answer; kv "+addr)
	r = c.run("ping", "--services", "kv", "--timeout", "200ms", "--json")
	require.Equal(t, exitFailed, r.code)
	states := map[any]int{}
	for _, d := range r.object(t)["services"].(map[string]any)["kv"].([]any) {
		hasKeys(t, d.(map[string]any), "latency_us", "remote", "state", "namespace")
		states[d.(map[string]any)["state"]]++
	}
	require.Equal(t, map[any]int{"ok": 1, "timeout": 1}, states)
}

func TestPingOfAServiceThatNoNodeOffers(t *testing.T) {
	_, c := startMock(t, mock.Services(mock.KVService, mock.ManagementService, mock.QueryService))
	r := c.run("ping", "--services", "search")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "couchcore: ping: no node offers the service search\n", r.stderr)
}

// closedPort is an address at which nothing listens until the test ends.
func closedPort(t *testing.T) string {
	t.Helper()
	m := mock.Start(t, mock.Nodes(1))
	require.NoError(t, m.Kill(0))
	return m.Node(0).Addr()
}

func TestHealthOfAClusterThatIsNotThere(t *testing.T) {
	at := "couchbase://" + closedPort(t)
	for verb, text := range map[string]string{
		"wait": "wait: not ready after ", "diagnostics": "diagnostics: not ready after ",
		"ping": "ping: layout: unambiguous timeout",
	} {
		r := couchcore(verb, "-c", at, "--timeout", "500ms")
		require.Equal(t, exitNotApplied, r.code, verb)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"))
		require.Contains(t, r.stderr, text)
		require.Contains(t, r.stderr, "connection refused")
		if verb != "ping" {
			require.Regexp(t, `^offline `, r.stdout)
		}
		r = couchcore(verb, "-c", at, "--timeout", "500ms", "--json")
		if verb != "ping" {
			require.Equal(t, "offline", r.object(t)["state"])
		}
		couchcore(verb).failsWith(t, exitUsage, "no cluster")
	}
}
