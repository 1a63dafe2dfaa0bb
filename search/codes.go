package search

import (
	"slices"
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

// Classify says what an answer means: the kind of its failure, or nil, and the reason for which it may be
// retried, with ok false when it may not. A search that failed on some partitions is not a failure: its metadata names
// them.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	if a.HTTPStatus >= 200 && a.HTTPStatus <= 299 {
		return retry.Unknown, false, nil
	}
	row := table.Find(&httpsvc.Entry{Code: a.HTTPStatus, Message: strings.ToLower(a.Text), Scoped: a.Scoped})
	return row.Reason, row.Reason != retry.Unknown, row.Kind
}

// Code is a row of the table of codes: which answers it is about, and what they mean. Its fields: the codes from Low to
// High, the Cause or the Texts that an error must have, and If, which asks for more and which When says in words; then
// the Kind of the failure, the Reason for which the request may be sent again, and the Effect, how much was executed.
type Code = httpsvc.Code

// Codes is the table of answers of the search service; its first matching row counts.
func Codes() []Code { return slices.Clone(table) }

// table is the table of answers. Sources: SDK RFC 0058 for the kinds, RFC 0049 for the reason. A server without indexes
// of scopes does not know their path.
var table = httpsvc.Codes{
	failed(400, cberr.IndexNotFound, "index not found"),
	failed(400, cberr.QuotaLimited, "num_fts_indexes"),
	failed(401, cberr.AuthenticationFailure, ""),
	failed(403, cberr.AuthenticationFailure, ""),
	{
		Low: 404, High: 404, If: func(e *httpsvc.Entry) bool { return e.Scoped }, When: "for an index of a scope",
		Kind: cberr.FeatureNotAvailable,
	},
	tooMany(cberr.RateLimited, "num_concurrent_requests"),
	tooMany(cberr.RateLimited, "num_queries_per_min"),
	tooMany(cberr.RateLimited, "ingress_mib_per_min"),
	tooMany(cberr.RateLimited, "egress_mib_per_min"),
	tooMany(cberr.Couchbase, ""),
	failed(500, cberr.InternalServerFailure, ""),
}

// failed is the row of an HTTP status, with a text that the body has; "" for any.
func failed(status int, kind *cberr.Kind, text string) httpsvc.Code {
	c := httpsvc.Code{Low: status, High: status, Kind: kind}
	if text != "" {
		c.Texts = [][]string{{text}}
	}
	return c
}

// tooMany is the row of an answer that asks for fewer requests.
func tooMany(kind *cberr.Kind, text string) httpsvc.Code {
	c := failed(429, kind, text)
	c.Reason = retry.SearchTooManyRequests
	return c
}
