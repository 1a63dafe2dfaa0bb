package errormap_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"strings"
	"sync"
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
		{`"retry-now"`, true},
		{`"retry-later"`, true},
		{`"auto-retry"`, true},
		{`"temp"`, false},
		{`"retry-now","no-retry"`, false},
		{`"retry-now","something-new"`, true},
		{`"something-new"`, false},
		{``, false},
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
		{"", "document"},
		{"[]", "document"},
		{`{"errors":{}`, "document"},
		{`{"revision":1,"errors":{}}`, "version"},
		{`{"version":3,"revision":1,"errors":{}}`, "version"},
		{`{"version":1,"errors":{}}`, "revision"},
		{`{"version":1,"revision":1}`, "errors"},
		{strings.Replace(good, "7ff0", "12345", 1), "code"},
		{strings.Replace(good, "7ff0", "zz", 1), "code"},
		{`{"version":1,"revision":1,"errors":{"1":{},"01":{}}}`, "code"},
		{strings.Replace(good, "7ff0", "0x1f", 1), "code"},
		{strings.Replace(good, "7ff0", "", 1), "code"},
		{strings.Replace(good, "7ff0", "-1", 1), "code"},
		{string(doc(1, 1, `null`)), "entry"},
		{string(doc(1, 1, `[]`)), "errors"},
		{string(doc(1, 1, `{"attrs":"temp"}`)), "errors.attrs"},
		{string(doc(1, 1, `{"attrs":[1]}`)), "errors.attrs"},
		{string(doc(1, 1, `{"retry":{"interval":"1"}}`)), "errors.retry.interval"},
		{`{"version":"1","revision":1,"errors":{}}`, "version"},
		{`{"version":0,"revision":1,"errors":{}}`, "version"},
		{`{"version":1,"revision":-1,"errors":{}}`, "revision"},
		{`{"version":1,"revision":1,"errors":null}`, "errors"},
		{"null", "version"},
	} {
		_, err := errormap.Parse([]byte(tc.data), 0)
		var e *errormap.Error
		require.ErrorAs(t, err, &e, tc.data)
		require.Equal(t, tc.field, e.Field, tc.data)
		require.Contains(t, e.Error(), tc.field)
		require.Equal(t, e.Err, errors.Unwrap(e))
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
		{errormap.RetrySpec{Strategy: "exponential", Interval: 3}, []int{0, 3, 9, 27, 81}},
		{errormap.RetrySpec{Strategy: "linear", Interval: 3}, []int{0, 3, 6, 9, 12}},
		{errormap.RetrySpec{Strategy: "constant", Interval: 30, Ceil: 20}, []int{0, 20, 20}},
	} {
		for n, want := range tc.want {
			d, ok := tc.spec.Delay(n)
			require.True(t, ok)
			require.Equal(t, time.Duration(want)*time.Millisecond, d, "%s %d", tc.spec.Strategy, n)
		}
	}
	d, ok := (&errormap.RetrySpec{Strategy: "exponential", Interval: 1e300}).Delay(1 << 30)
	require.True(t, ok)
	require.Equal(t, 1e12*time.Millisecond, d, "bounded without a ceiling")
	_, ok = (&errormap.RetrySpec{Strategy: "other"}).Delay(1)
	require.False(t, ok)
	spec := errormap.RetrySpec{MaxDuration: 500}
	require.False(t, spec.Ends(500*time.Millisecond))
	require.True(t, spec.Ends(501*time.Millisecond))
}

func TestRetrySpecificationsAreRead(t *testing.T) {
	m, err := errormap.Parse(doc(1, 1, `{"attrs":["auto-retry"],"retry":{"strategy":"linear","interval":2,"after":50,"max-duration":500,"ceil":40}}`), 0)
	require.NoError(t, err)
	e, _ := m.Lookup(0x7ff0)
	require.Equal(t, &errormap.RetrySpec{Strategy: "linear", Interval: 2, After: 50, Ceil: 40, MaxDuration: 500},
		e.Retry)
	_, ok := m.Lookup(1)
	require.False(t, ok)
}

func TestEveryAttributeHasItsOwnBit(t *testing.T) {
	const v1 = `success item-only invalid-input fetch-config conn-state-invalidated auth special-handling support temp internal
		retry-now retry-later subdoc dcp item-deleted item-locked`
	const later = `rate-limit system-constraint no-retry auto-retry retry`
	var all errormap.Attr
	for _, name := range strings.Fields(v1 + " " + later) {
		m, err := errormap.Parse(doc(2, 1, `{"attrs":["`+name+`"]}`), 0)
		require.NoError(t, err)
		e, _ := m.Lookup(0x7ff0)
		require.Empty(t, e.Unknown, name)
		require.Equal(t, 1, bits.OnesCount32(uint32(e.Attrs)), name)
		require.Zero(t, all&e.Attrs, name)
		all |= e.Attrs
		require.Equal(t, name == "fetch-config", e.FetchConfig())
		require.Equal(t, name == "rate-limit", e.RateLimit())
		require.Equal(t, name == "conn-state-invalidated", e.InvalidatesConnection())
		require.Equal(t, name == "retry-now" || name == "retry-later" || name == "auto-retry", e.RetryIndicated(), name)
	}
	m, err := errormap.Parse(doc(2, 1, `{"attrs":["new","`+strings.Repeat("x", 100)+`","temp"]}`), 0)
	require.NoError(t, err)
	e, _ := m.Lookup(0x7ff0)
	require.Equal(t, []string{"new", strings.Repeat("x", 64)}, e.Unknown)
	require.Equal(t, errormap.Temp, e.Attrs)
	require.False(t, e.Has(errormap.Temp|errormap.Auth))
}

// The real maps use no attribute that is not in the table.
func TestTheTableOfAttributesCoversTheRealMaps(t *testing.T) {
	for _, name := range []string{"err_map70_v1.json", "err_map71_v2.json"} {
		m := load(t, name)
		for code := range 1 << 16 {
			e, _ := m.Lookup(uint16(code))
			require.Empty(t, e.Unknown, "%s %x", name, code)
		}
	}
}

func TestTheStoreKeepsTheNewestOfManyOffers(t *testing.T) {
	var s errormap.Store
	require.False(t, s.Offer("a", nil))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			node := fmt.Sprintf("node-%d", i%4)
			for rev := range 50 {
				m, err := errormap.Parse(doc(2, rev, `{}`), 0)
				if err != nil {
					t.Error(err)
					return
				}
				s.Offer(node, m)
				if got := s.For(node); got.Revision < rev {
					t.Errorf("%s: revision %d after %d was offered", node, got.Revision, rev)
				}
			}
		})
	}
	wg.Wait()
	for i := range 4 {
		require.Equal(t, 49, s.For(fmt.Sprintf("node-%d", i)).Revision)
	}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if m := s.For("node-1"); m.Len() != 1 {
			t.Error("not found")
		}
	}))
}

// F5: no map panics or breaks a limit.
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
			var e *errormap.Error
			require.ErrorAs(t, err, &e)
			return
		}
		require.LessOrEqual(t, len(data), 1<<16)
		require.True(t, m.Newer(m) && m.Newer(nil))
		entries := map[uint16]errormap.Entry{}
		for code := range 1 << 16 {
			if e, ok := m.Lookup(uint16(code)); ok {
				entries[uint16(code)] = e
				if e.Retry != nil {
					d, _ := e.Retry.Delay(7)
					require.GreaterOrEqual(t, d, time.Duration(0))
				}
			}
		}
		checkNewest(t, m)
		checkUnknown(t, m, entries)
	})
}

// checkNewest offers a map before and behind its neighbours: of each pair the newer one is kept.
func checkNewest(t *testing.T, m *errormap.Map) {
	for _, other := range []*errormap.Map{
		{Version: m.Version, Revision: m.Revision + 1},
		{Version: m.Version, Revision: m.Revision - 1},
		{Version: m.Version + 1},
		{Version: m.Version - 1, Revision: m.Revision + 1},
	} {
		want := m
		if other.Newer(m) {
			want = other
		}
		for _, pair := range [][2]*errormap.Map{{m, other}, {other, m}} {
			var s errormap.Store
			s.Offer("a", pair[0])
			s.Offer("a", pair[1])
			require.Same(t, want, s.For("a"), "version %d revision %d beside %d:%d", m.Version, m.Revision,
				other.Version, other.Revision)
		}
	}
}

// checkUnknown reads the map again with an attribute more in each entry that no client knows: nothing else changes.
func checkUnknown(t *testing.T, m *errormap.Map, entries map[uint16]errormap.Entry) {
	doc := map[string]any{}
	for code, e := range entries {
		attrs := append([]string{"of-tomorrow"}, e.Unknown...)
		for name, bit := range errormap.AttrNames() {
			if e.Has(bit) {
				attrs = append(attrs, name)
			}
		}
		doc[fmt.Sprintf("%x", code)] = map[string]any{"name": e.Name, "desc": e.Desc, "attrs": attrs, "retry": e.Retry}
	}
	data, err := json.Marshal(map[string]any{"version": m.Version, "revision": m.Revision, "errors": doc})
	require.NoError(t, err)
	again, err := errormap.Parse(data, 1<<30)
	require.NoError(t, err)
	require.Equal(t, m.Len(), again.Len())
	for code, want := range entries {
		got, ok := again.Lookup(code)
		if !ok || got.Attrs != want.Attrs || len(got.Unknown) != 1+len(want.Unknown) ||
			got.RetryIndicated() != want.RetryIndicated() || got.MayHaveApplied() != want.MayHaveApplied() ||
			got.InvalidatesConnection() != want.InvalidatesConnection() || got.FetchConfig() != want.FetchConfig() ||
			got.RateLimit() != want.RateLimit() {
			t.Fatalf("%x: %+v, with an unknown attribute more: %+v", code, want, got)
		}
	}
}
