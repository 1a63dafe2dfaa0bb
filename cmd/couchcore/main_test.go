package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/mock"
)

var update = flag.Bool("update", false, "write the golden files instead of comparing")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// result is what a run of the command left behind.
type result struct {
	code           int
	stdout, stderr string
}

// cmd is one way to run the command.
type cmd struct {
	stdin string
	env   map[string]string
}

func (c cmd) run(args ...string) result {
	var out, errs bytes.Buffer
	code := run(args, strings.NewReader(c.stdin), &out, &errs, func(k string) string { return c.env[k] })
	return result{code, out.String(), errs.String()}
}

func couchcore(args ...string) result { return cmd{}.run(args...) }

// object reads the one JSON object that a run printed.
func (r result) object(t *testing.T) map[string]any {
	t.Helper()
	require.Equal(t, 1, strings.Count(r.stdout, "\n"), "one line: %q", r.stdout)
	var m map[string]any
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &m), r.stdout)
	return m
}

// failsWith checks that a run failed with one line on standard error that has the text, and nothing on standard output
// but the object that --json makes of the failure.
func (r result) failsWith(t *testing.T, code int, text string) {
	t.Helper()
	require.Equal(t, code, r.code, r.stderr)
	if r.stdout != "" {
		o := r.object(t)
		require.Contains(t, o, "error")
		require.Len(t, o, 1)
	}
	require.Equal(t, 1, strings.Count(r.stderr, "\n"), r.stderr)
	require.True(t, strings.HasPrefix(r.stderr, "couchcore: "), r.stderr)
	require.Contains(t, r.stderr, text)
}

func hasKeys(t *testing.T, m map[string]any, keys ...string) {
	t.Helper()
	for _, k := range keys {
		require.Contains(t, m, k)
	}
}

// golden compares the text with a reviewed file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err, "run the tests with -update to write it, then review it")
	require.Equal(t, string(want), text)
}

// transcript is the commands with what they printed, for golden files.
func transcript(lines ...string) string {
	var b strings.Builder
	for _, line := range lines {
		r := couchcore(strings.Fields(line)...)
		b.WriteString("$ couchcore " + line + "\n" + r.stdout + r.stderr)
		if r.code != 0 {
			b.WriteString("exit " + string(rune('0'+r.code)) + "\n")
		}
	}
	return b.String()
}

// startMock is a mock cluster and a command that finds it by its environment.
func startMock(t *testing.T, opts ...mock.Option) (*mock.Cluster, cmd) {
	t.Helper()
	m := mock.Start(t, append([]mock.Option{mock.Nodes(2), mock.VBuckets(16)}, opts...)...)
	return m, cmd{env: map[string]string{
		"COUCHCORE_CONNECT": m.ConnString(), "COUCHCORE_USERNAME": mock.DefaultUser,
		"COUCHCORE_PASSWORD": mock.DefaultPassword,
	}}
}
