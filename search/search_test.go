package search_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/search"
)

type verdict struct {
	reason retry.Reason
	ok     bool
	err    error
}

func classify(status int, text string, scoped bool) verdict {
	reason, ok, err := search.Classify(search.Answer{HTTPStatus: status, Text: text, Scoped: scoped})
	return verdict{reason, ok, err}
}

// TestCB57CB64EveryStatusD77: 429 is retried (CB-64) and no other status (CB-57), whatever the text.
func TestCB57CB64EveryStatusD77(t *testing.T) {
	texts := []string{
		"", "x", "index not found", "num_fts_indexes", "num_concurrent_requests", "num_queries_per_min",
		"ingress_mib_per_min",
		"egress_mib_per_min", "\x00\xff", `{"error":"x"}`,
	}
	for status := 0; status < 1000; status++ {
		for _, text := range texts {
			for _, scoped := range []bool{false, true} {
				got := classify(status, text, scoped)
				want := verdict{}
				if status == 429 {
					want.reason, want.ok = retry.SearchTooManyRequests, true
				}
				want.err = got.err
				require.Equal(t, want, got, "status %d", status)
				require.Equal(t, status >= 200 && status <= 299, got.err == nil, "status %d", status)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	const missing = `{"error":"rest_index: Query, indexName: x, err: Index not found","status":"fail","request":{}}`
	for _, c := range []struct {
		status int
		text   string
		scoped bool
		want   error
	}{
		{200, `{"status":{"total":6,"failed":6}}`, false, nil},
		{400, missing, false, cberr.IndexNotFound},
		{400, missing, true, cberr.IndexNotFound},
		{400, "num_fts_indexes (active + pending)", false, cberr.QuotaLimited},
		{400, "parse error", false, cberr.Couchbase},
		{404, missing, false, cberr.Couchbase},
		{404, "", true, cberr.FeatureNotAvailable},
		{401, "", false, cberr.AuthenticationFailure},
		{403, "", false, cberr.AuthenticationFailure},
		{429, `{"error":"num_concurrent_requests"}`, false, cberr.RateLimited},
		{429, "NUM_QUERIES_PER_MIN", false, cberr.RateLimited},
		{429, "ingress_mib_per_min", false, cberr.RateLimited},
		{429, "egress_mib_per_min", false, cberr.RateLimited},
		{429, "too many", false, cberr.Couchbase},
		{500, "index not found", false, cberr.InternalServerFailure},
		{502, "", false, cberr.Couchbase},
		{302, "", false, cberr.Couchbase},
	} {
		require.Equal(t, c.want, classify(c.status, c.text, c.scoped).err, c)
	}
}

// TestCB55AlwaysIdempotent proves the half of CB-55 that is about search.
func TestCB55AlwaysIdempotent(t *testing.T) {
	r := search.Request{Index: "i", Query: map[string]any{"match": "x"}}
	require.True(t, r.Idempotent())
	h, err := r.HTTP()
	require.NoError(t, err)
	require.True(t, h.Idempotent)
}

func TestZeroRequestSendsOnlyWhatIsNeeded(t *testing.T) {
	r := search.Request{Index: "an/index", Query: map[string]any{"match_all": struct{}{}}}
	h, err := r.HTTP()
	require.NoError(t, err)
	raw, err := h.Body(2500*time.Millisecond + 900*time.Microsecond)
	require.NoError(t, err)
	require.JSONEq(t, `{"query":{"match_all":{}},"showrequest":false,"ctl":{"timeout":2500}}`, string(raw))
	same, err := h.Body(2500 * time.Millisecond)
	require.NoError(t, err)
	require.Equal(t, string(raw), string(same))
	late, err := h.Body(-1)
	require.NoError(t, err)
	require.Contains(t, string(late), `"ctl":{"timeout":1}`)
	h.Body = nil
	require.Equal(t, &httpsvc.Request{
		Service: httpsvc.Search, Operation: "search", Method: "POST", Path: "/api/index/an%2Findex/query",
		ContentType: "application/json", Idempotent: true, UniqueID: h.UniqueID,
	}, h)
	require.Len(t, h.UniqueID, 36)
}

func TestEveryFieldIsSent(t *testing.T) {
	r := search.Request{
		Index: "i", Bucket: "b", Scope: "s c",
		Vectors: []search.VectorQuery{
			{Field: "v", Vector: []float32{0.5, 1}, K: 3, Boost: 2, Filter: map[string]any{"match": "x"}},
			{Field: "w", Base64: "AAAA", K: 1},
		},
		VectorOperator: "or", Size: 5, From: 10, Fields: []string{"*"}, Collections: []string{"c"},
		Sort:      []any{"-_score"},
		Facets:    map[string]any{"t": map[string]any{"field": "type", "size": 3}},
		Highlight: &search.Highlight{Style: "html", Fields: []string{"a"}}, Explain: true, IncludeLocations: true,
		NoScoring:      true,
		ConsistentWith: map[string]uint64{"17/204823409283": 4711}, UniqueID: "mine", Timeout: time.Second,
		Raw: map[string]any{"extra": 1, "showrequest": true}, OnBehalfOf: "jane", Endpoint: "n1:8094",
	}
	require.True(t, r.Scoped())
	h, err := r.HTTP()
	require.NoError(t, err)
	raw, err := h.Body(time.Second)
	require.NoError(t, err)
	require.JSONEq(t, `{"query":{"match_none":{}},
		"knn":[{"field":"v","vector":[0.5,1],"k":3,"boost":2,"filter":{"match":"x"}},{"field":"w","vector_base64":"AAAA","k":1}],
		"knn_operator":"or","size":5,"from":10,"fields":["*"],"collections":["c"],"sort":["-_score"],
		"facets":{"t":{"field":"type","size":3}},"highlight":{"style":"html","fields":["a"]},"explain":true,
		"includeLocations":true,"score":"none","extra":1,"showrequest":true,
		"ctl":{"timeout":1000,"consistency":{"level":"at_plus","vectors":{"i":{"17/204823409283":4711}}}}}`, string(raw))
	h.Body = nil
	require.Equal(t, &httpsvc.Request{
		Service: httpsvc.Search, Operation: "search", Method: "POST", Path: "/api/bucket/b/scope/s%20c/index/i/query",
		ContentType: "application/json", Idempotent: true, UniqueID: "mine", Timeout: time.Second, Endpoint: "n1:8094",
		OnBehalfOf: "jane",
	}, h)
}

func TestRequestsThatCannotBeSentNameTheField(t *testing.T) {
	q := map[string]any{"match": "x"}
	for field, r := range map[string]search.Request{
		"Index is empty":                       {Query: q},
		"Bucket is set without a Scope":        {Index: "i", Query: q, Bucket: "b"},
		"Scope is set without a Bucket":        {Index: "i", Query: q, Scope: "s"},
		"Query and Vectors are empty":          {Index: "i"},
		"VectorOperator is neither and nor or": {Index: "i", Query: q, VectorOperator: "xor"},
		"a number is negative":                 {Index: "i", Query: q, From: -1},
		"Timeout is negative":                  {Index: "i", Query: q, Timeout: -1},
		"Vectors[0] needs a Field":             {Index: "i", Vectors: []search.VectorQuery{{Base64: "A", K: 1}}},
		"a positive K":                         {Index: "i", Vectors: []search.VectorQuery{{Field: "v", Base64: "A"}}},
		"one of Vector and Base64":             {Index: "i", Vectors: []search.VectorQuery{{Field: "v", K: 1}}},
		"Vectors[1]": {Index: "i", Vectors: []search.VectorQuery{
			{Field: "v", K: 1, Base64: "A"},
			{Field: "v", K: 1, Base64: "A", Vector: []float32{1}},
		}},
		"a part cannot be encoded": {Index: "i", Query: func() {}},
	} {
		h, err := r.HTTP()
		require.Nil(t, h)
		require.ErrorIs(t, err, cberr.InvalidArgument, field)
		require.ErrorContains(t, err, field)
	}
}
