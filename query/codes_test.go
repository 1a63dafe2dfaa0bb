package query_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/query"
	"github.com/couchcore/couchcore/retry"
)

type verdict struct {
	reason retry.Reason
	ok     bool
	err    error
}

func classify(a query.Answer) verdict {
	reason, ok, err := query.Classify(a)
	return verdict{reason, ok, err}
}

func final(err error) verdict { return verdict{retry.Unknown, false, err} }

func one(e query.ServerError) query.Answer {
	return query.Answer{HTTPStatus: 500, Errors: []query.ServerError{e}}
}

// wantKind is SDK RFC 0058's list again, as a function of the code alone.
func wantKind(code int) error {
	switch code {
	case 1080:
		return cberr.AmbiguousTimeout
	case 1191, 1192, 1193, 1194:
		return cberr.RateLimited
	case 1197:
		return cberr.FeatureNotAvailable
	case 2120, 13014:
		return cberr.AuthenticationFailure
	case 3000:
		return cberr.ParsingFailure
	case 4040, 4050, 4060, 4070, 4080, 4090:
		return cberr.PreparedStatementFailure
	case 4300:
		return cberr.IndexExists
	case 12004, 12016:
		return cberr.IndexNotFound
	case 12009:
		return cberr.DMLFailure
	}
	switch code / 1000 {
	case 4:
		return cberr.PlanningFailure
	case 5:
		return cberr.InternalServerFailure
	case 10:
		return cberr.AuthenticationFailure
	case 12, 14:
		return cberr.IndexFailure
	}
	return cberr.Couchbase
}

// TestCB57CB62EveryCodeD77B85 gives every code without a text, with and without the service's retry hint, of statements
// that write and that read, with a plan of the client's and without: a code that the RFC does not list is not retried
// (CB-57), and the hint is followed for reads that have not timed out.
func TestCB57CB62EveryCodeD77B85(t *testing.T) {
	prepared := map[int]bool{4040: true, 4050: true, 4060: true, 4070: true, 4080: true, 4090: true}
	timeout := map[int]bool{
		1080: true, 7012: true, 12015: true, 16057: true, 16060: true, 17010: true, 19221: true,
		20011: true,
	}
	for code := -2; code <= 100000; code++ {
		for n := range 8 {
			a := one(query.ServerError{Code: code, Message: "text", Retry: n&1 != 0})
			a.Readonly, a.Plan = n&2 != 0, n&4 != 0
			want := final(wantKind(code))
			if code == 1080 && a.Readonly {
				want.err = cberr.UnambiguousTimeout
			}
			switch {
			case prepared[code] && a.Plan:
				want.reason, want.ok = retry.QueryPreparedStatementFailure, true
			case prepared[code] || code == 12016 || timeout[code]:
			case a.Readonly && a.Errors[0].Retry:
				want.reason, want.ok = retry.QueryErrorRetryable, true
			}
			if got := classify(a); got != want {
				t.Fatalf("code %d, hint %v, readonly %v, plan %v: %v, not %v", code, a.Errors[0].Retry, a.Readonly,
					a.Plan, got, want)
			}
		}
	}
}

func TestCodesWithSeveralMeanings(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		want    error
	}{
		{1065, "Unrecognized parameter in request: query_context", cberr.FeatureNotAvailable},
		{1065, "Unrecognized parameter in request: preserve_expiry", cberr.FeatureNotAvailable},
		{1065, "Unrecognized parameter in request: Use_Replica", cberr.FeatureNotAvailable},
		{1065, "Unrecognized parameter in request: foo", cberr.Couchbase},
		{1066, "query_context", cberr.Couchbase},
		{3230, "'advisor' is an enterprise level feature.", cberr.FeatureNotAvailable},
		{3230, "Advise statement", cberr.FeatureNotAvailable},
		{3230, "Query Window Functions", cberr.FeatureNotAvailable},
		{3230, "something else", cberr.Couchbase},
		{5000, "GSI index testingIndex not found.", cberr.IndexNotFound},
		{5000, "index does not exist", cberr.IndexNotFound},
		{5000, "not found: index", cberr.InternalServerFailure},
		{5000, "The index NotExist already exists.", cberr.IndexExists},
		{
			5000, "Limit for number of indexes that can be created per scope has been reached. Limit : 5",
			cberr.QuotaLimited,
		},
		{5000, "Panic", cberr.InternalServerFailure},
		{12009, "DML Error, possible causes include CAS mismatch or concurrent modification", cberr.CASMismatch},
		{12009, "DML Error", cberr.DMLFailure},
		{12003, "Keyspace not found in CB datastore: default:x", cberr.IndexFailure},
		{12021, "Scope not found", cberr.IndexFailure},
	} {
		require.Equal(t, final(c.want), classify(one(query.ServerError{Code: c.code, Message: c.message})), c)
	}
}

// TestIndexNotFoundD91: the code and the text, not the text alone.
func TestIndexNotFoundD91(t *testing.T) {
	const text = "Index scan failed - cause: queryport.indexNotFound"
	require.Equal(t, verdict{retry.QueryIndexNotFound, true, cberr.IndexNotFound},
		classify(one(query.ServerError{Code: 5000, Message: text})))
	for _, code := range []int{0, 1065, 4999, 5001, 12008, 14000} {
		got := classify(one(query.ServerError{Code: code, Message: text}))
		require.False(t, got.ok, "code %d", code)
		require.NotEqual(t, cberr.IndexNotFound, got.err)
	}
	// Among other 5000s it is the text that decides.
	require.False(t, classify(one(query.ServerError{Code: 5000, Message: "index x not found"})).ok)
}

// TestNestedReasonsB89: a cause's code says what a 12009 was about, at any depth.
func TestNestedReasonsB89(t *testing.T) {
	for cause, want := range map[int]error{
		12033: cberr.CASMismatch, 17014: cberr.DocumentNotFound, 17012: cberr.DocumentExists, 17000: cberr.DMLFailure,
	} {
		for _, form := range []string{
			`{"code":12009,"msg":"x","reason":{"code":%d}}`,
			`{"code":12009,"msg":"x","cause":{"code":%d}}`,
			`{"code":"12009","msg":"x","reason":{"code":"%d"}}`,
			`{"code":12009,"msg":"x","reason":{"code":1,"cause":{"cause":{"code":%d}}}}`,
		} {
			errs := query.ParseErrors([]json.RawMessage{json.RawMessage(fmt.Sprintf(form, cause))})
			require.Equal(t, final(want), classify(query.Answer{Errors: errs}), form)
		}
	}
	// The cause of another code means nothing.
	require.Equal(t, final(cberr.PlanningFailure), classify(one(query.ServerError{Code: 4000, Causes: []int{12033}})))
}

func TestOnlyTheFirstErrorDecides(t *testing.T) {
	a := query.Answer{HTTPStatus: 200, Errors: []query.ServerError{{Code: 3000}, {Code: 4050, Retry: true}}}
	require.Equal(t, final(cberr.ParsingFailure), classify(a))
}

// TestServiceTimeoutD116: unambiguous only for statements that read.
func TestServiceTimeoutD116(t *testing.T) {
	a := one(query.ServerError{Code: 1080, Message: "Timeout 1s exceeded"})
	require.Equal(t, final(cberr.AmbiguousTimeout), classify(a))
	a.Readonly = true
	require.Equal(t, final(cberr.UnambiguousTimeout), classify(a))

	for _, body := range []string{`{"errors":[{"code":1080}]}`, `{"results":[],"status":"timeout"}`} {
		for readonly, want := range map[bool]error{false: cberr.AmbiguousTimeout, true: cberr.UnambiguousTimeout} {
			_, err := run(t, 200, body, &query.Request{Statement: "x", Readonly: readonly})
			var e *query.Error
			require.ErrorAs(t, err, &e)
			require.ErrorIs(t, e, want, "%s, readonly: %v", body, readonly)
			require.Equal(t, !readonly, e.Ambiguous())
		}
	}
}

func TestAnswersWithoutErrors(t *testing.T) {
	for status := 100; status < 600; status++ {
		var want error
		switch {
		case status == 401 || status == 403:
			want = cberr.AuthenticationFailure
		case status < 200 || status > 299:
			want = cberr.Couchbase
		}
		require.Equal(t, final(want), classify(query.Answer{HTTPStatus: status}))
	}
}

// TestRealAnswers classifies answers of real servers.
func TestRealAnswers(t *testing.T) {
	want := map[string]verdict{
		"query_failure_cas_mismatch_71.json":  final(cberr.CASMismatch),
		"query_failure_doc_exists_71.json":    final(cberr.DocumentExists),
		"query_failure_doc_not_found_71.json": final(cberr.DocumentNotFound),
		"query_failure_retry_true.json":       {retry.QueryErrorRetryable, true, cberr.Couchbase}, // of a read
		"query_rows_errors.json":              final(cberr.CASMismatch),
		"query_rows_unknown_errors.json":      final(cberr.AuthenticationFailure),
	}
	files, err := filepath.Glob("testdata/*.json")
	require.NoError(t, err)
	require.Len(t, files, len(want))
	for _, f := range files {
		src, err := os.Open(f)
		require.NoError(t, err)
		r := httpsvc.NewRowReader(src, "results", httpsvc.Limits{})
		require.Equal(t, httpsvc.FoundErrors, r.Peek())
		_, ok := r.Next()
		require.False(t, ok)
		require.NoError(t, r.Err())
		require.NoError(t, src.Close())
		require.Equal(t, want[filepath.Base(f)],
			classify(query.Answer{HTTPStatus: 400, Errors: query.ParseErrors(r.Errors()), Readonly: true}), f)
	}
}

// TestTextsAreOnlySearchedD109 has texts that other clients cut apart at fixed places.
func TestTextsAreOnlySearchedD109(t *testing.T) {
	for _, message := range []string{
		"", ":", ".", "`", "``", "default:", "Keyspace not found in CB datastore: ",
		"Keyspace not found in CB datastore: default",
		"Keyspace not found in CB datastore: default:", "Keyspace not found in CB datastore: default:a.b",
		"Keyspace not found in CB datastore: default:`a.b", "Keyspace not found keyspace: `",
		"Scope not found in CB datastore default:",
		"Bucket not found in CB datastore - cause: No bucket named", "index", "index not", "GSI index", "The index",
		"not found",
		"index\x00\xff not found", "Duplicate Key:", "User does not have credentials to run",
	} {
		for _, code := range []int{1065, 3230, 5000, 12003, 12009, 12021, 13014, 17012} {
			for _, status := range []int{0, 200, 400, 500} {
				a := query.Answer{HTTPStatus: status, Errors: []query.ServerError{{Code: code, Message: message}}}
				require.Error(t, classify(a).err)
			}
		}
	}
}

// TestErrorFieldsOfOtherTypesD110 leaves out what cannot be read.
func TestErrorFieldsOfOtherTypesD110(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want query.ServerError
	}{
		{`{}`, query.ServerError{}},
		{`null`, query.ServerError{}},
		{`"text"`, query.ServerError{}},
		{`[1]`, query.ServerError{}},
		{`{`, query.ServerError{}},
		{`{"code":"x","msg":7,"retry":1,"reason":"y"}`, query.ServerError{Message: "7"}},
		{`{"code":null,"msg":null,"retry":null,"reason":null}`, query.ServerError{}},
		{`{"code":1e1,"msg":{"a":1},"retry":"true"}`, query.ServerError{Code: 10, Message: `{"a":1}`, Retry: true}},
		{`{"code":12009,"reason":{"code":"abc"}}`, query.ServerError{Code: 12009}},
		{`{"code":12009,"reason":{"code":{"code":1}}}`, query.ServerError{Code: 12009}},
		{`{"code":12009,"reason":[{"code":12033}]}`, query.ServerError{Code: 12009}},
	} {
		c.want.Raw = json.RawMessage(c.raw)
		require.Equal(t, []query.ServerError{c.want}, query.ParseErrors([]json.RawMessage{json.RawMessage(c.raw)}))
	}
}

// FuzzClassify reads any error entry: it never panics, and always has a kind.
func FuzzClassify(f *testing.F) {
	f.Add([]byte(`{"code":5000,"msg":"queryport.indexNotFound","retry":true,"reason":{"code":12033,"cause":{"code":1}}}`), 200, true)
	f.Add([]byte(`{"code":12009,"msg":"index"}`), 500, false)
	f.Add([]byte(`{"code":[],"msg":{},"reason":{"reason":{"reason":null}}}`), 0, false)
	f.Fuzz(func(t *testing.T, raw []byte, status int, readonly bool) {
		errs := query.ParseErrors([]json.RawMessage{raw})
		require.Len(t, errs, 1)
		require.LessOrEqual(t, len(errs[0].Causes), 16)
		reason, ok, err := query.Classify(query.Answer{HTTPStatus: status, Errors: errs, Readonly: readonly})
		require.Error(t, err)
		require.Equal(t, ok, reason != retry.Unknown)
		if ok && !readonly { // a statement that only reads may have other reasons
			require.True(t, reason.AllowsNonIdempotent())
		}
	})
}
