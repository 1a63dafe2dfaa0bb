package main

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Bytes of the command line reach the server unchanged, and bytes of documents the output.
func TestArgumentsAreBytes(t *testing.T) {
	_, c := startMock(t)
	const key, value = "k\xfe", "v\xff\x00v"
	require.Zero(t, c.run("kv", "upsert", key, value[:2]).code)
	require.Equal(t, value[:2], c.run("kv", "get", key).stdout)
	require.Equal(t, exitFailed, c.run("kv", "get", "k\uFFFD").code, "another document")
	o := c.run("kv", "get", key, "--json").object(t)
	require.Equal(t, "base64", o["key_encoding"])
	require.Equal(t, base64.StdEncoding.EncodeToString([]byte(key)), o["key"])
	require.Equal(t, "base64", o["encoding"])
	require.NotContains(t, c.run("kv", "get", "k\uFFFD", "--json").object(t), "key_encoding")
	require.Zero(t, c.run("kv", "upsert", "doc", `{"a":1}`).code)
	require.Zero(t, c.run("kv", "lookup-in", "doc", "--path", "exists:\xfe").code, "paths are bytes, too")
	for _, args := range [][]string{
		{"query", "SELECT '\xfe'"},
		{"analytics", "SELECT '\xfe'"},
		{"search", "none", "\xfe"},
		{"query", "SELECT $x", "--named", "x=\xfe"},
	} {
		c.run(args...).failsWith(t, exitFailed, "is not UTF-8, which JSON cannot carry")
	}
}

// A command that fails with --json prints its error as an object when it has printed nothing else.
func TestAFailingCommandPrintsAnObject(t *testing.T) {
	closed := []string{"-c", "couchbase://" + closedPort(t), "-u", "u", "-p", "p", "--timeout", "100ms"}
	for _, args := range [][]string{
		{"reasons", "nosuch"},
		{"explain", "--service", "kv"},
		{"strerror", "x"},
		{"connstr", "x://"},
		{"ping", "--nosuch"},
		{"kv", "get"},
		{"mock", "--nodes", "0"},
		append([]string{"ping"}, closed...),
		append([]string{"hash", "k"}, closed...),
		append([]string{"kv", "stats"}, closed...),
		append([]string{"query", "SELECT 1"}, closed...),
	} {
		r := couchcore(append(args, "--json")...)
		require.NotZero(t, r.code, args)
		e := r.object(t)["error"].(map[string]any)
		require.NotEmpty(t, e["message"], args)
		if r.code == exitUsage {
			require.Equal(t, "invalid_argument", e["kind"], args)
		}
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), "%v: the sentence for people stays: %s", args, r.stderr)
		require.Empty(t, couchcore(args...).stdout, args)
	}
}

// -v names the node, and no text of the command has a verb that met a wrong type.
func TestVerboseNamesTheNode(t *testing.T) {
	_, c := startMock(t)
	require.Zero(t, c.run("kv", "upsert", "k", "v").code)
	for _, verb := range []string{"get k", "get-all-replicas k", "scan k", "stats"} {
		args := append([]string{"kv"}, strings.Fields(verb)...)
		r := c.run(append(args, "-v")...)
		require.Zero(t, r.code, r.stderr)
		require.NotContains(t, r.stdout+r.stderr, "%!", args)
	}
	closed := closedPort(t)
	r := couchcore("kv", "get", "k", "-v", "-c", "couchbase://"+closed, "-u", "u", "-p", "p", "--timeout", "200ms")
	require.Regexp(t, `(?m)^`+at(closed)+` +not connected: connection refused$`, r.stderr)
	told := c.run("kv", "get", "k", "-v").stderr
	require.Regexp(t, `node +127\.0\.0\.1:\d+  vbucket \d+  sent 1 time`, told)
}

func TestVersion(t *testing.T) {
	r := couchcore("--version")
	require.Zero(t, r.code)
	require.Regexp(t, `^couchcore \S+, go1\.\d+`, r.stdout)
}
