package query

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// ServerError is one entry of an answer's error list, as far as it could be read.
type ServerError struct {
	Code    int
	Message string
	Retry   bool  // the service says that the same statement may succeed if sent again
	Causes  []int // codes of its reason and of that one's causes, outermost first
	Raw     json.RawMessage

	mutations uint64 // that the cause counts
}

// mostCauses bounds how deep the causes of an error are followed.
const mostCauses = 16

// ParseErrors reads the entries of an answer's error list. A field that is missing or of another type is left at its
// zero value.
func ParseErrors(list []json.RawMessage) []ServerError {
	out := make([]ServerError, 0, len(list))
	for _, raw := range list {
		m := httpsvc.Object(raw)
		e := ServerError{Message: httpsvc.Text(m["msg"]), Retry: httpsvc.Bool(m["retry"]), Raw: raw}
		e.Code, _ = httpsvc.Int(m["code"])
		e.mutations = httpsvc.Uint(httpsvc.Object(m["cause"])["mutationCount"])
		for range mostCauses {
			next := httpsvc.Object(m["reason"])
			if next == nil {
				next = httpsvc.Object(m["cause"])
			}
			if m = next; m == nil {
				break
			}
			if code, ok := httpsvc.Int(m["code"]); ok {
				e.Causes = append(e.Causes, code)
			}
		}
		out = append(out, e)
	}
	return out
}

// Answer is what the service said of a statement.
type Answer struct {
	HTTPStatus int
	Errors     []ServerError
	// how the statement has ended: "success", "errors", "timeout" ...; empty: the answer does not say
	Status   string
	Metrics  Metrics // their zero value: the answer has none
	Readonly bool    // the request said that the statement changes nothing
	Plan     bool    // the request runs, or makes and runs, a plan that the client keeps
}

// Classify says what an answer means: the kind of its failure, or nil, and the reason for which it may be
// retried, with ok false when it may not. The first entry of the error list decides.
//
// The service's own word that a statement may be sent again is heard where nothing can have been executed: never after
// a timeout, after which the request's time is over as well, and only for statements that change nothing. Others are
// sent again for the codes that the retry RFC lists, which come before the execution. A missing plan is made again only
// if it is the client's own.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	reason, kind := a.classify(a.statement())
	if kind != nil {
		err = kind
	}
	return reason, reason != retry.Unknown, err
}

func (a *Answer) classify(s *httpsvc.Statement) (retry.Reason, *cberr.Kind) {
	reason, kind := s.Classify()
	if reason == retry.QueryPreparedStatementFailure && !a.Plan {
		reason = retry.Unknown
	}
	return reason, kind
}

// InDoubt reports whether the service may have executed a part of a statement that has failed. It is false for
// statements that change nothing.
func (a Answer) InDoubt() bool { return a.statement().InDoubt() }

// noHint is the one code whose hint does not count. Source: SDK RFC 0049.
const noHint = 12016

func (a *Answer) statement() *httpsvc.Statement {
	s := &httpsvc.Statement{
		Codes: table, HTTPStatus: a.HTTPStatus, Status: a.Status, Readonly: a.Readonly,
		Mutations: a.Metrics.Mutations, Counted: a.Metrics != Metrics{}, Hint: retry.QueryErrorRetryable,
	}
	for _, e := range a.Errors {
		s.Mutations = max(s.Mutations, e.mutations)
		s.Errors = append(s.Errors, httpsvc.Entry{
			Code: e.Code, Message: strings.ToLower(e.Message), Causes: e.Causes, Again: e.Retry && e.Code != noHint,
		})
	}
	return s
}

// Code is a row of the table of codes: which answers it is about, and what they mean. Its fields: the codes from Low to
// High, the Cause or the Texts that an error must have, and If, which asks for more and which When says in words; then
// the Kind of the failure, the Reason for which the request may be sent again, and the Effect, how much was executed.
type Code = httpsvc.Code

// Codes is the table of errors of the query service; its first matching row counts.
func Codes() []Code { return slices.Clone(table) }

// table is the table of errors. Sources: SDK RFC 0058 for the kinds, which wins where SDKs read a code differently; SDK
// RFC 0049 for the reasons, RFC 0058 for the last three of prepared statements; the service's own table of codes for
// the effects and the time limits. 1194, 1195, 1202, 1203 and 1204 end statements that run.
var table = httpsvc.Codes{
	failed(1065, 1065, cberr.FeatureNotAvailable, httpsvc.NotCompiled, saying("query_context"),
		saying("preserve_expiry"), saying("use_replica")),
	failed(1080, 1080, cberr.AmbiguousTimeout, httpsvc.TimeLimit),
	failed(1191, 1193, cberr.RateLimited, httpsvc.NotCompiled),
	failed(1194, 1194, cberr.RateLimited, httpsvc.EffectUnknown),
	failed(1000, 1193, cberr.Couchbase, httpsvc.NotCompiled),
	failed(1197, 1197, cberr.FeatureNotAvailable, httpsvc.NotCompiled),
	failed(1196, 1201, cberr.Couchbase, httpsvc.NotCompiled),
	failed(2120, 2120, cberr.AuthenticationFailure, httpsvc.NotCompiled),
	failed(3000, 3000, cberr.ParsingFailure, httpsvc.NotCompiled),
	failed(3230, 3230, cberr.FeatureNotAvailable, httpsvc.NotCompiled, saying("advisor"), saying("advise"),
		saying("query window functions")),
	planLost(4040), planLost(4050), planLost(4060), planLost(4070), planLost(4080), planLost(4090),
	failed(4300, 4300, cberr.IndexExists, httpsvc.NotCompiled),
	failed(4000, 4999, cberr.PlanningFailure, httpsvc.NotCompiled),
	failed(2000, 4999, cberr.Couchbase, httpsvc.NotCompiled),
	{
		// This is how the service forwards its index client's error.
		Low: 5000, High: 5000, Texts: [][]string{saying("queryport.indexnotfound")},
		Kind: cberr.IndexNotFound, Reason: retry.QueryIndexNotFound, Effect: httpsvc.NotExecuted,
	},
	failed(5000, 5000, cberr.IndexNotFound, httpsvc.NotExecuted, saying("index", "not found"),
		saying("index does not exist")),
	failed(5000, 5000, cberr.IndexExists, httpsvc.NotExecuted, saying("index", "already exist")),
	failed(5000, 5000, cberr.QuotaLimited, httpsvc.NotExecuted,
		saying("limit for number of indexes that can be created per scope has been reached")),
	failed(5000, 5000, cberr.InternalServerFailure, httpsvc.NotExecuted, saying("limit for number of indexes")),
	failed(5003, 5999, cberr.InternalServerFailure, httpsvc.Counted),
	failed(5000, 5999, cberr.InternalServerFailure, httpsvc.EffectUnknown),
	failed(7012, 7012, cberr.Couchbase, httpsvc.TimeLimit),
	failed(10000, 10999, cberr.AuthenticationFailure, httpsvc.NotCompiled),
	failed(12004, 12004, cberr.IndexNotFound, httpsvc.Counted),
	causedBy(12033, cberr.CASMismatch), causedBy(17014, cberr.DocumentNotFound), causedBy(17012, cberr.DocumentExists),
	failed(12009, 12009, cberr.CASMismatch, httpsvc.Counted, saying("cas mismatch")),
	failed(12009, 12009, cberr.DMLFailure, httpsvc.Counted),
	failed(12015, 12015, cberr.IndexFailure, httpsvc.TimeLimit),
	failed(12016, 12016, cberr.IndexNotFound, httpsvc.Counted),
	failed(12000, 12999, cberr.IndexFailure, httpsvc.Counted),
	failed(13014, 13014, cberr.AuthenticationFailure, httpsvc.NotCompiled),
	failed(14000, 14999, cberr.IndexFailure, httpsvc.EffectUnknown),
	failed(16057, 16057, cberr.Couchbase, httpsvc.TimeLimit),
	failed(16060, 16060, cberr.Couchbase, httpsvc.TimeLimit),
	failed(17010, 17010, cberr.Couchbase, httpsvc.TimeLimit),
	failed(19221, 19221, cberr.Couchbase, httpsvc.TimeLimit),
	failed(20011, 20011, cberr.Couchbase, httpsvc.TimeLimit),
}

func failed(low, high int, kind *cberr.Kind, effect httpsvc.Effect, texts ...[]string) httpsvc.Code {
	return httpsvc.Code{Low: low, High: high, Texts: texts, Kind: kind, Effect: effect}
}

func saying(parts ...string) []string { return parts }

// planLost is the row of a code that says that the service cannot use a plan.
func planLost(code int) httpsvc.Code {
	return httpsvc.Code{
		Low: code, High: code, Kind: cberr.PreparedStatementFailure, Reason: retry.QueryPreparedStatementFailure,
		Effect: httpsvc.NotCompiled,
	}
}

// causedBy is the row of a failed mutation whose cause has that code.
func causedBy(cause int, kind *cberr.Kind) httpsvc.Code {
	return httpsvc.Code{Low: 12009, High: 12009, Cause: cause, Kind: kind, Effect: httpsvc.Counted}
}
