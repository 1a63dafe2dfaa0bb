package httpsvc_test

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

func TestEveryServiceHasItsOwnName(t *testing.T) {
	seen := map[string]bool{}
	for s := httpsvc.Management; s <= httpsvc.Index; s++ {
		require.NotContains(t, s.String(), "(")
		require.NotEmpty(t, s.String())
		require.False(t, seen[s.String()])
		seen[s.String()] = true
	}
	require.Equal(t, "service(8)", httpsvc.Service(8).String())
}

func TestPathEscapesEverySegment(t *testing.T) {
	for _, c := range []struct {
		segments []string
		want     string
	}{
		{nil, ""},
		{[]string{"api", "index", "plain-name_1", "query"}, "/api/index/plain-name_1/query"},
		{[]string{"a/b", "c?d#e", "f g", "h%2Fi"}, "/a%2Fb/c%3Fd%23e/f%20g/h%252Fi"},
		{[]string{"..", ".", "...", ""}, "/%2E%2E/%2E/.../"},
		{[]string{"\x00\n\xff"}, "/%00%0A%FF"},
	} {
		require.Equal(t, c.want, httpsvc.Path(c.segments...))
	}
}

func TestUniqueIDs(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := map[string]bool{}
	for range 1000 {
		id := httpsvc.NewUniqueID()
		require.Regexp(t, form, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

// TestFieldsD110: a field of the wrong type is read as well as it can be, and never panics.
func TestFieldsD110(t *testing.T) {
	for raw, want := range map[string]int{
		`12009`: 12009, `"12009"`: 12009, ` 7 `: 7, `1.2009e4`: 12009, `-1`: -1, `0`: 0, `17014.0`: 17014, `" 5 "`: 5,
	} {
		v, ok := httpsvc.Int(json.RawMessage(raw))
		require.True(t, ok, raw)
		require.Equal(t, want, v, raw)
	}
	for _, raw := range []string{``, `null`, `"x"`, `1.5`, `{}`, `[1]`, `true`, `1e300`, `99999999999`, `"`, `"NaN"`, `"Inf"`, `{`} {
		v, ok := httpsvc.Int(json.RawMessage(raw))
		require.False(t, ok, raw)
		require.Zero(t, v)
	}
	for raw, want := range map[string]uint64{
		`7`: 7, `"7"`: 7, `1e3`: 1000, `18446744073709551615`: 1<<64 - 1, ``: 0, `null`: 0, `-1`: 0, `1.5`: 0, `"x"`: 0, `{}`: 0,
		`[1]`: 0, `true`: 0, `1e30`: 0, `"NaN"`: 0, `"`: 0,
	} {
		require.Equal(t, want, httpsvc.Uint(json.RawMessage(raw)), raw)
	}
	for raw, want := range map[string]float64{`1.5`: 1.5, `"1.5"`: 1.5, `-2`: -2, ``: 0, `null`: 0, `"x"`: 0, `{}`: 0, `[1]`: 0, `true`: 0} {
		require.InDelta(t, want, httpsvc.Float(json.RawMessage(raw)), 0, raw)
	}
	for raw, want := range map[string]time.Duration{
		`"1.5ms"`: 1500 * time.Microsecond, `" 2s "`: 2 * time.Second, ``: 0, `null`: 0, `7`: 0, `"x"`: 0, `{}`: 0, `[]`: 0,
	} {
		require.Equal(t, want, httpsvc.Duration(json.RawMessage(raw)), raw)
	}
	for raw, want := range map[string]bool{
		`true`: true, `"true"`: true, `"True"`: true, `false`: false, `"false"`: false, `1`: false, `null`: false, ``: false, `{}`: false,
	} {
		require.Equal(t, want, httpsvc.Bool(json.RawMessage(raw)), raw)
	}
	for raw, want := range map[string]string{
		`"a\"b"`: `a"b`, `null`: ``, `12`: `12`, `{"a":1}`: `{"a":1}`, ``: ``, `"`: `"`,
	} {
		require.Equal(t, want, httpsvc.Text(json.RawMessage(raw)), raw)
	}
	require.Equal(t, "x", httpsvc.Text(json.RawMessage(` "x" `)), "blanks around it are not part of the text")
	require.Equal(t, "1", string(httpsvc.Object(json.RawMessage(` {"a":1}`))["a"]))
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{`, `1`} {
		require.Nil(t, httpsvc.Object(json.RawMessage(raw)), raw)
	}
	require.Len(t, httpsvc.List(json.RawMessage(`[1,{},null]`)), 3)
	require.Len(t, httpsvc.List(json.RawMessage(`{"code":1}`)), 1)
	for _, raw := range []string{``, `null`, `[]`, `"x"`, `{`, `[1`, `1`} {
		require.Empty(t, httpsvc.List(json.RawMessage(raw)), raw)
	}
}
