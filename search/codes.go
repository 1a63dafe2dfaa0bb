package search

import (
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Answer is what the service said of a search, where that is not its hits.
type Answer struct {
	HTTPStatus int
	Text       string // the body, or as much of it as was kept
	Scoped     bool   // the request named an index of a scope
}

// Classify says what an answer means: the kind of its failure, nil when it is none, and the reason for which it may be
// retried, with ok false when it may not. A search that failed on some partitions is not a failure: its metadata names
// them.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	if a.HTTPStatus >= 200 && a.HTTPStatus <= 299 {
		return retry.Unknown, false, nil
	}
	text := strings.ToLower(a.Text)
	for _, r := range rows {
		if r.status == a.HTTPStatus && (a.Scoped || !r.scoped) && strings.Contains(text, r.text) {
			return r.reason, r.reason != retry.Unknown, r.kind
		}
	}
	return retry.Unknown, false, cberr.Couchbase
}

// row is a row of the table of answers: an HTTP status, a lower-case text that the body holds ("" for any), whether
// it counts for indexes of a scope only, what kind of failure it is, and the reason for which it may be retried.
type row struct {
	status int
	text   string
	scoped bool
	kind   *cberr.Kind
	reason retry.Reason
}

// rows is the table of answers; the first match counts. Sources: SDK RFC 0058 for the kinds, RFC 0049 for the reason.
// A server without indexes of scopes does not know their path.
var rows = []row{
	{400, "index not found", false, cberr.IndexNotFound, retry.Unknown},
	{400, "num_fts_indexes", false, cberr.QuotaLimited, retry.Unknown},
	{401, "", false, cberr.AuthenticationFailure, retry.Unknown},
	{403, "", false, cberr.AuthenticationFailure, retry.Unknown},
	{404, "", true, cberr.FeatureNotAvailable, retry.Unknown},
	{429, "num_concurrent_requests", false, cberr.RateLimited, retry.SearchTooManyRequests},
	{429, "num_queries_per_min", false, cberr.RateLimited, retry.SearchTooManyRequests},
	{429, "ingress_mib_per_min", false, cberr.RateLimited, retry.SearchTooManyRequests},
	{429, "egress_mib_per_min", false, cberr.RateLimited, retry.SearchTooManyRequests},
	{429, "", false, cberr.Couchbase, retry.SearchTooManyRequests},
	{500, "", false, cberr.InternalServerFailure, retry.Unknown},
}

// Codes are the rows of the table of answers.
func Codes() []httpsvc.CodeRow {
	list := make([]httpsvc.CodeRow, 0, len(rows))
	for _, r := range rows {
		when := ""
		switch {
		case r.text != "":
			when = "with the text \"" + r.text + "\""
		case r.scoped:
			when = "for an index of a scope"
		}
		list = append(list, httpsvc.CodeRow{Low: r.status, High: r.status, When: when, Kind: r.kind, Reason: r.reason})
	}
	return list
}
