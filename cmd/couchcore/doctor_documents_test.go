package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// The doctor writes, reads and removes one document on each node, and leaves nothing.
func TestDoctorWritesReadsAndRemoves(t *testing.T) {
	m, _ := startMock(t)
	r := examined(t, doctorHooks{}, login("-c", m.ConnString())...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Regexp(t, `(?m)^`+passes+`documents +127\.0\.0\.1:\d+ `, r.stdout)
	written := map[string]int{}
	for _, a := range m.ApplyLog("default") {
		require.True(t, strings.HasPrefix(a.Key, doctorKey), "%s", a.Key)
		written[a.Key]++
	}
	require.Len(t, written, 2, "one on each node")
	for key, changes := range written {
		require.Equal(t, 2, changes, "%s is written and removed", key)
	}

	m, _ = startMock(t)
	r = examined(t, doctorHooks{}, login("-c", m.ConnString(), "--read-only")...)
	require.Zero(t, r.code, r.stdout+r.stderr)
	require.Empty(t, m.ApplyLog("default"))
}

func TestDoctorOnRoles(t *testing.T) {
	m, _ := startMock(t, mock.Reader("reader", "sesame", "default"))
	r := examined(t, doctorHooks{}, "-c", m.ConnString(), "-u", "reader", "-p", "sesame")
	require.Regexp(t, `(?m)^warn  documents`, r.stdout)
	require.Equal(t, 1, strings.Count(r.stdout, "the user may not write documents"), r.stdout)
	require.Contains(t, r.stdout, "Data Writer")
}

// Answers that come late are not well, although they come.
func TestDoctorJudgesLatency(t *testing.T) {
	for step, op := range map[string]memd.Opcode{"HELLO": memd.OpHello, "documents": memd.OpGet} {
		m, _ := startMock(t, mock.Nodes(1), mock.Replicas(0))
		m.Inject(mock.Match{Opcodes: []memd.Opcode{op}}, mock.Delay(900*time.Millisecond))
		r := examined(t, doctorHooks{}, login("-c", m.ConnString(), "--timeout", "20s")...)
		require.Regexp(t, `(?m)^warn  `+step, r.stdout, r.stderr)
		require.Regexp(t, `took \d+ ms|took \d\.\d s`, r.stdout)
		require.Contains(t, r.stdout, "see whether the node has too much to do")
	}
}

// A bundle has the report, diagnostics and the log, and no password and no name of the user's.
func TestDoctorWritesABundle(t *testing.T) {
	m, _ := startMock(t, mock.User("alice", "sesame-open"), mock.Bucket("secret-travel", 16))
	file := filepath.Join(t.TempDir(), "bundle.json")
	for _, more := range [][]string{nil, {"-v"}, {"-p", "sesame-wrong"}} {
		args := append([]string{
			"-c", m.ConnString() + "?kv_timeout=3s", "-u", "alice", "-p", "sesame-open", "-b", "secret-travel",
			"--bundle", file,
		}, more...)
		couchcore(append([]string{"doctor"}, args...)...)
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, own := range []string{"sesame", "alice", "secret-travel", "127.0.0.1"} {
			require.NotContains(t, string(raw), own)
		}
		var b map[string]any
		require.NoError(t, json.Unmarshal(raw, &b))
		hasKeys(t, b, "version", "system", "time", "options", "report", "diagnostics", "log")
		require.Equal(t, map[string]any{"kv_timeout": "3s"}, b["options"])
		require.NotEmpty(t, b["report"].(map[string]any)["steps"])
		if more == nil {
			require.NotEmpty(t, b["log"])
			require.Contains(t, string(raw), "HOST1:")
			require.Contains(t, string(raw), `\"BUCKET\"`)
		}
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	r := couchcore("doctor", "-c", m.ConnString(), "--bundle", t.TempDir())
	require.Equal(t, exitUsage, r.code)
	require.Contains(t, r.stderr, "--bundle")
}

func TestSecretsAreReplacedAsWords(t *testing.T) {
	for text, want := range map[string]string{
		"u is u, not us":   "USER is USER, not us",
		"connecting to u:": "connecting to USER:",
		"xu_u u":           "xu_u USER",
	} {
		s := secret{"u", "USER", false}
		require.Equal(t, want, s.replace(text))
	}
	s := secret{"pw", "PASSWORD", true}
	require.Equal(t, "aPASSWORDb PASSWORD", s.replace("apwb pw"))
}
