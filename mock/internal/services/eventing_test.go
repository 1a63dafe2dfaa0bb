package services_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

// withKeyspaces is a bucket with a source and metadata.
var withKeyspaces = mock.Bucket("default", 4, mock.WithCollection("s", "source"), mock.WithCollection("s", "meta"))

// eventingCluster has a source, metadata and an engine for JavaScript.
func eventingCluster(t testing.TB, opts ...mock.Option) *asker {
	t.Helper()
	opts = append(opts, mock.Views(viewjs.New(viewjs.Options{})), withKeyspaces,
		mock.User("Administrator", "password"), mock.User("app", "pw", "default"))
	return newAsker(t, mock.Start(t, opts...))
}

// eventingCode is the code of a function that compiles.
const eventingCode = `function OnUpdate(doc, meta) { log(doc); }`

// aFunction is a function as a client stores it, with changed members.
func aFunction(changes map[string]any) string {
	f := map[string]any{
		"appname": "f", "appcode": eventingCode,
		"settings": map[string]any{"deployment_status": false, "processing_status": false},
		"depcfg": map[string]any{
			"source_bucket": "default", "source_scope": "s", "source_collection": "source",
			"metadata_bucket": "default", "metadata_scope": "s", "metadata_collection": "meta",
		},
	}
	for where, v := range changes {
		at := f
		if outer, inner, ok := strings.Cut(where, "."); ok {
			at, where = f[outer].(map[string]any), inner
		}
		at[where] = v
	}
	b, err := json.Marshal(f)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// eventing sends a request to the eventing service, and takes its JSON apart.
func (a *asker) eventing(method, path, body string) (status int, answer map[string]any) {
	a.t.Helper()
	got := a.do(mock.EventingService, method, "/api/v1"+path, body)
	if json.Unmarshal(got.body, &answer) != nil {
		return got.status, nil
	}
	if name, failed := answer["name"]; failed {
		require.Equal(a.t, fmt.Sprint(answer["code"]), got.header.Get("Status"), name)
	}
	return got.status, answer
}

// done sends a request that changes something.
func (a *asker) done(method, path, body string) {
	a.t.Helper()
	status, answer := a.eventing(method, path, body)
	require.Equal(a.t, 200, status, "%s %s: %v", method, path, answer)
	require.EqualValues(a.t, 0, answer["code"])
}

// fails sends a request that is refused with a status, a name and a code.
func (a *asker) fails(method, path, body string, status int, name string, code int) map[string]any {
	a.t.Helper()
	got, answer := a.eventing(method, path, body)
	require.Equal(a.t, []any{status, name, float64(code)}, []any{got, answer["name"], answer["code"]},
		"%s %s %.200s: %v", method, path, body, answer)
	return answer
}

// composite is the state that a status shows.
func (a *asker) composite(path string) string {
	a.t.Helper()
	status, answer := a.eventing("GET", "/status"+path, "")
	require.Equal(a.t, 200, status)
	return answer["app"].(map[string]any)["composite_status"].(string)
}

// TestStatesOfAFunction: each change of the state shows a transition once, and what a state does not allow is refused
// as servers before 8.0 do.
func TestStatesOfAFunction(t *testing.T) {
	a := eventingCluster(t, mock.Nodes(3), mock.NodeServices(2, mock.KVService), mock.Version("7.6.4"))
	a.done("POST", "/functions/f", aFunction(nil))
	require.Equal(t, "undeployed", a.composite("/f"))
	a.fails("POST", "/functions/f/undeploy", "", 406, "ERR_APP_NOT_DEPLOYED", 12)
	a.fails("POST", "/functions/f/resume", "", 406, "ERR_APP_NOT_DEPLOYED", 12)
	a.fails("POST", "/functions/f/pause", "", 423, "ERR_APP_NOT_BOOTSTRAPPED", 21)

	a.done("POST", "/functions/f/deploy", "")
	a.fails("POST", "/functions/f/pause", "", 423, "ERR_APP_NOT_BOOTSTRAPPED", 21)
	_, answer := a.eventing("GET", "/status", "")
	require.Equal(t, map[string]any{"num_eventing_nodes": 2.0, "apps": []any{map[string]any{
		"composite_status": "deploying", "name": "f", "function_scope": map[string]any{"bucket": "*", "scope": "*"},
		"num_bootstrapping_nodes": 2.0, "num_deployed_nodes": 0.0, "redeploy_required": false,
		"deployment_status": true, "processing_status": true,
	}}}, answer)
	require.Equal(t, "deployed", a.composite("/f"))
	a.fails("POST", "/functions/f/deploy", "", 422, "ERR_APP_ALREADY_DEPLOYED", 20)
	a.fails("POST", "/functions/f/resume", "", 422, "ERR_APP_ALREADY_DEPLOYED", 20)
	a.fails("POST", "/functions/f", aFunction(nil), 422, "ERR_APP_ALREADY_DEPLOYED", 20)
	a.fails("DELETE", "/functions/f", "", 422, "ERR_APP_NOT_UNDEPLOYED", 22)
	state := `"deployment_status":true,"processing_status":true`
	a.done("POST", "/functions/f/settings", `{`+state+`,"log_level":"DEBUG"}`)
	a.fails("POST", "/functions/f/settings", `{`+state+`,"worker_count":9}`, 400, "ERR_INVALID_CONFIG", 38)

	a.done("POST", "/functions/f/pause", "")
	require.Equal(t, []string{"pausing", "paused"}, []string{a.composite("/f"), a.composite("/f")})
	a.fails("POST", "/functions/f/pause", "", 422, "ERR_APP_PAUSED", 64)
	a.fails("POST", "/functions/f/deploy", "", 422, "ERR_APP_PAUSED", 64)
	a.fails("POST", "/functions/f", aFunction(map[string]any{
		"depcfg.source_collection": "meta", "depcfg.metadata_collection": "source",
	}), 400, "ERR_INVALID_CONFIG", 38)
	a.done("POST", "/functions/f/resume", "")
	require.Equal(t, []string{"deploying", "deployed"}, []string{a.composite("/f"), a.composite("/f")})
	a.done("POST", "/functions/f/undeploy", "")
	require.Equal(t, []string{"undeploying", "undeployed"}, []string{a.composite("/f"), a.composite("/f")})
	a.done("DELETE", "/functions/f", "")
	for _, line := range []string{
		"GET /functions/f", "DELETE /functions/f", "POST /functions/f/deploy", "POST /functions/f/undeploy",
		"POST /functions/f/pause", "POST /functions/f/resume", "GET /functions/f/settings",
		"POST /functions/f/settings", "GET /functions/f/config", "POST /functions/f/config", "GET /status/f",
	} {
		method, path, _ := strings.Cut(line, " ")
		a.fails(method, path, "{}", 404, "ERR_APP_NOT_FOUND_TS", 13)
	}
}

// TestStatesOf80: 8.0 takes a change to the state that there is, deploys with resume, and finds out late that a
// keyspace is missing.
func TestStatesOf80(t *testing.T) {
	a := eventingCluster(t, mock.Version("8.0.0"))
	a.fails("POST", "/functions/f", aFunction(map[string]any{"depcfg.metadata_collection": "source"}), 400,
		"ERR_INVALID_REQUEST", 63)
	a.done("POST", "/functions/f", aFunction(map[string]any{"depcfg.metadata_collection": "gone"}))
	a.fails("POST", "/functions/f/deploy", "", 400, "ERR_COLLECTION_MISSING", 56)
	a.done("POST", "/functions/f", aFunction(map[string]any{"depcfg.metadata_bucket": "gone"}))
	a.fails("POST", "/functions/f/deploy", "", 400, "ERR_BUCKET_MISSING", 41)
	a.done("POST", "/functions/f", aFunction(nil))
	a.done("POST", "/functions/f/undeploy", "")
	a.fails("POST", "/functions/f/pause", "", 400, "ERR_INVALID_REQUEST", 63)
	a.done("POST", "/functions/f/settings", `{"worker_count":9}`)
	a.done("POST", "/functions/f/resume", "")
	a.fails("POST", "/functions/f/pause", "", 400, "ERR_INVALID_REQUEST", 63)
	require.Equal(t, []string{"deploying", "deployed"}, []string{a.composite("/f"), a.composite("/f")})
	a.done("POST", "/functions/f/deploy", "")
	a.fails("POST", "/functions/f", aFunction(nil), 400, "ERR_INVALID_REQUEST", 63)
	a.done("POST", "/functions/f/undeploy", "")
	a.fails("DELETE", "/functions/f", "", 422, "ERR_APP_NOT_UNDEPLOYED", 22)
	require.Equal(t, "undeploying", a.composite("/f"))
	a.done("DELETE", "/functions/f", "")
}

// TestATransitionEnds: without a status that shows it, a transition is over after a while.
func TestATransitionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := eventingCluster(t, mock.Virtual())
		a.done("POST", "/functions/f", aFunction(map[string]any{
			"settings.deployment_status": true, "settings.processing_status": true,
		}))
		time.Sleep(time.Second)
		require.Equal(t, "deployed", a.composite("/f"))
	})
}

// TestDefinitionsThatAreRefused: each with the name, the code and the status of servers.
func TestDefinitionsThatAreRefused(t *testing.T) {
	a := eventingCluster(t, mock.Version("7.6.4"))
	type change = map[string]any
	binding := func(alias, collection, access string) []change {
		return []change{{
			"alias": alias, "bucket_name": "default", "scope_name": "s", "collection_name": collection,
			"access": access,
		}}
	}
	twice := append(binding("a", "meta", "r"), binding("a", "meta", "r")...)
	address := func(hostname, auth string) []change {
		return []change{{"value": "u", "hostname": hostname, "auth_type": auth}}
	}
	for _, row := range []struct {
		changes change
		status  int
		name    string
		code    int
	}{
		{change{"appcode": "feefifofum"}, 422, "ERR_HANDLER_COMPILATION", 27},
		{change{"appcode": "function OnUpdate( {"}, 422, "ERR_HANDLER_COMPILATION", 27},
		{change{"appcode": "function other() {}"}, 422, "ERR_HANDLER_COMPILATION", 27},
		{change{"appcode": eventingCode + eventingCode}, 422, "ERR_HANDLER_COMPILATION", 27},
		{change{"appcode": "function OnUpdate() {" + strings.Repeat("(", 100_000)}, 422, "ERR_HANDLER_COMPILATION", 27},
		{change{"appcode": ""}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"appcode": eventingCode + strings.Repeat(" ", 128<<10)}, 400, "ERR_APPCODE_SIZE", 39},
		{change{"depcfg.metadata_collection": "source"}, 422, "ERR_SRC_MB_SAME", 17},
		{change{"depcfg.source_bucket": "gone"}, 400, "ERR_BUCKET_MISSING", 41},
		{change{"depcfg.metadata_bucket": "gone"}, 400, "ERR_BUCKET_MISSING", 41},
		{change{"depcfg.source_scope": "gone"}, 400, "ERR_COLLECTION_MISSING", 57},
		{change{"depcfg.metadata_collection": "gone"}, 400, "ERR_COLLECTION_MISSING", 57},
		{change{"depcfg.source_scope": "*"}, 400, "ERR_INVALID_REQUEST", 63},
		{change{"depcfg.metadata_collection": "*"}, 400, "ERR_INVALID_REQUEST", 63},
		{change{"depcfg.source_scope": "_system"}, 400, "ERR_INVALID_REQUEST", 63},
		{change{"depcfg.source_bucket": ""}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.metadata_bucket": ""}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"appname": "other"}, 422, "ERR_APPNAME_MISMATCH", 29},
		{change{"function_scope": change{"bucket": "default", "scope": "gone"}}, 400, "ERR_BUCKET_MISSING", 41},
		{change{"settings": change{}}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings": nil}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.deployment_status": "yes"}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.worker_count": 0}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.worker_count": 1.5}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.lcb_retry_count": -1}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.timer_context_size": 19}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.log_level": "LOUD"}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.log_level": []int{1}}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.user_prefix": strings.Repeat("x", 17)}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"settings.handler_headers": []any{1}}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.buckets": binding("a", "gone", "r")}, 400, "ERR_COLLECTION_MISSING", 57},
		{change{"depcfg.buckets": binding("a", "meta", "w")}, 400, "ERR_BUCKET_ACCESS", 49},
		{change{"depcfg.buckets": binding("1a", "meta", "r")}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.buckets": binding("Select", "meta", "r")}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.buckets": twice}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.curl": address("ftp://x", "no-auth")}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.curl": address("http://x", "none")}, 400, "ERR_INVALID_CONFIG", 38},
		{change{"depcfg.constants": []change{{"value": "c"}}}, 400, "ERR_INVALID_CONFIG", 38},
	} {
		answer := a.fails("POST", "/functions/f", aFunction(row.changes), row.status, row.name, row.code)
		if row.code == 27 {
			require.Equal(t, false, answer["description"].(map[string]any)["compile_success"])
		}
	}
	long := strings.Repeat("x", 101)
	a.fails("POST", "/functions/"+long, aFunction(change{"appname": long}), 400, "ERR_INVALID_CONFIG", 38)
	a.fails("POST", "/functions/-f", aFunction(change{"appname": "-f"}), 400, "ERR_INVALID_CONFIG", 38)
	for _, body := range []string{
		"", "{", "null", "[]", "[null]", "1", `"x"`, `{"settings":1}`, "{},{}", "\xff", `{"appname":{}}`,
	} {
		a.fails("POST", "/functions/f", body, 400, "ERR_UNMARSHAL_PLD", 16)
	}
	a.done("POST", "/functions/f", "["+aFunction(nil)+"]")
	for _, body := range []string{"", "{", "null", "[]", "1"} {
		a.fails("POST", "/functions/f/settings", body, 400, "ERR_UNMARSHAL_PLD", 16)
	}
	for _, body := range []string{"{", "null", "[]", "1"} {
		a.fails("POST", "/functions/f/deploy", body, 500, "ERR_MARSHAL_RESP", 14)
	}
	a.fails("POST", "/functions/f/undeploy", "{", 406, "ERR_APP_NOT_DEPLOYED", 12) // its body is not read
	a.fails("POST", "/functions/f/config", "[", 400, "ERR_UNMARSHAL_PLD", 16)
	a.fails("POST", "/functions/f/settings", `{"worker_count":1}`, 400, "ERR_INVALID_CONFIG", 38)
	state := `{"deployment_status":false,"processing_status":`
	a.fails("POST", "/functions/f/settings", state+`true}`, 400, "ERR_INVALID_CONFIG", 38)
	a.fails("POST", "/functions/f/settings", state+`false,"x":"`+strings.Repeat("x", 128<<10)+`"}`, 400,
		"ERR_APPCODE_SIZE", 39)
	for _, line := range []string{
		"PUT /functions/f", "POST /functions", "GET /functions/f/deploy", "POST /status", "DELETE /config",
	} {
		method, path, _ := strings.Cut(line, " ")
		a.fails(method, path, "", 405, "ERR_METHOD_NOT_ALLOWED", 62)
	}
	status, _ := a.eventing("GET", "/nothing", "")
	require.Equal(t, http.StatusNotFound, status)
	status, _ = a.eventing("GET", "/config", "")
	require.Equal(t, http.StatusOK, status)
}

// TestWhatAFunctionShows: what was stored comes back, with defaults, and without passwords, which a change keeps.
func TestWhatAFunctionShows(t *testing.T) {
	a := eventingCluster(t, mock.Version("7.6.4"))
	url := map[string]any{
		"value": "u", "hostname": "http://x", "auth_type": "basic", "username": "n", "password": "secret",
	}
	a.done("POST", "/functions/f", aFunction(map[string]any{
		"depcfg.curl": []any{url}, "depcfg.buckets": []any{
			map[string]any{"alias": "b", "bucket_name": "default", "scope_name": "s", "collection_name": "source"},
		},
		"settings.dcp_stream_boundary": "from_prior",
	}))
	_, f := a.eventing("GET", "/functions/f", "")
	require.Equal(t, eventingCode, f["appcode"])
	require.NotZero(t, f["handleruuid"])
	require.Equal(t, map[string]any{
		"deployment_status": false, "processing_status": false, "dcp_stream_boundary": "everything",
		"language_compatibility": "7.2.0",
	}, f["settings"])
	bindings := f["depcfg"].(map[string]any)
	require.Equal(t, "*****", bindings["curl"].([]any)[0].(map[string]any)["password"])
	require.Equal(t, "r", bindings["buckets"].([]any)[0].(map[string]any)["access"])
	got := a.do(mock.EventingService, "GET", "/api/v1/functions", "")
	require.NotContains(t, string(got.body), "secret")
	again, err := json.Marshal(bindings)
	require.NoError(t, err)
	a.done("POST", "/functions/f/config", string(again))
	_, other := a.eventing("GET", "/functions/f/", "")
	require.Equal(t, f["handleruuid"], other["handleruuid"])
	_, settings := a.eventing("GET", "/functions/f/settings", "")
	require.Equal(t, f["settings"], settings)
	_, config := a.eventing("GET", "/functions/f/config", "")
	require.Equal(t, f["depcfg"], config)
	a.fails("DELETE", "/functions/f?handleruuid=1", "", 400, "ERR_INVALID_REQUEST", 63)
	a.done("DELETE", fmt.Sprintf("/functions/f?handleruuid=%.0f", f["handleruuid"]), "")
}

// TestFunctionsOfAScope: a function of a scope and one of the cluster may have one name; a user of the bucket manages
// only the first; without the scope it is gone; and without its source a function is undeployed.
func TestFunctionsOfAScope(t *testing.T) {
	a := eventingCluster(t, mock.Version("7.6.4"))
	scoped := aFunction(map[string]any{"function_scope": map[string]any{"bucket": "default", "scope": "s"}})
	const query = "?bucket=default&scope=s"
	a.fails("POST", "/functions/f"+query, aFunction(nil), 400, "ERR_INVALID_REQUEST", 63)
	a.fails("POST", "/functions/f?bucket=default", scoped, 400, "ERR_INVALID_REQUEST", 63)
	a.done("POST", "/functions/f"+query, scoped)
	a.fails("GET", "/functions/f", "", 404, "ERR_APP_NOT_FOUND_TS", 13)
	a.done("POST", "/functions/f", aFunction(nil))
	a.done("POST", "/functions/f/deploy"+query, "")
	require.Equal(t, []string{"deploying", "undeployed"}, []string{a.composite("/f" + query), a.composite("/f")})
	snapshot := a.c.Snapshot()

	a.user, a.password = "app", "pw"
	a.fails("GET", "/functions/f", "", 403, "ERR_FORBIDDEN", 60)
	a.fails("POST", "/functions/g", aFunction(map[string]any{"appname": "g"}), 403, "ERR_FORBIDDEN", 60)
	_, f := a.eventing("GET", "/functions/f"+query, "")
	require.Equal(t, map[string]any{"bucket": "default", "scope": "s"}, f["function_scope"])
	_, answer := a.eventing("GET", "/status", "")
	require.Len(t, answer["apps"], 1)
	a.password = "wrong"
	a.fails("GET", "/functions", "", 401, "ERR_UNAUTHENTICATED", 61)
	a.user, a.password = "Administrator", "password"

	a.done("POST", "/functions/f/deploy", "")
	require.NoError(t, a.c.DropScope("default", "s"))
	a.fails("GET", "/functions/f"+query, "", 404, "ERR_APP_NOT_FOUND_TS", 13)
	require.Equal(t, "undeploying", a.composite("/f"))
	a.fails("POST", "/functions/f/deploy", "", 400, "ERR_COLLECTION_MISSING", 57)
	require.NoError(t, a.c.Restore(snapshot))
	require.Equal(t, []string{"deployed", "undeployed"}, []string{a.composite("/f" + query), a.composite("/f")})
}

// TestWithoutAnEngineAllCodeCompiles, and scripts answer before the service.
func TestWithoutAnEngineAllCodeCompiles(t *testing.T) {
	a := newAsker(t, mock.Start(t, withKeyspaces))
	a.done("POST", "/functions/f", aFunction(map[string]any{"appcode": "feefifofum"}))
	script := a.c.Script(mock.ServiceMatch{Service: mock.EventingService, Path: "/status"}, mock.Answer{
		Status: 406,
		Errors: []mock.ServiceError{{Code: 36, Reason: "ERR_REBALANCE_OR_FAILOVER_ONGOING", Message: "later"}},
	})
	got := a.do(mock.EventingService, "GET", "/api/v1/status", "")
	require.Equal(t, 406, got.status)
	require.JSONEq(t, `{"name":"ERR_REBALANCE_OR_FAILOVER_ONGOING","code":36,"description":"later"}`, string(got.body))
	script.Remove()
	require.Equal(t, "undeployed", a.composite("/f"))
	require.Len(t, a.c.ServiceLog(mock.EventingService), 3)
}

// heldEngine compiles the code of functions when the test lets it.
type heldEngine struct {
	*viewjs.Engine
	compiling, release chan struct{}
}

func (e *heldEngine) CheckHandler(code string) (line, column int, err error) {
	e.compiling <- struct{}{}
	<-e.release
	return e.Engine.CheckHandler(code)
}

// TestTheServiceAnswersWhileCodeCompiles: its mutex is free then. Only code that is stored anew is compiled.
func TestTheServiceAnswersWhileCodeCompiles(t *testing.T) {
	e := &heldEngine{viewjs.New(viewjs.Options{}), make(chan struct{}, 1), make(chan struct{})}
	release := sync.OnceFunc(func() { close(e.release) })
	a := newAsker(t, mock.Start(t, mock.Views(e), withKeyspaces))
	defer release() // before the cluster waits for the request
	stored := make(chan answered, 1)
	go func() { // ends with the request, at the latest when the cluster is closed
		got, _ := a.try(0, mock.EventingService, "POST", "/api/v1/functions/f", aFunction(nil), nil)
		stored <- got
	}()
	<-e.compiling
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := a.try(0, mock.EventingService, "GET", "/api/v1/status", "", func(r *http.Request) {
		*r = *r.WithContext(ctx)
	})
	require.NoError(t, err)
	require.Equal(t, 200, got.status)
	require.Empty(t, stored)
	release()
	require.Equal(t, 200, (<-stored).status)
	a.done("POST", "/functions/f/config", `{"source_bucket":"default","source_scope":"s","source_collection":"source",`+
		`"metadata_bucket":"default","metadata_scope":"s","metadata_collection":"meta"}`)
	require.Empty(t, e.compiling)
	a.done("POST", "/functions/f", aFunction(nil))
	require.Len(t, e.compiling, 1)
}
