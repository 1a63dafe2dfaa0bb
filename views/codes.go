package views

import (
	"encoding/json"
	"slices"
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

// Classify says what an answer means: the kind of its failure, or nil, and the reason for which it may be
// retried, with ok false when it may not.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	if a.HTTPStatus >= 200 && a.HTTPStatus <= 299 {
		if len(a.Errors) > 0 {
			return retry.Unknown, false, cberr.Couchbase
		}
		return retry.Unknown, false, nil
	}
	e := httpsvc.Entry{Code: a.HTTPStatus, Message: strings.ToLower(a.Text)}
	row := table.Find(&e)
	if row.Kind == cberr.Couchbase && says(&e, "not_found") {
		row.Kind = cberr.ViewNotFound
	}
	return row.Reason, row.Reason != retry.Unknown, row.Kind
}

// says reports whether the answer has the text anywhere, since it is not always JSON, and may have been cut off.
func says(e *httpsvc.Entry, text string) bool { return strings.Contains(e.Message, text) }

// missing reports whether the answer is a 404 that may pass: the field "reason" of its JSON object is "missing".
func missing(e *httpsvc.Entry) bool {
	return httpsvc.Text(httpsvc.Object(json.RawMessage(e.Message))["reason"]) == "missing"
}

// passing reports whether a failure of the view engine may pass: those of a view that does not exist and of a bad
// argument come again.
func passing(e *httpsvc.Entry) bool {
	return !says(e, "error") || !(says(e, "not_found") && says(e, "missing_named_view")) && !says(e, `"badarg"`)
}

// Code is a row of the table of codes: which answers it is about, and what they mean. Its fields: the codes from Low to
// High, the Cause or the Texts that an error must have, and If, which asks for more and which When says in words; then
// the Kind of the failure, the Reason for which the request may be sent again, and the Effect, how much was executed.
type Code = httpsvc.Code

// Codes is the table of answers of the view engine; its first matching row counts.
func Codes() []Code { return slices.Clone(table) }

// table is the table of answers. Source: SDK RFC 0049, whose list has 302 twice: a redirect means that the node has no
// active partition, and is not followed.
var table = httpsvc.Codes{
	{Low: 302, High: 302, Kind: cberr.Couchbase, Reason: retry.ViewsNoActivePartition},
	passes(300, cberr.Couchbase), passes(301, cberr.Couchbase), passes(303, cberr.Couchbase),
	passes(307, cberr.Couchbase), passes(401, cberr.AuthenticationFailure),
	{
		Low: 404, High: 404, If: missing, When: `whose reason is "missing"`, Kind: cberr.ViewNotFound,
		Reason: retry.ViewsTemporaryFailure,
	},
	{Low: 404, High: 404, Kind: cberr.ViewNotFound},
	passes(408, cberr.Couchbase), passes(409, cberr.Couchbase), passes(412, cberr.Couchbase),
	passes(416, cberr.Couchbase), passes(417, cberr.Couchbase),
	{
		Low: 500, High: 500, If: passing, When: `without "badarg", and not about a missing named view`,
		Kind: cberr.Couchbase, Reason: retry.ViewsTemporaryFailure,
	},
	passes(501, cberr.Couchbase), passes(502, cberr.Couchbase), passes(503, cberr.Couchbase),
	passes(504, cberr.Couchbase),
}

// passes is the row of an HTTP status that may not come again.
func passes(status int, kind *cberr.Kind) httpsvc.Code {
	return httpsvc.Code{Low: status, High: status, Kind: kind, Reason: retry.ViewsTemporaryFailure}
}
