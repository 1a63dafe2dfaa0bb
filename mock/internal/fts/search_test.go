package fts

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A document's type says how it is indexed: by a member, by its key, by its collection.
func TestTypesOfDocuments(t *testing.T) {
	const all = `{"query":{"match_all":{}},"sort":["_id"]}`
	const byCollection = `"scope.collection.type_field","type_field":"type"},`
	docs := map[string]string{"a_1": `{"type":"x","n":1}`, "b_1": `{"type":"y","n":1}`, "c": `7`, "d": `{"n":1}`}
	for config, want := range map[string][]string{
		`"type_field","type_field":"type"},"types":{"x":{}}`:                     {"a_1"},
		`"docid_prefix","docid_prefix_delim":"_"},"types":{"b":{}}`:              {"b_1"},
		`"docid_regexp","docid_regexp":"[a-z]"},"types":{"d":{}}`:                {"d"},
		byCollection + `"types":{"_default._default.y":{},"s.c":{}}`:             {"b_1"},
		byCollection + `"types":{"_default._default":{}}`:                        {"a_1", "b_1", "d"},
		byCollection + `"types":{"_default._default.y":{"enabled":false}}`:       nil,
		`"type_field"},"default_type":"z","types":{"z":{},"x":{"dynamic":true}}`: {"a_1", "d"},
	} {
		config, types, _ := strings.Cut(config, "},")
		params := `{"doc_config":{"mode":` + config + `},"mapping":{"default_mapping":{"enabled":false},` + types + `}}`
		require.Equal(t, want, ids(t, search(t, params, all, docs)), params)
	}
	require.Equal(t, []string{"a_1", "b_1", "d"}, ids(t, search(t, `{}`, all, docs)))
	ix, err := ParseIndex([]byte(`{"params":{"doc_config":{"mode":"scope.collection.type_field"},
		"mapping":{"types":{"s.c":{}}}}}`))
	require.NoError(t, err)
	list := []Document{{"k", "s", "c", []byte(`{}`)}, {"o", "s", "other", []byte(`{}`)}}
	require.Equal(t, 1, Count(Source{ix, list}))
	got, err := Search(t.Context(), []Source{{ix, list}}, []byte(`{"query":{"match_all":{}},"collections":["other"]}`))
	require.NoError(t, err)
	require.Zero(t, got.Total)
}

// Scores follow the frequency of terms: rare ones, and those of short fields, count more.
func TestScores(t *testing.T) {
	docs := map[string]string{
		"often": `{"s":"cat dog bird fish cat dog bird fish"}`, "short": `{"s":"cat"}`,
		"rare": `{"s":"cat zebra dog bird"}`,
	}
	r := search(t, `{}`, `{"query":{"match":"cat","field":"s"}}`, docs)
	require.Equal(t, []string{"short", "often", "rare"}, ids(t, r))
	r = search(t, `{}`, `{"query":{"match":"cat zebra","field":"s"}}`, docs)
	require.Equal(t, "rare", ids(t, r)[0])
	r = search(t, `{}`, `{"query":{"disjuncts":[{"term":"zebra"},{"term":"fish","boost":9}]},"score":"none"}`, docs)
	require.Zero(t, r.MaxScore)
	require.Equal(t, 2, r.Total)
}

// A search ends with the context of its request.
func TestASearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ix, err := ParseIndex([]byte(`{}`))
	require.NoError(t, err)
	_, err = Search(ctx, []Source{{ix, []Document{{"k", "_default", "_default", []byte(`{}`)}}}}, []byte(`{}`))
	require.ErrorIs(t, err, context.Canceled)
}

// No request, definition or document makes a search panic, and each of its hits is JSON.
func FuzzSearch(f *testing.F) {
	f.Add(`{"query":{"query":"+a:\"b c\"~1 -d^2 /e.*/ f*:>=1"},"sort":["-a"],"size":3}`, `{}`, `{"a":["b",{"c":1}]}`)
	f.Add(`{"query":{"match_phrase":"a b","field":"x.y"},"highlight":{},"facets":{"f":{"field":"x","size":2}}}`,
		`{"mapping":{"store_dynamic":true,"default_mapping":{"properties":{"x":{"fields":[{"analyzer":"en"}]}}}}}`,
		`{"x":{"y":"a b a","z":"2020-01-01"}}`)
	f.Add(`{"knn":[{"field":"v","vector":[1],"k":3}],"query":{"top_left":"1,2","bottom_right":{"lat":1,"lng":2}}}`,
		`{"mapping":{"default_mapping":{"properties":{"v":{"fields":[{"type":"vector","dims":1}]}}}}}`, `{"v":[1]}`)
	f.Fuzz(func(t *testing.T, request, params, doc string) {
		ix, err := ParseIndex([]byte(`{"name":"i","params":` + params + `}`))
		if err != nil {
			return
		}
		docs := []Document{{"k", "_default", "_default", []byte(doc)}, {"l", "_default", "_default", []byte(`{"x":1}`)}}
		r, err := Search(t.Context(), []Source{{ix, docs}}, []byte(request))
		if err != nil {
			return
		}
		require.True(t, json.Valid(r.Facets))
		for _, h := range r.Hits {
			require.True(t, json.Valid([]byte(h)), h)
		}
	})
}
