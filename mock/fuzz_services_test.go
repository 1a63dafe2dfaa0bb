package mock

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aFunction is a function of the eventing service with everything that one may have, and its settings.
const aFunction = `{"appname":"f","appcode":"function OnUpdate(d,m){}","settings":{"deployment_status":true,
	"processing_status":true,"worker_count":1,"handler_headers":["x"],"user_prefix":"p"},"deployment_status":true,
	"processing_status":true,"function_scope":{"bucket":"default","scope":"_default"},"depcfg":{
	"source_bucket":"default","metadata_bucket":"default","metadata_scope":"s","metadata_collection":"meta","curl":[{"value":"u",
	"hostname":"http://x","auth_type":"basic","password":"*****"}],"buckets":[{"alias":"b","bucket_name":"default"}],
	"constants":[{"value":"c","literal":"1"}]}}`

// FuzzServices: any request to any service of a node with one document is answered.
func FuzzServices(f *testing.F) {
	for _, path := range []string{
		"/query/service", "/analytics/service", "/api/index/i/query", "/default/_design/d/_view/v?key=[1]",
		"/api/bucket/default/scope/_default/index/i/query", "/admin/prepareds", "/pools/default/buckets", "/_p/query/",
	} {
		for s := range uint8(serviceCount) {
			f.Add(s, "POST", path, `{"statement":"SELECT * FROM default WHERE n = $1","args":[1],"query":{"match":"a"}}`, true)
		}
	}
	f.Add(uint8(3), "POST", "/query/service", "statement=SELECT%201&timeout=1ms", false)
	for _, path := range []string{"", "/settings", "/config", "/deploy?bucket=default&scope=_default", "/pause"} {
		f.Add(uint8(EventingService), "POST", "/api/v1/functions/f"+path, aFunction, true)
	}
	f.Add(uint8(EventingService), "DELETE", "/api/v1/functions/f?handleruuid=1", "", true)
	f.Add(uint8(EventingService), "GET", "/api/v1/status/f", "", true)
	f.Add(uint8(2), "PUT", "/default/_design/d", `{"views":{"v":{"map":"function(d,m){emit(1)}","reduce":"_sum"}}}`, true)
	f.Fuzz(func(t *testing.T, service uint8, method, path, body string, isJSON bool) {
		c, err := New(Virtual(), Bucket("default", 2, WithCollection("s", "meta")),
			Documents("default", map[string]any{"k": map[string]any{"n": 1}}))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		require.NoError(t, c.PutSearchIndex("i", `{"sourceName":"default"}`))
		if Service(service%uint8(serviceCount)) == EventingService {
			r := httptest.NewRequestWithContext(t.Context(), "POST", "http://10.0.0.1/api/v1/functions/f",
				strings.NewReader(aFunction))
			r.SetBasicAuth(DefaultUser, DefaultPassword)
			w := httptest.NewRecorder()
			c.Node(0).serveService(EventingService, w, r)
			require.Equal(t, http.StatusOK, w.Code, w.Body)
		}
		switch method {
		case http.MethodGet, http.MethodPut, http.MethodDelete, http.MethodPatch:
		default:
			method = http.MethodPost
		}
		u, err := url.Parse("http://10.0.0.1/" + strings.TrimPrefix(path, "/"))
		if err != nil || strings.Contains(strings.ToLower(u.Path), "streaming") || strings.Contains(u.Path, "/bs/") {
			return // what streams ends with its client
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "http://10.0.0.1/", strings.NewReader(body))
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = u.Path, u.RawPath, u.RawQuery
		r.SetBasicAuth(DefaultUser, DefaultPassword)
		if isJSON {
			r.Header.Set("Content-Type", "application/json")
		} else {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
		w := httptest.NewRecorder()
		defer func() {
			if v := recover(); v != nil && v != http.ErrAbortHandler {
				panic(v)
			}
		}()
		c.Node(0).serveService(Service(service%uint8(serviceCount)), w, r)
		if w.Code == http.StatusOK && w.Header().Get("Content-Type") == "application/json" && w.Body.Len() > 0 &&
			method == http.MethodPost {
			require.True(t, json.Valid(w.Body.Bytes()), "%s %s %q: %s", method, u, body, w.Body)
		}
	})
}

// FuzzFixtures: fixtures are refused, or loaded, or fail to be loaded with an error; they come back as they were read.
func FuzzFixtures(f *testing.F) {
	f.Add([]byte(`{"buckets":{"b":{"documents":{"k":{"a":1}},"collections":{"s.c":{"documents":{"x":"y"}}}}}}`))
	f.Add([]byte(`{"users":{"u":{"password":"p"}},"buckets":{"":{"type":"memcached"}}}`))
	f.Add([]byte(`{} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		fix, err := ParseFixtures(text)
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		c, err := New(Virtual(), VBuckets(2))
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
		_ = c.Load(fix)
		again, err := json.Marshal(fix)
		require.NoError(t, err)
		_, err = ParseFixtures(again)
		require.NoError(t, err, "%s", again)
	})
}
