package management

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every row of the table has what a row needs, and is found by its own path, with and without a slash at its end.
func TestTheTableOfPathsIsWhole(t *testing.T) {
	permission := regexp.MustCompile(`^(login|everybody|cluster(\.[a-z_0-9]+(\[[^\]]+\])?)+![a-z]+)$`)
	placeholder := regexp.MustCompile(`\{[a-z.]+\}`)
	rows := table()
	router := newRouter(rows)
	seen := map[string]bool{}
	for _, r := range rows {
		name := r.method + " " + r.path
		require.False(t, seen[name], "%s is there twice", name)
		seen[name] = true
		require.NotNil(t, r.do, name)
		require.Regexp(t, permission, r.need, name)
		for _, p := range placeholder.FindAllString(r.need, -1) {
			require.Contains(t, r.path, p, "%s needs a placeholder that it has not", name)
		}
		filled := placeholder.ReplaceAllString(r.path, "x")
		for _, slash := range []string{"", "/", "//"} {
			u, err := url.Parse("http://h" + filled + slash)
			require.NoError(t, err)
			values := map[string]string{}
			found := router.find(r.method, split(u), values)
			require.NotNil(t, found, name)
			require.Equal(t, r.path, found.path, name)
			require.Len(t, values, strings.Count(r.path, "{"), name)
		}
	}
	for _, p := range pages {
		require.True(t, seen["GET "+p.path], p.path)
		for _, name := range p.required {
			require.NotNil(t, p.check(name), "%s wants %s, which nothing reads", p.path, name)
		}
	}
}

// A name in a path may have any character, as long as it is escaped.
func TestPathsAreSplitBeforeTheyAreUnescaped(t *testing.T) {
	u, err := url.Parse("http://h/pools/default/buckets/a%2Fb%25c/docs/%E2%82%AC")
	require.NoError(t, err)
	values := map[string]string{}
	require.NotNil(t, newRouter(table()).find("GET", split(u), values))
	require.Equal(t, map[string]string{"bucket": "a/b%c", "key": "\u20ac"}, values)
}
