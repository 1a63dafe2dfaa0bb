package field_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/search"
)

// obj is an object of JSON.
type obj = map[string]any

// inns are the documents of the tests of search.
var inns = map[string]any{
	"a": obj{
		"type": "inn", "name": "Blue Anchor", "about": "A quiet house by the harbour, with blue doors.", "rooms": 12,
		"open": true, "built": "1890-05-01", "tags": []string{"harbour", "quiet"}, "geo": obj{"lat": 51.5, "lon": -0.1},
		"taste": []float64{1, 0, 0},
	},
	"b": obj{
		"type": "inn", "name": "Red Lion", "about": "The oldest house of the town. Loud, and near the harbour walls.",
		"rooms": 30,
		"open":  false, "built": "1650-01-01", "tags": []string{"old"}, "geo": obj{"lat": 51.6, "lon": -0.1},
		"taste": []float64{0, 1, 0},
	},
	"c": obj{
		"type": "inn", "name": "Grand Hotel", "about": "Doors of glass, walls of blue stone.", "rooms": 300,
		"open": true, "built": "1999-12-31T10:00:00Z", "tags": []string{"new", "quiet"},
		"geo": obj{"lat": 48.85, "lon": 2.35}, "taste": []float64{0.9, 0.1, 0}, "chef": obj{"name": "Anne O'Hara"},
	},
	"d": obj{"type": "ship", "name": "Blue Star"},
}

const innsIndex = `{"name":"inns","type":"fulltext-index","sourceType":"couchbase","sourceName":"default","params":{
	"doc_config":{"mode":"type_field","type_field":"type"},"mapping":{
	"default_mapping":{"enabled":false},"types":{"inn":{
	"dynamic":true,"properties":{
		"name":{"fields":[{"name":"name","type":"text","store":true,"include_in_all":true},
			{"name":"exact","type":"text","analyzer":"keyword","store":true}]},
		"about":{"fields":[{"name":"about","type":"text","analyzer":"en","store":true,"include_in_all":true}]},
		"rooms":{"fields":[{"name":"rooms","type":"number","store":true}]},
		"geo":{"fields":[{"name":"geo","type":"geopoint"}]},
		"taste":{"fields":[{"name":"taste","type":"vector","dims":3,"similarity":"l2_norm"}]}}}}}}}`

// innSearch is a client of a mock that has the inns and their index.
func innSearch(t *testing.T) *core.Cluster {
	t.Helper()
	m := mock.Start(t, mock.Nodes(2), mock.Documents("default", inns))
	require.NoError(t, m.PutSearchIndex("inns", innsIndex))
	cfg, err := core.ParseConnString(m.ConnString())
	require.NoError(t, err)
	cfg.Auth.Username, cfg.Auth.Password = mock.DefaultUser, core.NewSecret(mock.DefaultPassword)
	return openConfig(t, cfg)
}

// found is one search: its hits and what stands beside them.
func found(t *testing.T, c *core.Cluster, r search.Request) ([]search.Hit, search.Meta) {
	t.Helper()
	r.Index = "inns"
	rows, err := c.Search(t.Context(), &r)
	require.NoError(t, err)
	var hits []search.Hit
	for rows.Next() {
		h, err := rows.Hit()
		require.NoError(t, err)
		hits = append(hits, h)
	}
	require.NoError(t, rows.Err())
	meta, err := rows.Meta()
	require.NoError(t, err)
	return hits, meta
}

func idsOf(hits []search.Hit) (ids string) {
	for _, h := range hits {
		ids += h.ID
	}
	return ids
}

// Documents are found by all the queries that SDKs can make.
func TestTheMockSearchesItsDocuments_D172(t *testing.T) {
	c := innSearch(t)
	ids := func(q obj) string {
		hits, meta := found(t, c, search.Request{Query: q, Sort: []any{"_id"}})
		require.EqualValues(t, len(hits), meta.Total)
		return idsOf(hits)
	}
	for name, row := range map[string]struct {
		query obj
		want  string
	}{
		"term":                 {obj{"term": "blue", "field": "name"}, "a"},
		"term is not analyzed": {obj{"term": "Blue", "field": "name"}, ""},
		"all fields":           {obj{"term": "blue"}, "ac"},
		"match":                {obj{"match": "BLUE lion", "field": "name"}, "ab"},
		"match and":            {obj{"match": "blue lion", "field": "name", "operator": "and"}, ""},
		"match with endings":   {obj{"match": "door wall", "field": "about"}, "abc"},
		"fuzzy":                {obj{"match": "lionn", "field": "name", "fuzziness": 1}, "b"},
		"fuzzy term":           {obj{"term": "lian", "field": "name", "fuzziness": 1, "prefix_length": 2}, "b"},
		"phrase":               {obj{"match_phrase": "blue doors", "field": "about"}, "a"},
		"phrase with a gap":    {obj{"match_phrase": "walls of blue", "field": "about"}, "c"},
		"terms in a row":       {obj{"terms": []string{"blue", "anchor"}, "field": "name"}, "a"},
		"terms with choices": {
			obj{"terms": [][]string{{"blue", "red"}, {"anchor", "lion"}}, "field": "name"}, "ab",
		},
		"prefix":                {obj{"prefix": "gra", "field": "name"}, "c"},
		"regexp":                {obj{"regexp": "l.on|hot.*", "field": "name"}, "bc"},
		"wildcard":              {obj{"wildcard": "an?h*", "field": "name"}, "a"},
		"other name of a field": {obj{"term": "Red Lion", "field": "exact"}, "b"},
		"dynamic field":         {obj{"term": "quiet", "field": "tags"}, "ac"},
		"member of a member":    {obj{"match": "o'hara", "field": "chef.name"}, "c"},
		"numbers":               {obj{"min": 12, "max": 300, "field": "rooms"}, "ab"},
		"numbers with both ends": {obj{
			"min": 12, "max": 300, "inclusive_min": false, "inclusive_max": true, "field": "rooms",
		}, "bc"},
		"texts between": {obj{"min": "a", "max": "c", "field": "name"}, "a"},
		"dates":         {obj{"start": "1800-01-01", "end": "1999-12-31T10:00:00Z", "field": "built"}, "a"},
		"flag":          {obj{"bool": true, "field": "open"}, "ac"},
		"ids":           {obj{"ids": []string{"b", "d", "x"}}, "b"},
		"all":           {obj{"match_all": nil}, "abc"},
		"none":          {obj{"match_none": obj{}}, ""},
		"distance":      {obj{"location": []float64{-0.1, 51.5}, "distance": "15km", "field": "geo"}, "ab"},
		"box": {obj{
			"top_left": []float64{-1, 51.55}, "bottom_right": []float64{3, 48}, "field": "geo",
		}, "ac"},
		"polygon": {obj{
			"polygon_points": [][]float64{{-1, 51.55}, {1, 51.55}, {1, 52}, {-1, 52}}, "field": "geo",
		}, "b"},
		"conjuncts": {obj{
			"conjuncts": []obj{{"term": "quiet", "field": "tags"}, {"term": "blue", "field": "name"}},
		}, "a"},
		"disjuncts": {obj{
			"disjuncts": []obj{{"term": "old", "field": "tags"}, {"term": "hotel", "field": "name"}},
		}, "bc"},
		"disjuncts, at least": {obj{
			"disjuncts": []obj{{"term": "quiet", "field": "tags"}, {"bool": true, "field": "open"}}, "min": 2,
		}, "ac"},
		"boolean": {obj{
			"must":     obj{"conjuncts": []obj{{"match": "house", "field": "about"}}},
			"must_not": obj{"disjuncts": []obj{{"term": "quiet", "field": "tags"}}},
			"should":   obj{"disjuncts": []obj{{"term": "x"}}},
		}, "b"},
		"query string":               {obj{"query": `+about:harbour -tags:old name:"blue anchor"^2 rooms:>=12`}, "a"},
		"query string of many kinds": {obj{"query": `name:li?n name:/gran.*/ built:<"1800-01-01" rooms:12`}, "abc"},
	} {
		require.Equal(t, row.want, ids(row.query), name)
	}
}

// Answers have what a search asks for: order, pages, stored fields, fragments, places, facets.
func TestTheMockAnswersSearchesInFull_D172(t *testing.T) {
	c := innSearch(t)
	all := obj{"match_all": obj{}}
	for want, sort := range map[string][]any{
		"cba": {"-rooms"},
		"bac": {obj{"by": "field", "field": "built", "type": "date"}},
		"cab": {obj{"by": "geo_distance", "field": "geo", "location": []float64{2.3, 48.8}, "unit": "km"}},
		"CAB": {obj{"by": "field", "field": "tags", "mode": "max", "desc": true}, "-_id"},
		"abc": {obj{"by": "field", "field": "chef.name", "missing": "first"}, "_id"},
	} {
		hits, _ := found(t, c, search.Request{Query: all, Sort: sort})
		require.Equal(t, strings.ToLower(want), idsOf(hits), sort)
	}
	hits, meta := found(t, c, search.Request{Query: all, Sort: []any{"_id"}, From: 1, Size: 1})
	require.Equal(t, "b", idsOf(hits))
	require.EqualValues(t, 3, meta.Total)

	hits, meta = found(t, c, search.Request{
		Query: obj{"match": "blue walls", "field": "about"}, Fields: []string{"*"},
		Highlight:        &search.Highlight{Style: "html"},
		IncludeLocations: true, Explain: true,
		Facets: map[string]any{
			"tags": obj{"field": "tags", "size": 1},
			"rooms": obj{"field": "rooms", "size": 5, "numeric_ranges": []obj{
				{"name": "few", "max": 100}, {"name": "many", "min": 100},
			}},
			"built": obj{"field": "built", "size": 5, "date_ranges": []obj{{"name": "old", "end": "1900-01-01"}}},
		},
	})
	require.Equal(t, "cab", idsOf(hits), "what has both words comes first")
	require.Greater(t, hits[0].Score, hits[1].Score)
	require.InDelta(t, hits[0].Score, meta.MaxScore, 0)
	require.Equal(t, []string{"Doors of glass, <mark>walls</mark> of <mark>blue</mark> stone."},
		hits[0].Fragments["about"])
	require.JSONEq(t, `{"name":"Grand Hotel","exact":"Grand Hotel","rooms":300,`+
		`"about":"Doors of glass, walls of blue stone."}`, string(hits[0].Fields))
	require.JSONEq(t, `{"about":{"wall":[{"pos":4,"start":16,"end":21,"array_positions":null}],`+
		`"blue":[{"pos":6,"start":25,"end":29,"array_positions":null}]}}`, string(hits[0].Locations))
	require.JSONEq(t, `{"field":"tags","total":5,"missing":0,"other":3,"terms":[{"term":"quiet","count":2}]}`,
		string(meta.Facets["tags"]))
	require.JSONEq(t, `{"field":"rooms","total":3,"missing":0,"other":0,`+
		`"numeric_ranges":[{"name":"few","max":100,"count":2},`+
		`{"name":"many","min":100,"count":1}]}`, string(meta.Facets["rooms"]))
	require.JSONEq(t, `{"field":"built","total":2,"missing":0,"other":0,"date_ranges":[{"name":"old",`+
		`"end":"1900-01-01T00:00:00Z","count":2}]}`, string(meta.Facets["built"]))
}

// The nearest vectors are found, alone and beside a query.
func TestTheMockSearchesVectors_D172(t *testing.T) {
	c := innSearch(t)
	near := search.VectorQuery{Field: "taste", Vector: []float32{1, 0, 0}, K: 2}
	hits, _ := found(t, c, search.Request{Vectors: []search.VectorQuery{near}})
	require.Equal(t, "ac", idsOf(hits))
	require.InDelta(t, 50, hits[1].Score, 0.01, "the inverse of the square of the distance")

	hits, _ = found(t, c, search.Request{
		Vectors: []search.VectorQuery{near}, Query: obj{"term": "lion", "field": "name"},
	})
	require.Equal(t, "acb", idsOf(hits))

	near.Filter = obj{"max": 200, "field": "rooms"}
	near.Vector, near.Base64 = nil, "AACAPwAAAAAAAAAA"
	hits, _ = found(t, c, search.Request{Vectors: []search.VectorQuery{near}})
	require.Equal(t, "ab", idsOf(hits))
}

// What is wrong with a search, or is not supported, is said; nothing is guessed.
func TestTheMockRefusesWhatItCannotSearch_D172(t *testing.T) {
	c := innSearch(t)
	for name, row := range map[string]struct {
		query any
		text  string
	}{
		"kind":     {obj{"unknown": 1}, "unknown query type"},
		"date":     {obj{"start": "soon", "field": "built"}, "unable to parse date"},
		"regexp":   {obj{"regexp": "(", "field": "name"}, "missing closing"},
		"string":   {obj{"query": `"open`}, "unterminated quote"},
		"shape":    {obj{"geometry": obj{}, "field": "geo"}, "the mock does not support queries of shapes"},
		"analyzer": {obj{"match": "x", "analyzer": "klingon"}, "the mock does not support the analyzer"},
		"deep":     {clausesWithin(200), "within each other"},
	} {
		_, err := c.Search(t.Context(), &search.Request{Index: "inns", Query: row.query})
		require.ErrorContains(t, err, row.text, name)
	}
	_, err := c.Search(t.Context(), &search.Request{Index: "none", Query: obj{"match_all": obj{}}})
	require.ErrorIs(t, err, cberr.IndexNotFound)
}

// The search service's router sends a path with two slashes on to the one without, as Couchbase's SDK for Rust needs it
// to become ready.
func TestTheMockSendsDoubledSlashesOn_D173(t *testing.T) {
	m := mock.Start(t)
	rq, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+m.Node(0).ServiceAddr(mock.SearchService)+"//api/ping", http.NoBody)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(rq)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "/api/ping", answer.Request.URL.Path)
	http.DefaultClient.CloseIdleConnections()
}

// clausesWithin is a query of so many levels.
func clausesWithin(levels int) json.RawMessage {
	q := json.RawMessage(`{"match_all":{}}`)
	for range levels {
		q = json.RawMessage(`{"conjuncts":[` + string(q) + `]}`)
	}
	return q
}
