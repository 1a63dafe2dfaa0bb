package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
)

// verbs are the commands below kv.
func verbs(t *testing.T) map[string]bool {
	t.Helper()
	k, err := kong.New(&cli{}, helpVars)
	require.NoError(t, err)
	found := map[string]bool{}
	for _, n := range k.Model.Leaves(false) {
		if verb, ok := strings.CutPrefix(n.Path(), "kv "); ok {
			found[verb] = true
		}
	}
	return found
}

// noVerb are requests without a verb of their own, and why.
var noVerb = map[string]string{
	"stat":                "stats",
	"range-scan-create":   "scan makes them",
	"range-scan-continue": "scan makes them",
	"range-scan-cancel":   "scan makes them",
	"get-cluster-config":  "the client's own",
	"get-collection-id":   "the client's own; get-manifest shows the ids",
}

func TestEveryRequestHasAVerb(t *testing.T) {
	have := verbs(t)
	for op := range 256 {
		s := call.SpecOf(memd.Opcode(op))
		if s == nil {
			continue
		}
		_, without := noVerb[s.Name]
		require.NotEqual(t, without, have[s.Name], "%s has a verb or a reason to have none", s.Name)
	}
	for verb := range have {
		require.NotNil(t, specOf(verb), "explain --op %s", verb)
		require.NotNil(t, explainedAs(t, explainCmd{Service: "kv", Op: verb, Status: "0x86"}), verb)
	}
	for verb := range requestsOf {
		require.True(t, have[verb], verb)
	}
}

// lines runs kv commands and compares what they print with patterns.
func lines(t *testing.T, c cmd) func(want string, args ...string) {
	return func(want string, args ...string) {
		t.Helper()
		r := c.run(append([]string{"kv"}, args...)...)
		require.Zero(t, r.code, "%v: %s", args, r.stderr)
		require.Empty(t, r.stderr)
		require.Regexp(t, "^"+want+"$", r.stdout, "%v", args)
	}
}

const storedLine = `ok  cas 0x[0-9a-f]{16}  vbucket \d+  seqno \d+\n`

func TestPaths(t *testing.T) {
	_, c := startMock(t)
	ok := lines(t, c)
	ok(storedLine, "upsert", "k", `{"name":"a","tags":[1,2],"n":1}`)
	ok("\"a\"\n", "lookup-in", "k", "--path", "name")
	ok("no\n", "lookup-in", "k", "--path", "exists:x")
	ok("name  \"a\"\ntags  2\nx  no\n\\(document\\)  \\{.*\\}\n",
		"lookup-in", "k", "--path", "name", "--path", "count:tags", "--path", "exists:x", "--path", "get:")
	ok("0\n", "lookup-in", "k", "--path", "xattr:$document.exptime")
	ok("\"a\"\n", "lookup-in", "k", "--path", "name", "--replica", "1")
	ok("\"a\"\n", "lookup-in", "k", "--path", "name", "--any-replica")
	ok(`(127\.0\.0\.1:\d+  "a"\n){2}`, "lookup-in", "k", "--path", "name", "--all-replicas")

	ok(storedLine+"n  6\n", "mutate-in", "k", "--path", `name="b=c"`, "--path", "counter:n=5", "--path", "array-append:tags=3,4")
	ok(storedLine, "mutate-in", "k", `{"p":1}`, "--path", "o.q", "--create-parents")
	ok(storedLine, "mutate-in", "k", "--path", "remove:o", "--preserve-expiry", "--flags", "7")
	ok(storedLine, "mutate-in", "k", "--path", "xattr:macros:m.cas=\"${Mutation.CAS}\"", "--create-parents",
		"--durability", "majority")
	ok("\"0x[0-9a-f]{16}\"\n", "lookup-in", "k", "--path", "xattr:m.cas")
	ok(storedLine, "mutate-in", "new", "--path", "a=1", "--store", "insert", "--expiry", "1h")
	ok(storedLine, "mutate-in", "new", "--path", "replace:={}")
	ok(`\{\}`, "get", "new")
	ok(storedLine, "mutate-in", "new", "--path", "remove:")
	ok(`\{"name":"b=c","tags":\[1,2,3,4\],"n":6\}`, "get", "k")
	ok(`\{"name":"b=c","n":6\}`, "get", "k", "--path", "name", "--path", "n")

	ok("\"b=c\"\n", "path-get", "k", "name")
	ok("yes\n", "path-exists", "k", "name")
	ok("no\n", "path-exists", "k", "x")
	ok("4\n", "path-count", "k", "tags")
	ok(storedLine, "path-insert", "k", "x", "1")
	ok(storedLine, "path-upsert", "k", "x", "2")
	ok(storedLine, "path-replace", "k", "x", "3")
	ok(storedLine, "path-remove", "k", "x")
	ok(storedLine, "path-array-prepend", "k", "tags", "0")
	ok(storedLine, "path-array-append", "k", "tags", "5")
	ok(storedLine, "path-array-insert", "k", "tags[1]", "9")
	ok(storedLine, "path-array-add-unique", "k", "tags", "7")
	ok("8\n", "path-counter", "k", "n", "2")
	ok(`\[0,9,1,2,3,4,5,7\]\n`, "path-get", "k", "tags")
	ok(storedLine, "path-upsert", "k", "xattr:body", `{"from":"xattr"}`)
	ok(storedLine, "path-replace-body", "k", "body")
	ok(`\{"from":"xattr"\}`, "get", "k")
}

func TestPathsAsJSON(t *testing.T) {
	_, c := startMock(t)
	require.Zero(t, c.run("kv", "upsert", "k", `{"n":1}`).code)
	r := c.run("kv", "lookup-in", "k", "--path", "n", "--path", "exists:x", "--path", "x", "--json")
	require.Equal(t, exitFailed, r.code)
	o := r.object(t)
	require.Equal(t, []any{
		map[string]any{"path": "n", "value": "1", "error": nil},
		map[string]any{"path": "x", "exists": false, "value": nil, "error": nil},
		map[string]any{"path": "x", "value": nil, "error": "path_not_found"},
	}, o["paths"])
	require.Equal(t, false, o["deleted"])
	e := o["error"].(map[string]any)
	require.Equal(t, "path_not_found", e["kind"])
	require.Equal(t, "0xc0", e["status"])
	require.InDelta(t, 1, e["attempts"], 0)

	o = c.run("kv", "mutate-in", "k", "--path", "counter:n=2", "--path", "a=1", "--json").object(t)
	require.Equal(t, []any{
		map[string]any{"path": "n", "value": "3", "error": nil}, map[string]any{
			"path": "a", "value": nil,
			"error": nil,
		},
	}, o["paths"])
	hasKeys(t, o["mutation_token"].(map[string]any), "seqno")
	o = c.run("kv", "path-exists", "k", "x", "--json").object(t)
	require.Equal(t, false, o["exists"])
	require.Nil(t, o["error"])
	o = c.run("kv", "get", "k", "--path", "n", "--with-expiry", "--json").object(t)
	require.Equal(t, `{"n":3}`, o["value"])
	require.Contains(t, o, "expiry")
	for _, line := range strings.Split(strings.TrimSpace(c.run("kv", "lookup-in", "k", "--path", "n", "--all-replicas",
		"--json").stdout), "\n") {
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		hasKeys(t, o, "op", "endpoint", "paths", "deleted")
	}
}

func TestPathsThatFail(t *testing.T) {
	_, c := startMock(t)
	require.Zero(t, c.run("kv", "upsert", "k", `{"n":1}`).code)
	for args, text := range map[string]string{
		"lookup-in k --path x":                     `path 0 "x": path not found`,
		"lookup-in absent --path x":                "document not found",
		"mutate-in k --path insert:n=2":            `path 0 "n": path exists`,
		"mutate-in absent --path n=2":              "document not found",
		"mutate-in k --path n=[":                   "value invalid",
		"path-get k x":                             "path not found",
		"path-exists absent x":                     "document not found",
		"path-remove k x":                          "path not found",
		"lookup-in absent --path x --any-replica":  "document unretrievable",
		"lookup-in absent --path x --all-replicas": "document unretrievable",
	} {
		c.run(append([]string{"kv"}, strings.Fields(args)...)...).failsWith(t, exitFailed, text)
	}
	for args, text := range map[string]string{
		"lookup-in k":                                             "--path",
		"lookup-in k --path insert:x":                             "get, exists and count",
		"lookup-in k --path macros:x":                             "macros",
		"lookup-in k --path x --replica 1 --any-replica":          "can't be used together",
		"mutate-in k --path get:x":                                "that is a lookup",
		"mutate-in k --path remove:x=1":                           "takes no value",
		"mutate-in k --path counter:x=half":                       "whole number",
		"mutate-in k --path x=1 --cas y":                          "--cas",
		"mutate-in k --path x=1 --store somehow":                  "--store",
		"path-counter k n two":                                    "whole number",
		"upsert k v --expiry 1h --expire-at 2030-01-02T15:04:05Z": "can't be used together",
	} {
		c.run(append([]string{"kv"}, strings.Fields(args)...)...).failsWith(t, exitUsage, text)
	}
}

func TestPathSpecs(t *testing.T) {
	for text, want := range map[string]pathSpec{
		"name":                  {path: "name"},
		"":                      {},
		"get:":                  {op: "get"},
		"xattr:exists:a.b":      {op: "exists", xattr: true, path: "a.b"},
		"exists:xattr:a":        {op: "exists", xattr: true, path: "a"},
		"get:get:x":             {op: "get", path: "get:x"},
		"with:colon":            {path: "with:colon"},
		"xattr:macros:binary:x": {xattr: true, macros: true, binary: true, path: "x"},
	} {
		require.Equal(t, want, parsePathSpec(text), text)
	}
	for text, want := range map[string][2]string{
		"a=1": {"a", "1"}, "a=b=c": {"a", "b=c"}, "`a=b`.c=1": {"`a=b`.c", "1"}, "a=": {"a", ""},
	} {
		path, value, ok := cutValue(text)
		require.True(t, ok)
		require.Equal(t, want, [2]string{path, value}, text)
	}
	_, _, ok := cutValue("`a=b`")
	require.False(t, ok)
}

func TestCopies(t *testing.T) {
	_, c := startMock(t)
	ok := lines(t, c)
	ok(storedLine, "upsert", "k", "v")
	ok("v", "get-any-replica", "k")
	ok("v", "get-replica", "k", "--replica", "3", "--wrap")
	ok(`(127\.0\.0\.1:\d+  (active|replica)  cas 0x[0-9a-f]{16}  v\n){2}`, "get-all-replicas", "k")
	from := map[any]int{}
	for _, line := range strings.Split(strings.TrimSpace(c.run("kv", "get-all-replicas", "k", "--json").stdout), "\n") {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		require.Equal(t, "v", o["value"])
		from[o["from_replica"]]++
	}
	require.Equal(t, map[any]int{true: 1, false: 1}, from)
	c.run("kv", "get-any-replica", "absent").failsWith(t, exitFailed, "document unretrievable")
	r := c.run("kv", "get-all-replicas", "absent", "--json")
	require.Equal(t, exitFailed, r.code)
	require.Equal(t, "document_unretrievable", r.object(t)["error"].(map[string]any)["kind"])
	c.run("kv", "get-replica", "k", "--replica", "2").failsWith(t, exitFailed, "replica index out of bounds")
	c.run("kv", "get-all-replicas", "k", "--server-group", "nowhere").failsWith(t, exitFailed, "document unretrievable")
}

func TestWatchedWrites(t *testing.T) {
	_, c := startMock(t)
	ok := lines(t, c)
	for _, args := range []string{"insert k v", "upsert k v", "replace k v", "append k v", "prepend k v", "remove k"} {
		ok(storedLine, append(strings.Fields(args), "--persist-to", "1", "--replicate-to", "1")...)
	}
	c.run("kv", "upsert", "k", "v", "--persist-to", "4").failsWith(t, exitFailed, "durability impossible")
	c.run("kv", "upsert", "k", "v", "--persist-to", "1", "--durability", "majority").failsWith(t, exitFailed,
		"invalid argument")
}

func TestNodesAndVbuckets(t *testing.T) {
	m, c := startMock(t)
	_, err := m.CreateCollection(mock.DefaultBucket, "s", "c")
	require.NoError(t, err)
	ok := lines(t, c)
	token := c.run("kv", "upsert", "airline_10", "v", "--json").object(t)["mutation_token"].(map[string]any)
	ok(`vbucket 9  uuid `+token["uuid"].(string)+`  persisted \d+  current 1\n`, "observe-seqno", "9", "--uuid", token["uuid"].(string))
	ok(`(uuid 0x[0-9a-f]{16}  from seqno \d+\n)+`, "failover-log", "9")
	ok(`.*-0000\n`, "version", "--node", "1")
	ok("manifest 0x.*\n(?s).*s  scope 0x8\ns\\.c  collection 0x8\n", "get-manifest")
	ok("scope 0x8  manifest 0x.*\n", "get-scope-id", "s")
	ok(`(?s).*  version  .*-0000\n.*`, "stats", "--node", "0")
	ok(`(?s).*  version  .*`, "stats", "--vbucket", "9")
	ok(`cas 0x[0-9a-f]{16}  rev 1  flags 0  expiry never  deleted no  raw\n`, "get-meta", "airline_10")

	var nodes []string
	for _, line := range strings.Split(strings.TrimSpace(c.run("kv", "stats", "--json").stdout), "\n") {
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &o))
		hasKeys(t, o, "op", "key", "node", "error", "elapsed_us")
		hasKeys(t, o["stats"].(map[string]any), "version")
		nodes = append(nodes, o["endpoint"].(string))
	}
	require.Len(t, nodes, 2)
	o := c.run("kv", "observe-seqno", "9", "--uuid", token["uuid"].(string), "--json").object(t)
	require.Equal(t, false, o["failed_over"])
	require.Equal(t, token["seqno"], o["current"])
	require.NotEmpty(t, c.run("kv", "failover-log", "9", "--json").object(t)["entries"])
	require.NotEmpty(t, c.run("kv", "version", "--json").object(t)["version"])
	require.Equal(t, "0x8", c.run("kv", "get-scope-id", "s", "--json").object(t)["scope_id"])
	require.Contains(t, c.run("kv", "get-manifest", "--json").object(t)["manifest"], "scopes")
	require.Equal(t, "1", c.run("kv", "get-meta", "airline_10", "--json").object(t)["rev_seqno"])

	for args, text := range map[string]string{
		"observe-seqno 9 --uuid 1": "document not found", "failover-log 999": "vbucket",
		"get-scope-id nosuch":           "scope not found",
		"version --node 9 --timeout 1s": "no reachable node", "stats nosuch": "document not found",
		"get-meta absent":                      "document not found",
		"get airline_10 --on-behalf-of nobody": "authentication failure",
	} {
		r := c.run(append([]string{"kv"}, strings.Fields(args)...)...)
		require.NotZero(t, r.code, args)
		require.Contains(t, strings.ToLower(r.stderr), text, args)
	}
	for args, text := range map[string]string{
		"observe-seqno 9": "--uuid", "observe-seqno 9 --uuid x": "--uuid",
		"stats --node 0 --vbucket 1": "exclude each other",
		"stats --args {":             "is not JSON", "set-with-meta k v": "--store-cas",
		"set-with-meta k v --store-cas x":         "--store-cas",
		"add-with-meta k v --store-cas 1 --cas 1": "--cas", "scan p --start a": "exclude each other",
		"scan --seed 1":   "--sample",
		"scan --limit=-1": "not negative",
	} {
		c.run(append([]string{"kv"}, strings.Fields(args)...)...).failsWith(t, exitUsage, text)
	}
}

func TestMetadata(t *testing.T) {
	_, c := startMock(t)
	ok := lines(t, c)
	ok(`ok  cas 0x0000000000001234  vbucket \d+  seqno 1\n`, "set-with-meta", "k", `{"a":1}`, "--store-cas", "0x1234", "--rev-seqno", "7",
		"--flags", "3", "--expire-at", "2031-01-02T15:04:05Z")
	ok(`cas 0x0000000000001234  rev 7  flags 3  expiry 2031-01-02T15:04:05Z  deleted no  json\n`, "get-meta", "k")
	o := c.run("kv", "get-meta", "k", "--json").object(t)
	require.Equal(t, "2031-01-02T15:04:05Z", o["expiry"])
	require.Equal(t, "json", o["datatype"])
	require.NotContains(t, c.run("kv", "get-meta", "k", "--v1", "--json").object(t), "datatype")
	ok(`ok  .*\n`, "delete-with-meta", "k", "--store-cas", "0x9999", "--rev-seqno", "9")
	ok(`cas 0x0000000000009999  rev 9  .*  deleted yes  .*\n`, "get-meta", "k")
	ok(`ok  .*\n`, "add-with-meta", "k2", "1", "--store-cas", "5")
	c.run("kv", "add-with-meta", "k2", "1", "--store-cas", "5").failsWith(t, exitFailed, "document exists")
	c.run("kv", "set-with-meta", "k2", "1", "--store-cas", "6", "--regenerate-cas").failsWith(t, exitFailed,
		"invalid argument")
	ok(`ok  .*\n`, "set-with-meta", "k2", "2", "--store-cas", "1", "--regenerate-cas", "--skip-conflict-resolution")

	ok(storedLine, "mutate-in", "k2", "--path", `xattr:m={"x":1}`)
	ok("2", "get-ex", "k2")
	ok("2", "get-ex-replica", "k2")
	o = c.run("kv", "get-ex", "k2", "--json").object(t)
	require.Equal(t, map[string]any{"m": map[string]any{"x": 1.0}}, o["xattrs"])
	ok("k2  2\n", "get-random")
	o = c.run("kv", "get-random", "--with-xattrs", "--json").object(t)
	require.Equal(t, "k2", o["found"])
	require.Equal(t, "2", o["value"])
	require.Contains(t, o["xattrs"], "m")
	ok(`persisted  cas 0x[0-9a-f]{16}  127\.0\.0\.1:\d+\n`, "observe", "k2")
	require.Equal(t, "missing", c.run("kv", "observe", "absent", "--replica", "1", "--json").object(t)["state"])
	c.run("kv", "get-ex", "absent").failsWith(t, exitFailed, "document not found")
	c.run("kv", "observe", "k2", "--replica", "4").failsWith(t, exitFailed, "invalid argument")
}

func TestGetRandomOfNothing(t *testing.T) {
	_, c := startMock(t)
	r := c.run("kv", "get-random", "--json")
	require.Equal(t, exitFailed, r.code)
	o := r.object(t)
	require.Equal(t, "document_not_found", o["error"].(map[string]any)["kind"])
	require.NotEmpty(t, o["endpoint"])
}

func TestScan(t *testing.T) {
	_, c := startMock(t)
	ok := lines(t, c)
	ok("", "scan")
	for _, k := range []string{"a1", "a2", "b1"} {
		ok(storedLine, "upsert", k, "v"+k)
	}
	ok("a1  va1\na2  va2\nb1  vb1\n", "scan", "--sort")
	ok("a1\na2\n", "scan", "a", "--keys-only", "--sort")
	ok("a2\nb1\n", "scan", "--start", "a1", "--exclude-start", "--keys-only", "--sort")
	ok("a1\na2\n", "scan", "--end", "b1", "--exclude-end", "--keys-only", "--sort", "--concurrency", "1",
		"--batch-items", "1")
	ok("a1\n", "scan", "--limit", "1", "--keys-only", "--sort")
	ok(`(..\n){2}`, "scan", "--sample", "2", "--seed", "5", "--keys-only")
	r := c.run("kv", "scan", "a1", "--json", "-v")
	o := r.object(t)
	require.Equal(t, "va1", o["value"])
	hasKeys(t, o, "op", "key", "value", "cas", "flags", "mutation_token", "endpoint", "attempts", "retry_reasons",
		"elapsed_us", "error", "seqno")
	require.Regexp(t, `^1 item  .* ms\n$`, r.stderr)
	c.run("kv", "scan", "--collection", "nosuch").failsWith(t, exitFailed, "collection not found")
	r = c.run("kv", "scan", "--collection", "nosuch", "--json")
	require.Equal(t, "collection_not_found", r.object(t)["error"].(map[string]any)["kind"])
}

func TestScanFlags(t *testing.T) {
	for _, c := range []struct {
		cmd  kvScan
		want kv.Scan
	}{
		{kvScan{}, kv.Scan{}},
		{kvScan{Prefix: "p", KeysOnly: true, Sort: true}, kv.Scan{
			Range: kv.PrefixRange([]byte("p")), KeysOnly: true,
			Sorted: true,
		}},
		{kvScan{Start: "a", End: "b", ExcludeEnd: true}, kv.Scan{Range: &kv.ScanRange{
			Start: []byte("a"),
			End:   []byte("b"), ExcludeEnd: true,
		}}},
		{kvScan{Sample: 3, Seed: 4, Concurrency: 2, BatchItems: 5, BatchBytes: 6}, kv.Scan{
			Samples: 3, Seed: 4, Concurrency: 2, BatchItems: 5, BatchBytes: 6,
		}},
	} {
		got, err := c.cmd.scan(&kvCmd{})
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestAPolicyFileBindsOperations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "policy.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"operationConfig":[{"name":[{"service":"kv","operation":"upsert"}],"retryPolicy":{
		"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s","backoffMultiplier":1,"retryableReasons":["KV_TEMPORARY_FAILURE"]}}]}`), 0o600))
	m, c := startMock(t)
	m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}}, mock.Status(memd.StatusTmpFail))
	r := c.run("kv", "upsert", "k", "v", "--retry", "@"+file, "--json")
	require.Equal(t, exitFailed, r.code, r.stderr)
	e := r.object(t)["error"].(map[string]any)
	require.Equal(t, "temporary_failure", e["kind"])
	require.InDelta(t, 3, e["attempts"], 0)
	require.Contains(t, r.stderr, "retry limit reached")
}
