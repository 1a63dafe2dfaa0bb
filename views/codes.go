package views

import (
	"encoding/json"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// ServerError is one entry of the error list that stands behind the rows: what failed on one node.
type ServerError struct {
	From   string
	Reason string
	Raw    json.RawMessage
}

// ParseErrors reads the entries of an answer's error list. A field that is missing or of another type is left as it
// can be read.
func ParseErrors(list []json.RawMessage) []ServerError {
	out := make([]ServerError, 0, len(list))
	for _, raw := range list {
		m := httpsvc.Object(raw)
		out = append(out, ServerError{From: httpsvc.Text(m["from"]), Reason: httpsvc.Text(m["reason"]), Raw: raw})
	}
	return out
}

// Answer is what the view engine said of a query, where that is not its rows.
type Answer struct {
	HTTPStatus int
	Text       string        // the body, or as much of it as was kept
	Errors     []ServerError // the error list of an answer with rows
}

// Classify says what an answer means: the kind of its failure, nil when it is none, and the reason for which it may be
// retried, with ok false when it may not.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	if a.HTTPStatus >= 200 && a.HTTPStatus <= 299 {
		if len(a.Errors) > 0 {
			return retry.Unknown, false, cberr.Couchbase
		}
		return retry.Unknown, false, nil
	}
	body := bodyOf(a.Text)
	for _, r := range retries {
		if r.status == a.HTTPStatus && (r.unless == nil || !r.unless(body)) {
			reason, ok = r.reason, true
			break
		}
	}
	switch {
	case a.HTTPStatus == 401:
		return reason, ok, cberr.AuthenticationFailure
	case a.HTTPStatus == 404 || body.says("not_found"):
		return reason, ok, cberr.ViewNotFound
	}
	return reason, ok, cberr.Couchbase
}

// body is what an error answer holds, in lower case. Most rules search all of it, since it is not always JSON, and
// may have been cut off.
type body struct {
	text   string
	reason string // the field "reason" of a JSON object
}

func bodyOf(text string) body {
	return body{
		text:   strings.ToLower(text),
		reason: strings.ToLower(httpsvc.Text(httpsvc.Object(json.RawMessage(text))["reason"])),
	}
}

func (b body) says(text string) bool { return strings.Contains(b.text, text) }

// notMissing are the 404s that will not pass: all but the one whose reason is "missing".
func notMissing(b body) bool { return b.reason != "missing" }

// lasting are the failures of the view engine that come again: no such view, and a bad argument.
func lasting(b body) bool {
	return b.says("error") && (b.says("not_found") && b.says("missing_named_view") || b.says(`"badarg"`))
}

// retryRow is a row of the table of answers that may be retried.
type retryRow struct {
	status int
	unless func(body) bool // answers with this status that may not be; nil for none
	reason retry.Reason
	when   string // what unless asks of the answer, in words
}

// retries is the table of answers that may be retried. Source: SDK RFC 0049, whose list has 302 twice: a redirect means
// that the node has no active partition, and is not followed.
var retries = []retryRow{
	{status: 302, reason: retry.ViewsNoActivePartition},
	{status: 300, reason: retry.ViewsTemporaryFailure},
	{status: 301, reason: retry.ViewsTemporaryFailure},
	{status: 303, reason: retry.ViewsTemporaryFailure},
	{status: 307, reason: retry.ViewsTemporaryFailure},
	{status: 401, reason: retry.ViewsTemporaryFailure},
	{404, notMissing, retry.ViewsTemporaryFailure, `whose reason is "missing"`},
	{status: 408, reason: retry.ViewsTemporaryFailure},
	{status: 409, reason: retry.ViewsTemporaryFailure},
	{status: 412, reason: retry.ViewsTemporaryFailure},
	{status: 416, reason: retry.ViewsTemporaryFailure},
	{status: 417, reason: retry.ViewsTemporaryFailure},
	{500, lasting, retry.ViewsTemporaryFailure, `without "badarg", and not about a missing named view`},
	{status: 501, reason: retry.ViewsTemporaryFailure},
	{status: 502, reason: retry.ViewsTemporaryFailure},
	{status: 503, reason: retry.ViewsTemporaryFailure},
	{status: 504, reason: retry.ViewsTemporaryFailure},
}

// Codes are the rows of the table of answers that may be retried, each with its kind.
func Codes() []httpsvc.CodeRow {
	list := make([]httpsvc.CodeRow, 0, len(retries))
	for _, r := range retries {
		_, _, kind := Classify(Answer{HTTPStatus: r.status})
		row := httpsvc.CodeRow{Low: r.status, High: r.status, When: r.when, Reason: r.reason, Kind: cberr.KindOf(kind)}
		list = append(list, row)
	}
	return list
}
