package control_test

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

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/control"
)

// FuzzAPI (F14): each path of the API's description with any body, query and values in the path is answered with JSON,
// and never as a failure of the server.
func FuzzAPI(f *testing.F) {
	var described struct {
		Paths map[string]map[string]any `json:"paths"`
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/openapi.json", nil)
	m, err := mock.New(mock.Virtual())
	require.NoError(f, err)
	control.New(m, control.Options{}).ServeHTTP(w, r)
	require.NoError(f, m.Close())
	require.NoError(f, json.Unmarshal(w.Body.Bytes(), &described))
	require.NotEmpty(f, described.Paths)
	for path, methods := range described.Paths {
		for method := range methods {
			f.Add(strings.ToUpper(method), strings.ReplaceAll(path, "{bucket}", "default"), "0", `{}`)
			f.Add(strings.ToUpper(method), path, "default", `{"name":"b","key":"k","nodes":[0,-1],"times":1,"faults":[{"kind":"drop"}]}`)
		}
	}
	f.Add("POST", "/v1/injections", "0", `{"match":{"opcodes":["GET"]},"faults":[{"kind":"status","status":"0x86"}]}`)
	f.Add("POST", "/v1/scripts", "0", `{"match":{"service":"query"},"answers":[{"rows":[1],"errors":[{"code":1}]}]}`)
	f.Fuzz(func(t *testing.T, method, path, value, body string) {
		switch method {
		case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete:
		default:
			method = http.MethodPost
		}
		m, err := mock.New(mock.Virtual(), mock.Nodes(2), mock.VBuckets(4), mock.TLS())
		require.NoError(t, err)
		defer func() { require.NoError(t, m.Close()) }()
		for strings.Contains(path, "{") {
			before, tail, _ := strings.Cut(path, "{")
			_, after, _ := strings.Cut(tail, "}")
			path = before + url.PathEscape(value) + after
		}
		u, err := url.Parse("http://127.0.0.1/" + strings.TrimPrefix(path, "/"))
		if err != nil || strings.Contains(u.RawQuery, "wait") {
			return
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second) // for what waits
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1/", strings.NewReader(body))
		u.Scheme, u.Host = "", ""
		r.URL = u
		w := httptest.NewRecorder()
		control.New(m, control.Options{}).ServeHTTP(w, r)
		if w.Code >= 300 && w.Code < 400 {
			return // to the path without its dots
		}
		require.Less(t, w.Code, 500, "%s %s %s: %s", method, u, body, w.Body)
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") {
			require.True(t, json.Valid(w.Body.Bytes()), "%s %s: %s", method, u, w.Body)
		}
	})
}
