package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

func TestReasonsAreTheTable(t *testing.T) {
	golden(t, "reasons", transcript("reasons"))
}

func TestReasonsAsJSONAreOneObjectARow(t *testing.T) {
	r := couchcore("reasons", "--json")
	require.Zero(t, r.code)
	rows := strings.Split(strings.TrimSuffix(r.stdout, "\n"), "\n")
	i := 0
	for want := range retry.All() {
		var row map[string]any
		require.NoError(t, json.Unmarshal([]byte(rows[i]), &row))
		require.Equal(t, map[string]any{
			"name": want.String(), "non_idempotent_retry": want.AllowsNonIdempotent(),
			"always_retry": want.AlwaysRetry(),
			"terminal":     want.Terminal(), "kind": want.Kind().String(), "unseen": want.Unseen(),
			"means": reasonTexts[want].means, "set": reasonTexts[want].set, "cleared": reasonTexts[want].cleared,
			"do":      reasonTexts[want].do,
			"answers": row["answers"],
		}, row)
		require.IsType(t, []any{}, row["answers"])
		i++
	}
	require.Len(t, rows, i)
}

func TestStrerror(t *testing.T) {
	golden(t, "strerror", transcript(
		"strerror 0x00", "strerror 0x01", "strerror 1", "strerror 0x07", "strerror 0x20", "strerror 0x24",
		"strerror 0x86",
		"strerror 0x0d", "strerror 0x86 --json", "strerror 0x01 --json", "strerror 0x00 --json", "strerror 0x7ff0",
		"strerror 0x10000", "strerror EACCESS",
	))
}

func TestEveryStatusHasAMeaning(t *testing.T) {
	named := 0
	var out bytes.Buffer
	a := newApp(strings.NewReader(""), &out, io.Discard, func(string) string { return "" })
	a.json = true
	for st := range 0x10000 {
		s := memd.Status(st)
		if s.Known() {
			named++
			require.NotEmpty(t, meanings[s], "%v", s)
			out.Reset()
			require.NoError(t, (&strerrorCmd{statusText(s)}).Run(a))
			m := result{stdout: out.String()}.object(t)
			require.Equal(t, s.String(), m["name"])
			require.Equal(t, meanings[s], m["meaning"])
			d := call.Classify(memd.OpGet, s, false)
			if d.Kind != nil {
				require.Equal(t, d.Kind.Name(), m["kind"])
			}
			if d.Class == call.ClassRetry {
				require.Equal(t, d.Reason.String(), m["reason"])
			} else {
				require.Nil(t, m["reason"])
			}
		}
	}
	require.Len(t, meanings, named, "a meaning without a name")
}

func TestHashWithoutACluster(t *testing.T) {
	golden(t, "hash", transcript(
		"hash airline_10", "hash airline_10 --json", "hash airline_10 --vbuckets 64", "hash k --vbuckets 0",
		"hash k --vbuckets 1025",
	))
}

func TestHashAsksTheClusterThatIsNamed(t *testing.T) {
	m, c := startMock(t)
	r := c.run("hash", "airline_10", "-c", m.ConnString(), "--json")
	require.Zero(t, r.code, r.stderr)
	o := r.object(t)
	require.InDelta(t, 361%16, o["vbucket"], 0)
	require.InDelta(t, 16, o["vbuckets"], 0)
	require.Contains(t, m.ConnString(), o["active"])
	require.Len(t, o["replicas"], 1)
	require.NotEqual(t, o["active"], o["replicas"].([]any)[0])
	r = c.run("hash", "airline_10", "-c", m.ConnString())
	require.Regexp(t, `^vbucket 9 of 16   active 127\.0\.0\.1:\d+   replica 1 127\.0\.0\.1:\d+\n$`, r.stdout)

	require.NoError(t, m.CreateBucket("m", 0, mock.Memcached()))
	r = c.run("hash", "airline_10", "-c", m.ConnString(), "-b", "m")
	require.Equal(t, "a memcached bucket has no vbuckets: a ring of its nodes places the key\n", r.stdout, r.stderr)
	c.run("hash", "k", "-c", "couchbase://"+closedPort(t), "--timeout", "50ms").failsWith(t, exitNotApplied,
		"is not connected: connection refused")
}

// hash asks the cluster that the environment names, and needs no more of it than a map.
func TestHashNeedsTheMapAlone(t *testing.T) {
	m, c := startMock(t)
	gone := m.Node(1).Addr()
	require.NoError(t, m.Kill(1))
	found := map[bool]bool{}
	for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r := c.run("hash", key)
		require.Zero(t, r.code, r.stderr)
		require.Regexp(t, `^vbucket \d+ of 16   active \S+   replica 1 \S+\n$`, r.stdout)
		found[strings.Contains(r.stdout, "active "+gone)] = true
	}
	require.Len(t, found, 2, "one of the two nodes is down, and holds half of the keys")
	require.Equal(t, "vbucket 361 of 1024\n", c.run("hash", "airline_10", "--vbuckets", "1024").stdout)
	require.Equal(t, "vbucket 361 of 1024\n", couchcore("hash", "airline_10").stdout)
	c.run("hash", "k", "-c", "couchbase://h", "--vbuckets", "16").failsWith(t, exitUsage,
		"--vbuckets is for no cluster")
}

func TestConnstr(t *testing.T) {
	golden(t, "connstr", transcript(
		"connstr couchbases://h1,h2:11207/travel?kv_timeout=5s",
		"connstr couchbase://user:secret@host",
		"connstr couchbase://host:99999",
		"connstr couchbase://host?kv_timeout=soon",
	))
}

func TestConnstrAsJSON(t *testing.T) {
	o := couchcore("connstr", "couchbase://[::1]:11210,10.0.0.1/b", "--json").object(t)
	hasKeys(t, o, "scheme", "hosts", "options")
	require.Equal(t, "couchbase", o["scheme"])
	require.Equal(t, "b", o["bucket"])
	require.Equal(t, []any{
		map[string]any{"host": "::1", "port": 11210.0, "default_port": false},
		map[string]any{"host": "10.0.0.1", "port": 11210.0, "default_port": true},
	}, o["hosts"])
	require.Equal(t, "2.5s", o["options"].(map[string]any)["kv_timeout"])
	require.Equal(t, []any{}, o["unknown_options"])

	o = couchcore("connstr", "couchbases://example.com?own_option=1&kv_timeout=3s", "--json").object(t)
	require.Equal(t, true, o["tls"])
	require.Equal(t, true, o["srv"])
	require.InDelta(t, 11207, o["hosts"].([]any)[0].(map[string]any)["port"], 0)
	require.Equal(t, "3s", o["options"].(map[string]any)["kv_timeout"])
	require.Equal(t, []any{"own_option"}, o["unknown_options"])

	for s, why := range map[string]string{
		"http://host": "the scheme is http", "couchbase://host:11210": "the host has a port",
		"couchbase://10.0.0.1": "is an address",
	} {
		require.Contains(t, couchcore("connstr", s).stdout, why)
	}
}

func TestConnstrShowsNoValueOfAnUnknownOption(t *testing.T) {
	for _, args := range [][]string{{"connstr", "couchbase://h?pass=sesame"}, {
		"connstr", "couchbase://h?pass=sesame",
		"--json",
	}} {
		r := couchcore(args...)
		require.Zero(t, r.code)
		require.Contains(t, r.stdout, "pass")
		require.NotContains(t, r.stdout+r.stderr, "sesame")
	}
}
