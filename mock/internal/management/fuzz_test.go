package management

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// FuzzServe: each row of the table with any path, query and body is answered, and not as a failure of the server.
func FuzzServe(f *testing.F) {
	rows := table()
	for i := range rows {
		f.Add(uint16(i), "b", "uuid=1", "name=x&ramQuotaMB=-1", false)
		f.Add(uint16(i), "", "limit=[", `{"scopes":[{"name":"s","collections":[{}]}]}`, true)
	}
	f.Fuzz(func(t *testing.T, number uint16, value, query, body string, isJSON bool) {
		row := rows[int(number)%len(rows)]
		if strings.Contains(row.path, "treaming") || strings.Contains(row.path, "/bs/") {
			return // they end with their client
		}
		path := row.path
		for strings.Contains(path, "{") {
			before, tail, _ := strings.Cut(path, "{")
			_, after, _ := strings.Cut(tail, "}")
			path = before + url.PathEscape(value) + after
		}
		u, err := url.Parse("http://h" + path)
		require.NoError(t, err)
		u.RawQuery = query
		r := httptest.NewRequestWithContext(t.Context(), row.method, "http://h/", strings.NewReader(body))
		r.URL = u
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if isJSON {
			r.Header.Set("Content-Type", "application/json")
		}
		w := httptest.NewRecorder()
		NewState(&fakeHost{}).Serve(w, r, 0, &Caller{Name: "a", Domain: builtIn, Rights: Rights{Admin: true}})
		if w.Code >= 500 {
			require.Contains(t, []int{http.StatusServiceUnavailable, http.StatusGatewayTimeout}, w.Code,
				"%s %s: %q", row.method, u, body)
		}
	})
}
