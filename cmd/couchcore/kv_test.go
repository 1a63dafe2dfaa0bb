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

func TestEveryKVCommandWorks(t *testing.T) {
	_, c := startMock(t)
	ok := func(want string, args ...string) {
		t.Helper()
		r := c.run(append([]string{"kv"}, args...)...)
		require.Zero(t, r.code, "%v: %s", args, r.stderr)
		require.Empty(t, r.stderr)
		require.Regexp(t, "^"+want+"$", r.stdout, "%v", args)
	}
	const stored = `ok  cas 0x[0-9a-f]{16}  vbucket \d+  seqno \d+\n`
	ok(stored, "insert", "k", `{"a":1}`)
	ok(`\{"a":1\}`, "get", "k")
	ok(`\{"a":1\}`, "get-or-null", "k")
	ok("", "get-or-null", "absent")
	require.Equal(t, false, c.run("kv", "get-or-null", "absent", "--json").object(t)["found"])
	ok(`yes  cas 0x[0-9a-f]{16}\n`, "exists", "k")
	ok(`no\n`, "exists", "absent")
	ok(stored, "upsert", "k", "b", "--flags", "7", "--durability", "majority")
	ok(stored, "replace", "k", "c", "--expiry", "1h")
	ok(stored, "replace", "k", "c", "--preserve-expiry")
	ok(stored, "append", "k", "d")
	ok(stored, "prepend", "k", "b")
	ok("bcd", "get", "k")
	ok("bcd", "get-replica", "k", "--replica", "1")
	ok("bcd", "get-and-touch", "k", "--expiry", "2h")
	ok(`ok  cas .*\n`, "touch", "k", "--expiry", "3h")
	ok(stored, "remove", "k")
	ok("5\n", "increment", "n", "--initial", "5")
	ok("8\n", "increment", "n", "--delta", "3")
	ok("7\n", "decrement", "n")
	ok("ok\n", "noop")

	r := c.run("kv", "get-and-lock", "n")
	require.Equal(t, "7", r.stdout)
	require.Regexp(t, `^locked    cas 0x[0-9a-f]{16}\n$`, r.stderr)
	ok("ok\n", "unlock", "n", "--cas", strings.Fields(r.stderr)[2])
	r = c.run("kv", "get-and-lock", "n", "--lock-time", "20s", "--json")
	require.Empty(t, r.stderr)
	require.Zero(t, r.code, r.stderr)
	cas := r.object(t)["cas"].(string)
	c.run("kv", "unlock", "n", "--cas", "1").failsWith(t, exitFailed, "CAS mismatch")
	ok("ok\n", "unlock", "n", "--cas", cas)
}

func TestJSONHasEveryKeyOnSuccessAndFailure(t *testing.T) {
	_, c := startMock(t)
	keys := []string{
		"op", "key", "value", "cas", "flags", "mutation_token", "endpoint", "attempts", "retry_reasons", "elapsed_us",
		"error",
	}
	w := c.run("kv", "upsert", "k", "v", "--flags", "9", "--json").object(t)
	hasKeys(t, w, keys...)
	require.Nil(t, w["error"])
	require.Nil(t, w["value"])
	hasKeys(t, w["mutation_token"].(map[string]any), "bucket", "vbucket", "uuid", "seqno")

	o := c.run("kv", "get", "k", "--json").object(t)
	hasKeys(t, o, keys...)
	require.Equal(t, "get", o["op"])
	require.Equal(t, "k", o["key"])
	require.Equal(t, "v", o["value"])
	require.InDelta(t, 9, o["flags"], 0)
	require.InDelta(t, 1, o["attempts"], 0)
	require.Equal(t, w["cas"], o["cas"])
	require.Equal(t, []any{}, o["retry_reasons"])

	r := c.run("kv", "get", "absent", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, 1, strings.Count(r.stderr, "\n"))
	o = r.object(t)
	hasKeys(t, o, keys...)
	e := o["error"].(map[string]any)
	hasKeys(t, e, "kind", "message", "ambiguous", "status", "context", "ref", "attempts", "retry_reasons")
	require.Equal(t, "document_not_found", e["kind"])
	require.Equal(t, "0x01", e["status"])
	require.Equal(t, false, e["ambiguous"])
}

func TestRetriesAreShown(t *testing.T) {
	m, c := startMock(t)
	require.Zero(t, c.run("kv", "upsert", "k", "v").code)
	fail := func() {
		m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpGet}, Times: 2}, mock.Status(memd.StatusTmpFail))
	}
	fail()
	o := c.run("kv", "get", "k", "--json").object(t)
	require.InDelta(t, 3, o["attempts"], 0)
	require.Equal(t, []any{"KV_TEMPORARY_FAILURE"}, o["retry_reasons"])

	fail()
	r := c.run("kv", "get", "k", "-v")
	require.Equal(t, "v", r.stdout)
	require.Contains(t, r.stderr, "sent 3 times")
	require.Regexp(t, `retries   2  KV_TEMPORARY_FAILURE \(waited \d\.\d\d ms\), KV_TEMPORARY_FAILURE`, r.stderr)
	require.Contains(t, r.stderr, "connected, SCRAM-SHA512")
}

func TestBytesGoUnchanged(t *testing.T) {
	_, c := startMock(t)
	c.stdin = "\xff\x00\n"
	require.Zero(t, c.run("kv", "upsert", "k", "-").code)
	require.Equal(t, "\xff\x00\n", c.run("kv", "get", "k").stdout)
	o := c.run("kv", "get", "k", "--json").object(t)
	require.Equal(t, "/wAK", o["value"])
	require.Equal(t, "base64", o["encoding"])
}

func TestTimeoutsHaveExitCodesOfTheirOwn(t *testing.T) {
	m, c := startMock(t)
	require.Zero(t, c.run("kv", "upsert", "k", "v").code)
	in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet, memd.OpGet}}, mock.DropReply())
	r := c.run("kv", "upsert", "k", "w", "--timeout", "700ms")
	r.failsWith(t, exitInDoubt, "may have been applied")
	r = c.run("kv", "get", "k", "--timeout", "700ms", "--json")
	require.Equal(t, exitNotApplied, r.code, r.stderr)
	require.Equal(t, "unambiguous_timeout", r.object(t)["error"].(map[string]any)["kind"])
	in.Remove()
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
	r = c.run("kv", "upsert", "k", "w", "--timeout", "700ms")
	for tries := 0; r.code == exitInDoubt && tries < 10; tries++ { // the deadline has met a request that was on its way
		r = c.run("kv", "upsert", "k", "w", "--timeout", "700ms")
	}
	r.failsWith(t, exitNotApplied, "KV_TEMPORARY_FAILURE")
}

// Whatever a server may have applied although it failed has the code of that, not of a plain failure.
func TestWhatMayHaveBeenAppliedIsExitCodeFour_D124(t *testing.T) {
	m, c := startMock(t)
	for status, want := range map[memd.Status]int{
		memd.StatusSyncWriteAmbiguous:   exitInDoubt,
		memd.StatusInternal:             exitInDoubt,
		memd.StatusDurabilityImpossible: exitFailed,
	} {
		in := m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(status))
		r := c.run("kv", "upsert", "k", "v", "--durability", "majority")
		require.Equal(t, want, r.code, "%v: %s", status, r.stderr)
		require.Equal(t, want == exitInDoubt, strings.Contains(r.stderr, "may have been applied"), r.stderr)
		require.Equal(t, want, c.run("kv", "upsert", "k", "v", "--durability", "majority", "--json").code)
		in.Remove()
	}
}

func TestAWrongPasswordIsSaidAndNeverShown(t *testing.T) {
	_, c := startMock(t)
	const secret = "correct-horse-battery"
	began := time.Now()
	r := c.run("kv", "get", "k", "-p", secret, "--json", "-v")
	require.Less(t, time.Since(began), 2*time.Second)
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "authentication_failure", r.object(t)["error"].(map[string]any)["kind"])
	require.NotContains(t, r.stdout+r.stderr, secret)

	r = c.run("kv", "get", "k", "-p", secret, "--retry", "best-effort", "--timeout", "700ms", "-v")
	require.Equal(t, exitNotApplied, r.code)
	require.Contains(t, r.stderr, "AUTH_ERROR")
	require.NotContains(t, r.stdout+r.stderr, secret)

	c.stdin = secret + "\n"
	r = c.run("kv", "get", "k", "-p", "-")
	r.failsWith(t, exitFailed, "authentication failure")
	require.NotContains(t, r.stderr, secret)
	c.stdin = mock.DefaultPassword + "\r\n"
	require.Zero(t, c.run("kv", "exists", "k", "-p", "-").code, "the password of a line")
	c.run("kv", "upsert", "k", "-", "-p", "-").failsWith(t, exitUsage, "cannot be both")
}

func TestTLS(t *testing.T) {
	m, c := startMock(t, mock.TLS())
	ca := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(ca, m.CA(), 0o600))
	require.Zero(t, c.run("kv", "noop", "-c", m.TLSConnString(), "--tls-ca", ca).code)
	require.Zero(t, c.run("kv", "noop", "-c", m.TLSConnString(), "--tls-skip-verify").code)
	c.run("kv", "noop", "-c", m.TLSConnString()).failsWith(t, exitFailed, "certificate")
	c.run("kv", "noop", "--tls-ca", ca).failsWith(t, exitUsage, "couchbases://")
	c.run("kv", "noop", "-c", m.TLSConnString(), "--tls-ca", "no/such/file").failsWith(t, exitUsage, "--tls-ca")
	require.NoError(t, os.WriteFile(ca, []byte("no certificate"), 0o600))
	c.run("kv", "noop", "-c", m.TLSConnString(), "--tls-ca", ca).failsWith(t, exitUsage, "no PEM certificate")
}

func TestCollections(t *testing.T) {
	m, c := startMock(t)
	_, err := m.CreateCollection(mock.DefaultBucket, "s", "c")
	require.NoError(t, err)
	require.Zero(t, c.run("kv", "upsert", "k", "v", "--scope", "s", "--collection", "c").code)
	require.Equal(t, "v", c.run("kv", "get", "k", "--scope", "s", "--collection", "c").stdout)
	c.run("kv", "get", "k").failsWith(t, exitFailed, "document not found")
	c.run("kv", "get", "k", "--scope", "s", "--collection", "x").failsWith(t, exitFailed, "collection not found")
}

func TestUsageIsExitCodeTwo(t *testing.T) {
	_, c := startMock(t)
	for line, text := range map[string]string{
		"":                             "no command is given",
		"nonsense":                     "no command nonsense",
		"kv lookup-of k":               "no command lookup-of",
		"kv get":                       "expected \"<key>\"",
		"kv get k --retry sometimes":   "fast-fail and best-effort",
		"kv get k --timeout=-1s":       "negative",
		"kv get k --timeout soon":      "--timeout",
		"kv get k -c nowhere:1":        "connection string",
		"kv upsert k v --cas x":        "--cas",
		"kv upsert k v --durability x": "--durability",
		"demo --duration 1ms":          "--duration",
		"demo --workers 0":             "--workers",
		"mock --nodes 0":               "mock",
		"mock --port 65530":            "ports 65530 to 65571",
		"mock --bucket b:cassandra":    "bucket type",
	} {
		c.run(strings.Fields(line)...).failsWith(t, exitUsage, text)
	}
	couchcore("kv", "get", "k").failsWith(t, exitUsage, "COUCHCORE_CONNECT")
}

func TestBadArgumentsOfAnOperationFailIt(t *testing.T) {
	_, c := startMock(t)
	r := c.run("kv", "get", strings.Repeat("k", 251), "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "invalid_argument", r.object(t)["error"].(map[string]any)["kind"])
	require.InDelta(t, 0, r.object(t)["error"].(map[string]any)["attempts"], 0)
	require.Contains(t, r.stderr, "limit 250")
}

func TestHelpBeginsWithAnExample(t *testing.T) {
	r := couchcore("--help")
	require.Zero(t, r.code)
	require.Contains(t, r.stdout, "couchcore demo")
	require.Less(t, strings.Count(r.stdout, "\n"), 50)
	require.Zero(t, couchcore("kv", "upsert", "--help").code)
}

func TestNoColourAndNoLiveLineWithoutATerminal(t *testing.T) {
	var a app
	require.Equal(t, "OK", a.paint(green, "OK"))
	a.colour = true
	require.Equal(t, "\x1b[32mOK\x1b[0m", a.paint(green, "OK"))
	tty, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	require.NoError(t, err)
	defer tty.Close()
	require.True(t, newApp(nil, tty, nil, func(string) string { return "" }).colour, "a character device")
	require.False(t, newApp(nil, tty, nil, func(string) string { return "1" }).colour, "NO_COLOR")
	var out strings.Builder
	piped := newApp(nil, &out, nil, func(string) string { return "" })
	piped.live("progress")
	require.Empty(t, out.String())
	piped.terminal = true
	piped.live("progress")
	require.Contains(t, out.String(), "progress")
	require.False(t, json.Valid([]byte(out.String())))
}
