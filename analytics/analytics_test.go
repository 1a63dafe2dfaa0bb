package analytics_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/analytics"
	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

type verdict struct {
	reason retry.Reason
	ok     bool
	err    error
}

func classify(a analytics.Answer) verdict {
	reason, ok, err := analytics.Classify(a)
	return verdict{reason, ok, err}
}

func final(err error) verdict { return verdict{retry.Unknown, false, err} }

// wantKind is SDK RFC 0058's list again.
func wantKind(code int) error {
	if kind := map[int]error{
		21002: cberr.AmbiguousTimeout, 23000: cberr.TemporaryFailure, 23003: cberr.TemporaryFailure,
		23007: cberr.JobQueueFull,
		24000: cberr.ParsingFailure, 24006: cberr.LinkNotFound, 24025: cberr.DatasetNotFound,
		24044: cberr.DatasetNotFound,
		24045: cberr.DatasetNotFound, 24034: cberr.DataverseNotFound, 24039: cberr.DataverseExists,
		24040: cberr.DatasetExists,
		24047: cberr.IndexNotFound, 24048: cberr.IndexExists,
	}[code]; kind != nil {
		return kind
	}
	switch code / 1000 {
	case 20:
		return cberr.AuthenticationFailure
	case 24:
		return cberr.CompilationFailure
	case 25:
		return cberr.InternalServerFailure
	}
	return cberr.Couchbase
}

// TestCB57CB63EveryCodeD77D117 gives every code with and without the service's retry hint. Without it three codes are
// retried (CB-63) and no other (CB-57); with it all are, of statements that only read.
func TestCB57CB63EveryCodeD77D117(t *testing.T) {
	temporary := map[int]bool{23000: true, 23003: true, 23007: true}
	for code := -2; code <= 30000; code++ {
		e := analytics.ServerError{Code: code}
		want := final(wantKind(code))
		if temporary[code] {
			want.reason, want.ok = retry.AnalyticsTemporaryFailure, true
		}
		if got := classify(analytics.Answer{HTTPStatus: 500, Errors: []analytics.ServerError{e}}); got != want {
			t.Fatalf("code %d is %v, not %v", code, got, want)
		}
		e.Retriable = true
		if got := classify(analytics.Answer{HTTPStatus: 500, Errors: []analytics.ServerError{e}}); got != want {
			t.Fatalf("code %d of a write with the hint is %v, not %v", code, got, want)
		}
		want.reason, want.ok = retry.AnalyticsTemporaryFailure, true
		if code == 21002 {
			want = final(cberr.UnambiguousTimeout)
		}
		if got := classify(analytics.Answer{
			HTTPStatus: 500, Errors: []analytics.ServerError{e},
			Readonly: true,
		}); got != want {
			t.Fatalf("code %d of a read with the hint is %v, not %v", code, got, want)
		}
	}
}

func TestOnlyTheFirstErrorDecides(t *testing.T) {
	a := analytics.Answer{HTTPStatus: 200, Errors: []analytics.ServerError{
		{Code: 24000},
		{Code: 23000, Retriable: true},
	}}
	require.Equal(t, final(cberr.ParsingFailure), classify(a))
}

func TestServiceTimeout(t *testing.T) {
	a := analytics.Answer{Errors: []analytics.ServerError{{Code: 21002}}}
	require.Equal(t, final(cberr.AmbiguousTimeout), classify(a))
	a.Readonly = true
	require.Equal(t, final(cberr.UnambiguousTimeout), classify(a))
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
		require.Equal(t, final(want), classify(analytics.Answer{HTTPStatus: status}))
	}
}

func TestErrorFieldsOfOtherTypesD110(t *testing.T) {
	for raw, want := range map[string]analytics.ServerError{
		`{"code":23000,"msg":"x","retriable":true}`: {Code: 23000, Message: "x", Retriable: true},
		`{"code":"23000","retriable":"true"}`:       {Code: 23000, Retriable: true},
		`{"code":{},"msg":[],"retriable":1}`:        {Message: "[]"},
		`null`:                                      {},
		`"text"`:                                    {},
		`{`:                                         {},
	} {
		want.Raw = json.RawMessage(raw)
		require.Equal(t, []analytics.ServerError{want}, analytics.ParseErrors([]json.RawMessage{json.RawMessage(raw)}))
	}
}

// TestCB54IdempotentIffReadonly has every way to say so.
func TestCB54IdempotentIffReadonly(t *testing.T) {
	for _, c := range []struct {
		r    analytics.Request
		want bool
	}{
		{analytics.Request{Statement: "SELECT 1"}, false},
		{analytics.Request{Statement: "SELECT 1", Readonly: true}, true},
		{analytics.Request{Statement: "SELECT 1", Raw: map[string]any{"readonly": true}}, true},
		{analytics.Request{Statement: "SELECT 1", Readonly: true, Raw: map[string]any{"readonly": false}}, false},
		{analytics.Request{Statement: "SELECT 1", Readonly: true, Raw: map[string]any{"readonly": 1}}, false},
	} {
		require.Equal(t, c.want, c.r.Idempotent())
		h, err := c.r.HTTP()
		require.NoError(t, err)
		require.Equal(t, c.want, h.Idempotent)
	}
}

func TestEveryFieldIsSent(t *testing.T) {
	r := analytics.Request{
		Statement: "SELECT 1", Bucket: "b", Scope: "s", Positional: []any{1}, Named: map[string]any{"n": 2, "$m": 3},
		Readonly: true, RequestPlus: true, Priority: true, ClientContextID: "mine", Timeout: 3 * time.Second,
		Raw: map[string]any{"extra": true}, OnBehalfOf: "jane", Endpoint: "n1:8095",
	}
	h, err := r.HTTP()
	require.NoError(t, err)
	raw, err := h.Body(2500 * time.Millisecond)
	require.NoError(t, err)
	require.JSONEq(t, `{"statement":"SELECT 1","query_context":"default:`+"`b`.`s`"+`","args":[1],"$n":2,"$m":3,"readonly":true,
		"scan_consistency":"request_plus","client_context_id":"mine","timeout":"2.5s","extra":true}`, string(raw))
	h.Body = nil
	require.Equal(t, &httpsvc.Request{
		Service: httpsvc.Analytics, Operation: "analytics", Method: "POST", Path: "/query/service",
		Header: map[string]string{"Analytics-Priority": "-1"}, ContentType: "application/json", Idempotent: true,
		UniqueID: "mine", Timeout: 3 * time.Second, Endpoint: "n1:8095", OnBehalfOf: "jane",
	}, h)

	zero := analytics.Request{Statement: "SELECT 1"}
	h, err = zero.HTTP()
	require.NoError(t, err)
	require.Nil(t, h.Header)
	raw, err = h.Body(0)
	require.NoError(t, err)
	require.JSONEq(t, `{"statement":"SELECT 1","client_context_id":"`+h.UniqueID+`","timeout":"1ms"}`, string(raw))
	same, err := h.Body(0)
	require.NoError(t, err)
	require.Equal(t, string(raw), string(same))
}

func TestRequestsThatCannotBeSentNameTheField(t *testing.T) {
	for field, r := range map[string]analytics.Request{
		"Statement is empty":            {},
		"Bucket is set without a Scope": {Statement: "x", Bucket: "b"},
		"Scope is set without a Bucket": {Statement: "x", Scope: "s"},
		"Timeout is negative":           {Statement: "x", Timeout: -1},
		"an argument cannot be encoded": {Statement: "x", Named: map[string]any{"a": func() {}}},
	} {
		h, err := r.HTTP()
		require.Nil(t, h)
		require.ErrorIs(t, err, cberr.InvalidArgument)
		require.ErrorContains(t, err, field)
	}
}
