package views_test

import (
	"encoding/json"
	"io"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/views"
)

type verdict struct {
	reason retry.Reason
	ok     bool
	err    error
}

func classify(status int, text string) verdict {
	reason, ok, err := views.Classify(views.Answer{HTTPStatus: status, Text: text})
	return verdict{reason, ok, err}
}

// TestCB57CB65CB66EveryStatusD77D115 gives every status without a body: those of the RFC's list are retried (CB-65,
// CB-66), and no other (CB-57). 404 needs its reason.
func TestCB57CB65CB66EveryStatusD77D115(t *testing.T) {
	listed := map[int]bool{
		300: true, 301: true, 303: true, 307: true, 401: true, 408: true, 409: true, 412: true, 416: true, 417: true,
		500: true, 501: true, 502: true, 503: true, 504: true,
	}
	for status := 0; status < 1000; status++ {
		want := verdict{err: cberr.Couchbase}
		switch {
		case status == 302:
			want.reason, want.ok = retry.ViewsNoActivePartition, true
		case listed[status]:
			want.reason, want.ok = retry.ViewsTemporaryFailure, true
		}
		switch {
		case status >= 200 && status <= 299:
			want.err = nil
		case status == 401:
			want.err = cberr.AuthenticationFailure
		case status == 404:
			want.err = cberr.ViewNotFound
		}
		require.Equal(t, want, classify(status, ""), "status %d", status)
	}
	require.True(t, retry.ViewsNoActivePartition.AlwaysRetry())
}

func TestBodiesThatDecide(t *testing.T) {
	again := func(err error) verdict { return verdict{retry.ViewsTemporaryFailure, true, err} }
	final := func(err error) verdict { return verdict{retry.Unknown, false, err} }
	for _, c := range []struct {
		status int
		text   string
		want   verdict
	}{
		{404, `{"error":"not_found","reason":"missing"}`, again(cberr.ViewNotFound)},
		{404, `{ "reason" : "missing" }`, again(cberr.ViewNotFound)},
		{404, `{"error":"not_found","reason":"deleted"}`, final(cberr.ViewNotFound)},
		{404, `{"error":"not_found","reason":"missing_named_view"}`, final(cberr.ViewNotFound)},
		{404, `{"error":"missing","reason":1}`, final(cberr.ViewNotFound)},
		{404, `"reason":"missing"`, final(cberr.ViewNotFound)},
		{404, `Object Not Found`, final(cberr.ViewNotFound)},
		{500, `{"error":"error","reason":"{not_found, missing_named_view}"}`, final(cberr.ViewNotFound)},
		{500, `{"error":"{not_found,missing_named_view}","reason":"x"}`, final(cberr.ViewNotFound)},
		{500, `{"error":"case_clause","reason":"{not_found, missing_named_view}" and cut o`, final(cberr.ViewNotFound)},
		{500, `{"error":"badarg","reason":"x"}`, final(cberr.Couchbase)},
		{500, `{"error":"x","reason":"\"badarg\""}`, again(cberr.Couchbase)},
		{500, `{"error":"not_found","reason":"x"}`, again(cberr.ViewNotFound)},
		{500, `{"error":"missing_named_view"}`, again(cberr.Couchbase)},
		{500, `Internal`, again(cberr.Couchbase)},
		{500, `{`, again(cberr.Couchbase)},
		{502, `{"error":"badarg"}`, again(cberr.Couchbase)},
		{400, `{"error":"query_parse_error","reason":"x"}`, final(cberr.Couchbase)},
		{401, `{"error":"unauthorized"}`, again(cberr.AuthenticationFailure)},
		{302, `{"error":"not_found","reason":"missing"}`, verdict{retry.ViewsNoActivePartition, true, cberr.ViewNotFound}},
	} {
		require.Equal(t, c.want, classify(c.status, c.text), "%d %s", c.status, c.text)
	}
}

func TestErrorsBehindRows(t *testing.T) {
	errs := views.ParseErrors([]json.RawMessage{
		json.RawMessage(`{"from":"http://n1:8092","reason":"timeout"}`), json.RawMessage(`{"from":1,"reason":null}`), json.RawMessage(`7`),
	})
	require.Len(t, errs, 3)
	require.Equal(t, "http://n1:8092", errs[0].From)
	require.Equal(t, "timeout", errs[0].Reason)
	require.Equal(t, "1", errs[1].From)
	require.Empty(t, errs[1].Reason)
	require.Equal(t, views.ServerError{Raw: json.RawMessage(`7`)}, errs[2])

	reason, ok, err := views.Classify(views.Answer{HTTPStatus: 200, Errors: errs})
	require.Equal(t, verdict{retry.Unknown, false, cberr.Couchbase}, verdict{reason, ok, err})
}

// TestCB55AlwaysIdempotent proves the half of CB-55 that is about views: also when the request is a POST.
func TestCB55AlwaysIdempotent(t *testing.T) {
	r := views.Request{Bucket: "b", Design: "d", View: "v"}
	for _, keys := range [][]any{nil, {strings.Repeat("x", 2000)}} {
		r.Keys = keys
		require.True(t, r.Idempotent())
		h, err := r.HTTP()
		require.NoError(t, err)
		require.True(t, h.Idempotent)
	}
}

func TestZeroRequestSendsOnlyWhatIsNeeded(t *testing.T) {
	r := views.Request{Bucket: "beer sample", Design: "a/b", View: "c?d"}
	h, err := r.HTTP()
	require.NoError(t, err)
	require.Equal(t, &httpsvc.Request{
		Service: httpsvc.Views, Operation: "views", Method: "GET", Path: "/beer%20sample/_design/a%2Fb/_view/c%3Fd",
		Query: url.Values{}, Idempotent: true, UniqueID: h.UniqueID, Bucket: "beer sample",
	}, h)
	require.Len(t, h.UniqueID, 36)
}

func TestEveryFieldIsSent(t *testing.T) {
	r := views.Request{
		Bucket: "b", Design: "d", View: "v", Development: true, Stale: views.StaleUpdateAfter, Order: views.Descending,
		OnError: views.OnErrorContinue, Skip: 1, Limit: 2, Key: "k&=", Keys: []any{1, nil}, StartKey: []any{"a", 1},
		EndKey: json.RawMessage("null"), StartKeyDocID: "s", EndKeyDocID: "e", InclusiveEnd: views.Off,
		Reduce: views.On,
		Group:  true, GroupLevel: 3, Debug: true, UniqueID: "mine", Timeout: time.Second,
		Raw:        map[string]string{"full_set": "true", "limit": "9"},
		OnBehalfOf: "jane", Endpoint: "n1:8092",
	}
	h, err := r.HTTP()
	require.NoError(t, err)
	require.Equal(t, url.Values{
		"stale": {"update_after"}, "descending": {"true"}, "on_error": {"continue"}, "skip": {"1"}, "limit": {"9"},
		"key": {`"k\u0026="`}, "keys": {"[1,null]"}, "startkey": {`["a",1]`}, "endkey": {"null"}, "startkey_docid": {"s"},
		"endkey_docid": {"e"}, "inclusive_end": {"false"}, "reduce": {"true"}, "group": {"true"}, "group_level": {"3"},
		"debug": {"true"}, "full_set": {"true"},
	}, h.Query)
	require.Equal(t, "/b/_design/dev_d/_view/v", h.Path)
	require.Equal(t, "mine", h.UniqueID)
	require.Equal(t, time.Second, h.Timeout)
	require.Equal(t, "jane", h.OnBehalfOf)
	require.Equal(t, "n1:8092", h.Endpoint)

	for _, c := range []struct {
		r           views.Request
		name, value string
	}{
		{views.Request{Stale: views.StaleFalse}, "stale", "false"},
		{views.Request{Stale: views.StaleOK}, "stale", "ok"},
		{views.Request{Order: views.Ascending}, "descending", "false"},
		{views.Request{OnError: views.OnErrorStop}, "on_error", "stop"},
		{views.Request{InclusiveEnd: views.On}, "inclusive_end", "true"},
		{views.Request{Reduce: views.Off}, "reduce", "false"},
	} {
		c.r.Bucket, c.r.Design, c.r.View = "b", "d", "v"
		h, err := c.r.HTTP()
		require.NoError(t, err)
		require.Equal(t, url.Values{c.name: {c.value}}, h.Query)
	}
}

// TestManyKeysGoIntoABody: a long query string would be refused.
func TestManyKeysGoIntoABody(t *testing.T) {
	for n, method := range map[int]string{996: "GET", 997: "POST"} { // with quotes and brackets 1000 and 1001 bytes
		r := views.Request{Bucket: "b", Design: "d", View: "v", Limit: 1, Keys: []any{strings.Repeat("x", n)}}
		h, err := r.HTTP()
		require.NoError(t, err)
		require.Equal(t, method, h.Method)
		if method == "GET" {
			require.Nil(t, h.Body)
			require.Len(t, h.Query.Get("keys"), 1000)
			continue
		}
		require.Equal(t, url.Values{"limit": {"1"}}, h.Query)
		require.Equal(t, "application/json", h.ContentType)
		raw, err := h.Body(time.Second)
		require.NoError(t, err)
		require.JSONEq(t, `{"keys":["`+strings.Repeat("x", n)+`"]}`, string(raw))
	}
}

func TestRequestsThatCannotBeSentNameTheField(t *testing.T) {
	for field, change := range map[string]func(*views.Request){
		"Bucket is empty":         func(r *views.Request) { r.Bucket = "" },
		"Design is empty":         func(r *views.Request) { r.Design = "" },
		"View is empty":           func(r *views.Request) { r.View = "" },
		"Stale is unknown":        func(r *views.Request) { r.Stale = 4 },
		"Order is unknown":        func(r *views.Request) { r.Order = 3 },
		"OnError is unknown":      func(r *views.Request) { r.OnError = 3 },
		"a Toggle is unknown":     func(r *views.Request) { r.Reduce = 3 },
		"a number is negative":    func(r *views.Request) { r.Limit = -1 },
		"Timeout is negative":     func(r *views.Request) { r.Timeout = -1 },
		"a key cannot be encoded": func(r *views.Request) { r.EndKey = func() {} },
	} {
		r := views.Request{Bucket: "b", Design: "d", View: "v"}
		change(&r)
		h, err := r.HTTP()
		require.Nil(t, h)
		require.ErrorIs(t, err, cberr.InvalidArgument, field)
		require.ErrorContains(t, err, field)
	}
}

// FuzzClassify reads any answer with rows (F12): the outcome is the same however it arrives, and no error body panics.
func FuzzClassify(f *testing.F) {
	f.Add(404, []byte(`{"error":"not_found","reason":"missing"}`))
	f.Add(200, []byte(`{"total_rows":3,"rows":[{"id":"a","key":[1],"value":null}],"errors":[{"from":"n1","reason":"x"}]}`))
	f.Add(500, []byte(`{"error":{"a":1},"reason":[1]}`))
	f.Fuzz(func(t *testing.T, status int, text []byte) {
		read := func(step int) (rows, reasons []string, err error) {
			r := httpsvc.NewRowReader(&stepReader{text, step}, "rows", httpsvc.Limits{})
			for row, ok := r.Next(); ok; row, ok = r.Next() {
				rows = append(rows, string(row))
			}
			for _, e := range views.ParseErrors(r.Errors()) {
				reasons = append(reasons, e.Reason)
			}
			return rows, reasons, r.Err()
		}
		rows, reasons, err := read(1 << 20)
		slowRows, slowReasons, slowErr := read(1)
		require.Equal(t, rows, slowRows)
		require.Equal(t, reasons, slowReasons)
		require.Equal(t, err, slowErr)

		reason, ok, kind := views.Classify(views.Answer{HTTPStatus: status, Text: string(text)})
		require.Equal(t, ok, reason != retry.Unknown)
		require.Equal(t, kind == nil, status >= 200 && status <= 299)
	})
}

// stepReader gives at most step bytes at once.
type stepReader struct {
	tail []byte
	step int
}

func (s *stepReader) Read(p []byte) (int, error) {
	if len(s.tail) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.step)], s.tail)
	s.tail = s.tail[n:]
	return n, nil
}
