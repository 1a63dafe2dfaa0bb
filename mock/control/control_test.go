package control_test

import (
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

type body = map[string]any

func TestFaultsByKeyAndTheirCount(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	c.upsert(b, "k", "1")
	in := c.ok("POST", "/v1/injections", body{
		"match": body{"opcodes": []string{"GET"}, "key": "k", "times": 2}, "fault": body{"status": "ETMPFAIL"},
	})
	res, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, 2, res.RetryInfo().Retries())
	at := "/v1/injections/" + in["id"].(string)
	require.InDelta(t, 2, c.ok("GET", at+"?fired=2&timeout_ms=60000", nil)["fired"], 0)
	require.Len(t, c.items("/v1/injections"), 1)
	c.ok("DELETE", at, nil)
	require.Equal(t, "id", c.fails(404, "GET", at, nil)["field"])
}

// The newest injection that is not used up acts, as with scripts; a list of faults is for one request after another.
func TestTheNewestInjectionActs_D162(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	c.upsert(b, "k", "1")
	c.ok("POST", "/v1/injections", body{"match": body{"key": "k"}, "fault": body{"status": "NOT_STORED"}})
	c.ok("POST", "/v1/injections", body{"match": body{"key": "k", "times": 2}, "faults": []body{
		{"status": "KEY_ENOENT"}, {"reply": body{"json": body{"a": 1}, "flags": mock.FlagsJSON}},
	}})
	_, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	require.JSONEq(t, `{"a":1}`, c.get(b, "k"))
	_, err = kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
	require.ErrorContains(t, err, "NOT_STORED")
}

func TestHeldRequests(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	in := c.ok("POST", "/v1/injections", body{"match": body{"opcodes": []string{"0x01"}}, "fault": body{"hold": true}})
	at := "/v1/injections/" + in["id"].(string)
	f := kv.Start(t.Context(), b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
	require.InDelta(t, 1, c.ok("GET", at+"?fired=1", nil)["fired"], 0)
	require.Empty(t, c.items("/v1/buckets/default/documents"))
	c.ok("POST", at+"/release", nil)
	_, err := f.Wait(t.Context())
	require.NoError(t, err)
	require.Equal(t, "v", c.items("/v1/buckets/default/documents")[0]["value"])
}

func TestRewrites(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	c.ok("POST", "/v1/injections", body{"match": body{"opcodes": []string{"SET"}}, "fault": body{
		"rewrite_request": body{"json_patch": []body{{"op": "add", "path": "/by", "value": "the mock"}}},
	}})
	c.upsert(b, "k", `{"list":[1,2]}`)
	require.JSONEq(t, `{"list":[1,2],"by":"the mock"}`, c.get(b, "k"))
	c.ok("POST", "/v1/injections", body{"match": body{"opcodes": []string{"GET"}, "times": 1}, "fault": body{
		"rewrite_answer": body{"cas": "77", "json_patch": []body{
			{"op": "remove", "path": "/by"}, {"op": "replace", "path": "/list/1", "value": body{"x": nil}},
		}, "bytes": []body{{"at": -1, "hex": "207d"}}},
	}})
	res, err := kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
	require.NoError(t, err)
	require.Equal(t, `{"list":[1,{"x":null}] }`, string(res.Value))
	require.EqualValues(t, 77, res.CAS)
	require.JSONEq(t, `{"list":[1,2],"by":"the mock"}`, c.get(b, "k"))
}

func TestAReset(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	c.upsert(b, "k", "v")
	in := c.ok("POST", "/v1/injections", body{
		"match": body{"opcodes": []string{"GET"}, "times": 1}, "fault": body{"close": "reset"},
	})
	require.Equal(t, "v", c.get(b, "k"), "over another connection")
	require.InDelta(t, 1, c.ok("GET", "/v1/injections/"+in["id"].(string), nil)["fired"], 0)
}

func TestTopology(t *testing.T) {
	c := start(t, mock.Nodes(2))
	b := c.client().Bucket("default")
	c.upsert(b, "k", "1")
	rev := c.ok("GET", "/v1/cluster", nil)["revision"].(float64)
	require.InDelta(t, 2, c.ok("POST", "/v1/nodes", nil)["node"], 0)
	out := c.ok("POST", "/v1/cluster/rebalance", nil)
	require.Greater(t, out["revision"], rev)
	require.Equal(t, "active", out["nodes"].([]any)[2].(map[string]any)["membership"])
	require.Equal(t, "1", c.get(b, "k"))
	place := c.ok("GET", "/v1/buckets/default/where?key=k", nil)
	active := place["active"].(float64)
	node := "/v1/nodes/" + string(rune('0'+int(active)))
	require.Equal(t, false, c.ok("POST", node+"/kill", nil)["up"])
	require.Equal(t, "out", c.ok("POST", node+"/failover", nil)["membership"])
	require.Equal(t, "1", c.get(b, "k"))
	require.Equal(t, true, c.ok("POST", node+"/respawn", nil)["up"])
	c.ok("POST", "/v1/cluster/rebalance", nil)
	c.ok("POST", node+"/remove", nil)
	require.Equal(t, "1", c.get(b, "k"))
	for _, vb := range []string{"/v1/buckets/default/vbuckets/0/move"} {
		e := c.fails(400, "POST", vb, body{"node": active})
		require.Contains(t, e["message"], "cannot move")
	}
	require.Equal(t, "node", c.fails(404, "POST", "/v1/nodes/9/kill", nil)["field"])
	c.ok("POST", "/v1/nodes/0/suspend", nil)
	c.ok("POST", "/v1/nodes/0/resume", nil)
	c.ok("POST", "/v1/nodes/0/disconnect", body{"reset": true})
	c.ok("PUT", "/v1/connection-faults", body{"latency_ms": 1, "nodes": []int{0}})
	c.ok("PUT", "/v1/connection-faults", body{})
	c.ok("PUT", "/v1/nodes/0/alternate-address", body{"hostname": "out.example", "ports": body{"kv": 7}})
	require.Contains(t, string(c.mock.ConfigJSON("default")),
		`"alternateAddresses":{"external":{"hostname":"out.example","ports":{"kv":7}}}`)
	c.ok("PUT", "/v1/nodes/0/alternate-address", body{})
	require.NotContains(t, string(c.mock.ConfigJSON("default")), "out.example")
	require.Equal(t, "1", c.get(b, "k"))
}

func TestScriptsAndTheirLog(t *testing.T) {
	c := start(t)
	cluster := c.client()
	s := c.ok("POST", "/v1/scripts", body{
		"match": body{"service": "query", "statement": "FROM airports"},
		"answers": []body{
			{"rows": []any{body{"id": "CDG"}}}, {"errors": []body{{"code": 12003, "message": "no keyspace"}}},
		},
	})
	require.Equal(t, []string{`{"id":"CDG"}`}, c.rows(cluster, "SELECT id FROM airports"))
	require.Contains(t, c.queryError(cluster, "SELECT id FROM airports"), "no keyspace")
	require.InDelta(t, 2, c.ok("GET", "/v1/scripts/"+s["id"].(string), nil)["fired"], 0)
	log := c.items("/v1/logs/http?service=query&statement=airports")
	require.Len(t, log, 2)
	require.Equal(t, "SELECT id FROM airports", log[0]["statement"])
	require.NotContains(t, log[0]["header"], "Authorization")
	c.ok("DELETE", "/v1/logs/http", nil)
	require.Empty(t, c.items("/v1/logs/http"))
}

func TestAnswersAreRewritten(t *testing.T) {
	c := start(t, mock.Documents("default", map[string]any{"k": map[string]int{"n": 1}}))
	require.NoError(t, c.mock.Execute("CREATE PRIMARY INDEX ON `default`"))
	cluster := c.client()
	c.ok("POST", "/v1/scripts", body{"match": body{"service": "query", "statement": "SELECT"}, "answers": []body{
		{"default": true, "json_patch": []body{{"op": "add", "path": "/results/-", "value": body{"n": 2}}}},
	}})
	require.Equal(t, []string{`{"n":1}`, `{"n":2}`}, c.rows(cluster, "SELECT n FROM `default`"))
	c.ok("POST", "/v1/scripts", body{"match": body{"service": "management", "path": "/whoami"}, "answers": []body{
		{"default": true, "json_patch": []body{{"op": "replace", "path": "/id", "value": "another"}}},
	}})
	rq, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+c.mock.Node(0).ManagementAddr()+"/whoami", nil)
	require.NoError(t, err)
	rq.SetBasicAuth(mock.DefaultUser, mock.DefaultPassword)
	answer, err := c.http.Do(rq)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), `"id":"another"`)
}

// A statement that the mock does not support is never answered as a syntax error, and is listed.
func TestUnsupportedStatementsAreListed(t *testing.T) {
	c := start(t)
	cluster := c.client()
	const statement = "MERGE INTO `default` d USING [{}] s ON KEY s.id WHEN MATCHED THEN DELETE"
	for range 2 {
		text := c.queryError(cluster, statement)
		require.Contains(t, text, "The mock does not support")
		require.NotContains(t, text, "yntax")
	}
	list := c.items("/v1/unsupported")
	require.Len(t, list, 1)
	require.Equal(t, body{"service": "query", "statement": statement, "requests": 2.0, "message": list[0]["message"]},
		list[0])
	c.ok("DELETE", "/v1/unsupported", nil)
	require.Empty(t, c.items("/v1/unsupported"))
}

func TestFixturesAndSnapshots(t *testing.T) {
	files := fstest.MapFS{
		"base.json":                         {Data: []byte(`{"buckets":{"default":{"documents":{"f":{"from":"file"}}}}}`)},
		"default/inventory/airline/10.json": {Data: []byte(`{"name":"40-Mile Air"}`)},
		"default/inventory/airline/raw":     {Data: []byte{1, 2}},
	}
	c := startWith(t, control.Options{Fixtures: files})
	cluster := c.client()
	b := cluster.Bucket("default")
	c.ok("POST", "/v1/fixtures", body{
		"buckets": body{"default": body{
			"documents": body{
				"k": body{"n": 1}, "t": body{"$text": "plain"}, "b": body{"$base64": "AQI=", "$flags": 7},
			},
			"collections": body{"s.c": body{"documents": body{"in": []int{1}}}},
		}, "more": body{"type": "ephemeral", "replicas": 0}},
		"users":      []body{{"name": "u", "password": "p", "buckets": []string{"more"}}},
		"statements": []string{"CREATE PRIMARY INDEX ON `default`"},
	})
	c.ok("POST", "/v1/fixtures/files", body{"path": "."})
	require.Equal(t, []string{`{"n":1}`}, c.rows(cluster, "SELECT n FROM `default` WHERE n IS NOT MISSING"))
	require.Equal(t, "plain", c.get(b, "t"))
	require.Len(t, c.items("/v1/buckets/default/documents"), 7)
	require.InDelta(t, 7, c.items("/v1/buckets/default/documents?key=b")[0]["flags"], 0)
	airline := c.items("/v1/buckets/default/documents?collection=inventory.airline&key=10")
	require.Equal(t, body{"name": "40-Mile Air"}, airline[0]["json"])
	require.Empty(t, c.items("/v1/logs/applied"), "fixtures are not what a client did")
	require.Contains(t, c.ok("GET", "/v1/users", nil)["names"], "u")

	id := c.ok("POST", "/v1/snapshots", nil)["id"].(string)
	c.upsert(b, "k", `{"n":2}`)
	c.upsert(b, "new", `{}`)
	c.ok("DELETE", "/v1/buckets/more", nil)
	c.ok("DELETE", "/v1/buckets/default/collections?scope=s", nil)
	c.ok("POST", "/v1/buckets", body{"name": "another"})
	c.ok("POST", "/v1/snapshots/"+id+"/restore", nil)
	require.Len(t, c.items("/v1/buckets/default/documents"), 7)
	require.JSONEq(t, `{"n":1}`, c.get(b, "k"))
	require.Equal(t, []string{`{"n":1}`}, c.rows(cluster, "SELECT n FROM `default` WHERE n IS NOT MISSING"))
	require.Equal(t, []string{"default", "more"}, c.mock.Buckets())
	c.upsert(b, "k", `{"n":3}`)
	c.ok("POST", "/v1/snapshots/"+id+"/restore", nil)
	require.JSONEq(t, `{"n":1}`, c.get(b, "k"))
	c.ok("DELETE", "/v1/snapshots/"+id, nil)
	c.fails(404, "POST", "/v1/snapshots/"+id+"/restore", nil)
	require.Equal(t, "path", c.fails(400, "POST", "/v1/fixtures/files", body{"path": "../secret"})["field"])
	require.Equal(t, "buckets", c.fails(400, "POST", "/v1/fixtures", body{"buckets": 1})["field"])
	require.Equal(t, "bucket", c.fails(400, "POST", "/v1/fixtures", body{"bucket": 1})["field"])
}

func TestTheClock(t *testing.T) {
	c := start(t)
	b := c.client().Bucket("default")
	_, err := kv.Do(t.Context(), b, kv.Upsert{Key: []byte("k"), Value: []byte("v"), Expiry: kv.ExpireAfter(time.Hour)})
	require.NoError(t, err)
	c.ok("POST", "/v1/clock", body{"advance_ms": 3599_000})
	require.Equal(t, "v", c.get(b, "k"))
	c.ok("POST", "/v1/clock", body{"advance_ms": 2000})
	_, err = kv.Do(t.Context(), b, kv.Get{Key: []byte("k")})
	require.ErrorIs(t, err, cberr.DocumentNotFound)
	require.NotEmpty(t, c.ok("GET", "/v1/clock", nil)["now"])
}

func TestLogsAndCounts(t *testing.T) {
	c := start(t, mock.Bucket("default", 0, mock.WithCollection("s", "c")))
	b := c.client().Bucket("default")
	seen := c.ok("POST", "/v1/expectations", body{"match": body{"key": "k", "opcodes": []string{"SET"}}, "count": 2})
	never := c.ok("POST", "/v1/expectations", body{"match": body{"opcodes": []string{"DELETE"}}, "max": 0})
	require.Equal(t, false, seen["met"])
	require.Equal(t, true, never["met"])
	_, err := kv.Do(t.Context(), b.Collection("s", "c"), kv.Upsert{
		Key: []byte("k"), Value: []byte(`{"a":1}`), Durability: memd.DurabilityMajority,
	})
	require.NoError(t, err)
	c.upsert(b, "k", "2")
	c.get(b, "k")
	require.Equal(t, true, c.ok("GET", "/v1/expectations/"+seen["id"].(string)+"?fired=2", nil)["met"])
	frames := c.items("/v1/logs/frames?key=k")
	require.Len(t, frames, 3)
	require.Equal(t, "s.c", frames[0]["collection"])
	require.Equal(t, "majority", frames[0]["durability"])
	require.Equal(t, `{"a":1}`, frames[0]["value"])
	require.Equal(t, "default", frames[0]["bucket"])
	require.Equal(t, "Administrator", frames[0]["user"])
	require.Equal(t, "_default._default", frames[1]["collection"])
	require.Len(t, c.items("/v1/logs/frames?opcodes=GET,SET&collection=s.c"), 1)
	counts := c.ok("GET", "/v1/counts?key=k", nil)
	require.InDelta(t, 3, counts["total"], 0)
	require.Len(t, counts["items"], 3)
	applied := c.items("/v1/logs/applied?key=k&collection=s.c")
	require.Len(t, applied, 1)
	require.Equal(t, `{"a":1}`, applied[0]["token"])
	c.ok("POST", "/v1/reset", nil)
	for _, list := range []string{"logs/frames", "logs/applied", "logs/http", "expectations", "injections", "scripts"} {
		require.Empty(t, c.items("/v1/"+list), list)
	}
}

func TestErrorsNameFieldAndLimit(t *testing.T) {
	c := start(t)
	for _, row := range []struct {
		method, path string
		body         any
		status       int
		field        any
		limit        any
	}{
		{
			"POST", "/v1/injections",
			body{"match": body{"opcodes": []string{"GET", "GOT"}}, "fault": body{}},
			400, "match.opcodes[1]", nil,
		},
		{"POST", "/v1/injections", body{"match": body{}, "fault": body{"status": "BAD"}}, 400, "fault.status", nil},
		{"POST", "/v1/injections", body{"match": body{}}, 400, "fault", nil},
		{"POST", "/v1/injections", body{"match": body{"nodes": []int{7}}, "fault": body{}}, 400, "match.nodes[0]", nil},
		{
			"POST", "/v1/injections",
			body{"match": body{"probability": 2}, "fault": body{}},
			400, "match.probability", nil,
		},
		{"POST", "/v1/injections", body{"fault": body{"delay_ms": 1e9}}, 400, "fault.delay_ms", 600000.0},
		{"POST", "/v1/injections", body{"faults": []body{{}, {"close": "never"}}}, 400, "faults[1].close", nil},
		{
			"POST", "/v1/injections",
			body{"fault": body{"rewrite_answer": body{"json_patch": []body{{"op": "swap"}}}}},
			400, "fault.rewrite_answer.json_patch[0]", nil,
		},
		{"POST", "/v1/injections", body{"fault": body{"wire": []body{{"hex": "0"}}}}, 400, "fault.wire[0].hex", nil},
		{"POST", "/v1/injections", `{"match":{"key":1}}`, 400, "match.key", nil},
		{"POST", "/v1/injections", `{"matches":{}}`, 400, "matches", nil},
		{"POST", "/v1/injections", `{`, 400, "body", nil},
		{"POST", "/v1/injections", `{} {}`, 400, "body", nil},
		{
			"POST", "/v1/injections",
			`{"match":{"key":"` + strings.Repeat("k", control.MaxBody) + `"}}`, 413, "body", float64(control.MaxBody),
		},
		{"GET", "/v1/injections/i1", nil, 404, "id", nil},
		{"GET", "/v1/logs/frames?kee=k", nil, 400, "kee", nil},
		{"GET", "/v1/logs/frames?newest=x", nil, 400, "newest", nil},
		{"GET", "/v1/logs/http?service=kv", nil, 400, "service", nil},
		{"GET", "/v1/logs/applied?bucket=no", nil, 404, "bucket", nil},
		{"POST", "/v1/scripts", body{"match": body{"pattern": "("}, "answers": []body{{}}}, 400, "match.pattern", nil},
		{"POST", "/v1/scripts", body{"answers": []body{}}, 400, "answers", nil},
		{"POST", "/v1/scripts", body{"answers": []body{{"status": 99}}}, 400, "answers[0].status", nil},
		{"POST", "/v1/expectations", body{"match": body{}, "min": 2, "max": 1}, 400, "max", nil},
		{"PUT", "/v1/certificates", body{"kind": "blue"}, 400, "kind", nil},
		{"PUT", "/v1/features/refused", body{"names": []string{"snappi"}}, 400, "names[0]", nil},
		{"PUT", "/v1/connection-faults", body{"slice": -1}, 400, "slice", 600000.0},
		{"POST", "/v1/clock", body{"advance_ms": 9e18}, 400, "advance_ms", nil},
		{"POST", "/v1/buckets", body{"name": "x", "type": "y"}, 400, "type", nil},
		{"GET", "/v1/nothing", nil, 404, "path", nil},
		{"GET", "/v1/reset", nil, 405, "GET", nil},
	} {
		e := c.fails(row.status, row.method, row.path, row.body)
		require.Equal(t, row.field, e["field"], "%s %v: %v", row.path, row.body, e)
		if row.limit != nil {
			require.Equal(t, row.limit, e["limit"], "%v", e)
		}
	}
}

// Random requests are answered, with JSON, and nothing of the mock breaks.
func TestRandomRequests(t *testing.T) {
	c := start(t, mock.Nodes(2), mock.VBuckets(4))
	doc := c.ok("GET", "/openapi.json", nil)
	random := rand.New(rand.NewPCG(1, 2))
	var paths [][2]string
	for path, methods := range doc["paths"].(map[string]any) {
		for method := range methods.(map[string]any) {
			paths = append(paths, [2]string{strings.ToUpper(method), path})
		}
	}
	slices.SortFunc(paths, func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	names := []string{
		"match", "fault", "faults", "answers", "name", "buckets", "documents", "key", "nodes", "do", "collection",
		"path", "statements", "code", "config", "names", "scope", "advance_ms", "rows", "json_patch", "op",
		"rewrite_answer",
	}
	values := []any{
		nil, true, 0, -1, 1e300, "", "default", "GET", "\x00", []any{}, body{}, []any{"a", 1}, []any{body{}},
	}
	var object func(depth int) body
	object = func(depth int) body {
		out := body{}
		for range random.IntN(4) {
			v := values[random.IntN(len(values))]
			if depth > 0 && random.IntN(2) == 0 {
				v = object(depth - 1)
			}
			out[names[random.IntN(len(names))]] = v
		}
		return out
	}
	ids := []string{"0", "1", "-1", "default", "i1", "%00", "x"}
	for range 1000 {
		p := paths[random.IntN(len(paths))]
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(p[1], func(string) string {
			return ids[random.IntN(len(ids))]
		})
		if regexp.MustCompile("/(remove|failover|kill)$").MatchString(path) {
			continue // the cluster is to stay
		}
		status, _ := c.do(p[0], path, object(3))
		require.Less(t, status, 500, "%v", path)
	}
	c.ok("POST", "/v1/reset", nil)
	c.ok("GET", "/v1/cluster", nil)
}

// Pages of foreign sites, and names that point to this host, are refused.
func TestForeignPagesAreRefused(t *testing.T) {
	c := start(t)
	for name, set := range map[string]func(*http.Request){
		"origin": func(r *http.Request) { r.Header.Set("Origin", "http://elsewhere.example") },
		"site":   func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") },
		"host":   func(r *http.Request) { r.Host = "rebound.example" },
	} {
		rq, err := http.NewRequestWithContext(t.Context(), "POST", c.url+"/v1/reset", nil)
		require.NoError(t, err)
		set(rq)
		answer, err := c.http.Do(rq)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, 403, answer.StatusCode, name)
	}
	_, err := control.Listen(c.mock, "0.0.0.0:0", control.Options{})
	require.ErrorContains(t, err, "loopback")
}

func TestTheDescriptionIsServed(t *testing.T) {
	c := start(t)
	doc := c.ok("GET", "/openapi.json", nil)
	require.Contains(t, doc["paths"], "/v1/injections/{id}")
	require.Contains(t, c.ok("GET", "/", nil)["openapi"], "/openapi.json")
}

// notOverHTTP are the methods of a cluster that the API does not need.
var notOverHTTP = map[string]string{
	"Close": "the end of the process", "Done": "the same", "Dial": "clients have dialers", "Network": "the same",
	"Handle": "a handler in Go", "Watch": "a function in Go", "Expect": "a test in Go", "TLSConfig": "a value in Go",
	"RebalanceSlowly": "a request would take as long",
	"Load":            "/v1/fixtures", "Frames": "/v1/counts", "FrameLog": "/v1/logs/frames", "KeyCounts": "/v1/counts",
	"LimitFrameLog": "the command sets it", "DisconnectAll": "one node after the other", "SetPassword": "PUT of a user",
	"Node": "/v1/cluster", "Nodes": "/v1/cluster", "ConfigJSON": "the nodes' own HTTP", "Prepared": "system:prepareds",
	"Scans": "STAT", "ScriptQuery": "/v1/scripts", "ScriptAnalytics": "/v1/scripts", "ScriptSearch": "/v1/scripts",
	"ScriptView": "/v1/scripts",
}

// TestEveryMethodOfTheClusterHasARoute keeps the API as wide as the mock.
func TestEveryMethodOfTheClusterHasARoute(t *testing.T) {
	source := sourceOf(t)
	for i := range reflect.TypeFor[*mock.Cluster]().NumMethod() {
		name := reflect.TypeFor[*mock.Cluster]().Method(i).Name
		if notOverHTTP[name] == "" {
			require.True(t, regexp.MustCompile(`(\.|\))`+name+`\b`).MatchString(source), "no route uses Cluster.%s", name)
		}
	}
}

// sourceOf is the text of the package.
func sourceOf(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	var all strings.Builder
	for _, f := range files {
		if !strings.HasSuffix(f, "_test.go") {
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			all.Write(text)
		}
	}
	return all.String()
}
