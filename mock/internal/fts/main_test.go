package fts

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// search runs a request over documents of the default collection, of an index with a mapping.
func search(t testing.TB, mapping, request string, docs map[string]string) *Result {
	t.Helper()
	ix, err := ParseIndex([]byte(`{"name":"i","sourceName":"default","params":` + mapping + `}`))
	require.NoError(t, err)
	var list []Document
	for id, v := range docs {
		list = append(list, Document{id, "_default", "_default", []byte(v)})
	}
	out, err := Search(t.Context(), []Source{{ix, list}}, []byte(request))
	require.NoError(t, err)
	return out
}

// ids are the ids of hits, in order.
func ids(t testing.TB, r *Result) (out []string) {
	t.Helper()
	for _, text := range r.Hits {
		var h struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(text), &h))
		out = append(out, h.ID)
	}
	return out
}
