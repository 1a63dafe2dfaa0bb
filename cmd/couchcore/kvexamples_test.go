package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
)

// exampleFails are the examples that name a version or a history of another cluster: what they meet.
var exampleFails = map[string]string{
	"replace": "cas_mismatch", "unlock": "cas_mismatch", "observe-seqno": "document_not_found",
}

// startCleartextMock is startMock with logins that cost no time.
func startCleartextMock(t *testing.T, opts ...mock.Option) (*mock.Cluster, cmd) {
	t.Helper()
	m, c := startMock(t, append(opts, mock.Mechanisms("PLAIN"))...)
	c.env["COUCHCORE_CONNECT"] += "?allow_plain=true"
	return m, c
}

// documents writes what the examples are about.
func documents(t *testing.T, b *core.Bucket, verb string) {
	t.Helper()
	upsert := func(key, value string) {
		_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte(key), Value: []byte(value)})
		require.NoError(t, err)
	}
	for _, key := range []string{"order::1", "session::1", "log"} {
		if verb != "insert" {
			upsert(key, "{}")
		}
	}
	upsert("seats", "5")
	airline := `{"name":"a","n":1,"routes":[1],"iata":"x","old":1}`
	if verb == "path-insert" {
		airline = "{}"
	}
	upsert("airline_10", airline)
	staged := kv.UpsertPath("staged", []byte("{}"))
	staged.Xattr = true
	_, err := kv.Do(t.Context(), b, kv.MutateIn{Key: []byte("airline_10"), Specs: []kv.MutateSpec{staged}})
	require.NoError(t, err)
	if verb == "unlock" {
		_, err := kv.Do(t.Context(), b, kv.GetAndLock{Key: []byte("order::1")})
		require.NoError(t, err)
	}
}

// Every verb's example runs as its help has it, for people and as JSON.
func TestEveryVerbDoesWhatItsExampleSays(t *testing.T) {
	m, c := startCleartextMock(t, mock.VBuckets(1024), mock.Nodes(2))
	_, err := m.CreateCollection(mock.DefaultBucket, "inventory", "c")
	require.NoError(t, err)
	cfg, err := core.ParseConnString(c.env["COUCHCORE_CONNECT"])
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	cl, err := core.Open(t.Context(), cfg)
	require.NoError(t, err)
	defer func() { require.NoError(t, cl.Close()) }()
	b := cl.Bucket(mock.DefaultBucket)
	for verb := range verbs(t) {
		for _, more := range [][]string{nil, {"--json"}} {
			require.NoError(t, m.Flush(mock.DefaultBucket))
			documents(t, b, verb)
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
	_, c := startCleartextMock(t, mock.Nodes(1), mock.Replicas(0))
	for verb := range verbs(t) {
		r := c.run(append(words(exampleOf["kv "+verb])[1:], "-p", "wrong", "--timeout", "5s", "--json")...)
		require.Equal(t, exitFailed, r.code, verb)
		require.Equal(t, 1, strings.Count(r.stderr, "\n"), verb)
		require.Equal(t, "authentication_failure", r.object(t)["error"].(map[string]any)["kind"], "%s: %s", verb,
			r.stderr)
	}
}

func TestVerboseConnections(t *testing.T) {
	_, c := startMock(t)
	for _, verb := range []string{"ping", "wait", "diagnostics", "doctor"} {
		short, told := c.run(verb), c.run(verb, "-v")
		require.Zero(t, told.code, told.stderr)
		require.Empty(t, short.stderr)
		require.Contains(t, told.stderr, "Config applied")
		require.Empty(t, c.run(verb, "--json").stderr)
	}
}
