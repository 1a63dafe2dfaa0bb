package errormap_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/errormap"
)

func load(t testing.TB, name string) *errormap.Map {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	m, err := errormap.Parse(data, 0)
	require.NoError(t, err)
	return m
}

func TestB6RealMapsParse(t *testing.T) {
	v1, v2 := load(t, "err_map70_v1.json"), load(t, "err_map71_v2.json")
	require.Equal(t, []int{1, 2, 58}, []int{v1.Version, v1.Revision, v1.Len()})
	require.Equal(t, []int{2, 1, 65}, []int{v2.Version, v2.Revision, v2.Len()})
	for _, m := range []*errormap.Map{v1, v2} {
		e, ok := m.Lookup(0x09)
		require.True(t, ok)
		require.Equal(t, "LOCKED", e.Name)
		require.Equal(t, errormap.ItemLocked|errormap.ItemOnly|errormap.RetryNow, e.Attrs)
		require.True(t, e.RetryIndicated())
		e, _ = m.Lookup(0x20)
		require.True(t, e.InvalidatesConnection())
		require.False(t, e.RetryIndicated())
	}
}

func doc(version, revision int, entry string) []byte {
	return fmt.Appendf(nil, `{"version":%d,"revision":%d,"errors":{"7ff0":%s}}`, version, revision, entry)
}

func TestNoRetryWinsAndUnknownAttributesAreIgnored(t *testing.T) {
	for _, tc := range []struct {
		attrs string
		want  bool
	}{
		{`"retry-now"`, true}, {`"retry-later"`, true}, {`"auto-retry"`, true}, {`"temp"`, false},
		{`"retry-now","no-retry"`, false}, {`"retry-now","something-new"`, true}, {`"something-new"`, false}, {``, false},
	} {
		m, err := errormap.Parse(doc(2, 1, `{"name":"X","desc":"d","attrs":[`+tc.attrs+`]}`), 0)
		require.NoError(t, err)
		e, ok := m.Lookup(0x7ff0)
		require.True(t, ok)
		require.Equal(t, tc.want, e.RetryIndicated(), tc.attrs)
	}
}

func TestMalformedMapsNameTheFieldAndTheLimit(t *testing.T) {
	good := string(doc(1, 1, `{}`))
	for _, tc := range []struct{ data, field string }{
		{"", "document"}, {"[]", "document"}, {`{"errors":{}`, "document"},
		{`{"revision":1,"errors":{}}`, "version"}, {`{"version":3,"revision":1,"errors":{}}`, "version"},
		{`{"version":1,"errors":{}}`, "revision"}, {`{"version":1,"revision":1}`, "errors"},
		{strings.Replace(good, "7ff0", "12345", 1), "code"}, {strings.Replace(good, "7ff0", "zz", 1), "code"},
		{`{"version":1,"revision":1,"errors":{"1":{},"01":{}}}`, "code"},
	} {
		_, err := errormap.Parse([]byte(tc.data), 0)
		var e *errormap.Error
		require.ErrorAs(t, err, &e, tc.data)
		require.Equal(t, tc.field, e.Field, tc.data)
		require.NotEmpty(t, e.Error())
	}
	_, err := errormap.Parse([]byte(good), len(good)-1)
	require.ErrorContains(t, err, "limit")
	_, err = errormap.Parse([]byte(good), len(good))
	require.NoError(t, err)
}

func TestTheNewestRevisionOfANodeWins(t *testing.T) {
	var s errormap.Store
	parse := func(v, r int) *errormap.Map {
		m, err := errormap.Parse(doc(v, r, `{}`), 0)
		require.NoError(t, err)
		return m
	}
	require.Nil(t, s.For("a"))
	require.True(t, s.Offer("a", parse(1, 5)))
	require.False(t, s.Offer("a", parse(1, 4)))
	require.True(t, s.Offer("a", parse(1, 6)))
	require.True(t, s.Offer("a", parse(2, 1)))
	require.False(t, s.Offer("a", parse(1, 9)))
	require.Nil(t, s.For("b"))
	require.Equal(t, 2, s.For("a").Version)
}

func TestB5RetrySpecificationsAreComputed(t *testing.T) {
	for _, tc := range []struct {
		spec errormap.RetrySpec
		want []int
	}{
		{errormap.RetrySpec{Strategy: "constant", Interval: 10, After: 50}, []int{50, 10, 10, 10}},
		{errormap.RetrySpec{Strategy: "linear", Interval: 20, After: 50, Ceil: 50}, []int{50, 20, 40, 50}},
		{errormap.RetrySpec{Strategy: "exponential", Interval: 2, After: 50, Ceil: 7}, []int{50, 2, 4, 7}},
	} {
		for n, want := range tc.want {
			d, ok := tc.spec.Delay(n)
			require.True(t, ok)
			require.Equal(t, time.Duration(want)*time.Millisecond, d, "%s %d", tc.spec.Strategy, n)
		}
	}
	_, ok := (&errormap.RetrySpec{Strategy: "other"}).Delay(1)
	require.False(t, ok)
	spec := errormap.RetrySpec{MaxDuration: 500}
	require.False(t, spec.Ends(500*time.Millisecond))
	require.True(t, spec.Ends(501*time.Millisecond))
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"err_map70_v1.json", "err_map71_v2.json"} {
		data, err := os.ReadFile("testdata/" + name)
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add(doc(1, 1, `{"retry":{"strategy":"exponential","interval":1e308,"ceil":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		m, err := errormap.Parse(data, 1<<16)
		if err != nil {
			return
		}
		for code := range 1 << 16 {
			if e, ok := m.Lookup(uint16(code)); ok {
				e.RetryIndicated()
				if e.Retry != nil {
					d, _ := e.Retry.Delay(7)
					require.GreaterOrEqual(t, d, time.Duration(0))
				}
			}
		}
	})
}
