package query

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
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

// Classify says what an answer means: the kind of its failure, nil when it is none, and the reason for which it may be
// retried, with ok false when it may not. The first entry of the error list decides.
//
// The service's own word that a statement may be sent again is heard where nothing can have been executed: never after
// a timeout, after which the request's time is over as well, and only for statements that change nothing. Others are
// sent again for the codes that the retry RFC lists, which come before the execution. A missing plan is made again only
// if it is the client's own.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	reason, err = a.classify()
	if reason != retry.Unknown && (a.mutations() > 0 || a.InDoubt()) {
		reason = retry.Unknown
	}
	return reason, reason != retry.Unknown, err
}

func (a *Answer) classify() (reason retry.Reason, err error) {
	if len(a.Errors) == 0 {
		switch kind := failedStatus[strings.ToLower(a.Status)]; {
		case a.HTTPStatus == 401 || a.HTTPStatus == 403:
			return retry.Unknown, cberr.AuthenticationFailure
		case kind == cberr.AmbiguousTimeout && a.Readonly:
			return retry.Unknown, cberr.UnambiguousTimeout
		case kind != nil:
			return retry.Unknown, kind
		case a.HTTPStatus < 200 || a.HTTPStatus > 299:
			return retry.Unknown, cberr.Couchbase
		}
		return retry.Unknown, nil
	}
	e := a.Errors[0]
	message := strings.ToLower(e.Message)
	for _, r := range retries {
		if r.match(e, message) {
			reason = r.reason
			break
		}
	}
	switch {
	case reason == retry.QueryPreparedStatementFailure && !a.Plan,
		reason == retry.QueryErrorRetryable && (!a.Readonly || a.timedOut()):
		reason = retry.Unknown
	}
	for _, k := range kinds {
		if !k.match(e, message) {
			continue
		}
		if k.kind == cberr.AmbiguousTimeout && a.Readonly {
			return reason, cberr.UnambiguousTimeout
		}
		return reason, k.kind
	}
	return reason, cberr.Couchbase
}

// failedStatus are the states of a statement that has not come to its end although no error is listed.
var failedStatus = map[string]*cberr.Kind{
	"errors": cberr.Couchbase, "fatal": cberr.Couchbase, "stopped": cberr.RequestCanceled,
	"aborted": cberr.RequestCanceled,
	"closed":  cberr.RequestCanceled, "timeout": cberr.AmbiguousTimeout,
}

// timedOut reports whether the statement, or a part of it, has run into a time limit. The texts of errors that come
// before a statement is executed repeat parts of it, whose names may have the word.
func (a *Answer) timedOut() bool {
	if strings.EqualFold(a.Status, "timeout") {
		return true
	}
	for _, e := range a.Errors {
		message := strings.ToLower(e.Message)
		switch {
		case slices.Contains(timeouts, e.Code):
			return true
		case among(refused, e, message):
		case strings.Contains(message, "timeout") || strings.Contains(message, "timed out"):
			return true
		}
	}
	return false
}

// mutations is how many documents the answer says that the statement has changed.
func (a *Answer) mutations() uint64 {
	n := a.Metrics.Mutations
	for _, e := range a.Errors {
		n = max(n, e.mutations)
	}
	return n
}

// timeouts are the codes of time limits. Source: the table of codes of the query service.
var timeouts = []int{1080, 7012, 12015, 16057, 16060, 17010, 19221, 20011}

// InDoubt reports whether the service may have executed a part of a statement that has failed. It is false for
// statements that change nothing.
func (a Answer) InDoubt() bool {
	if a.Readonly {
		return false
	}
	if a.mutations() > 0 || a.timedOut() {
		return true
	}
	if len(a.Errors) == 0 {
		return failedStatus[strings.ToLower(a.Status)] != nil
	}
	e := a.Errors[0]
	message := strings.ToLower(e.Message)
	counted := a.Metrics != Metrics{}
	return !among(refused, e, message) && !among(notExecuted, e, message) &&
		!(counted && among(executedSoFar, e, message))
}

func among(rules []rule, e ServerError, message string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool { return r.match(e, message) })
}

// refused are the codes of errors that come before a statement is executed. Source: the service's table of codes. 1194,
// 1195, 1202, 1203 and 1204 end statements that run.
var refused = []rule{
	codes(1000, 1079), codes(1081, 1193), codes(1196, 1201), codes(2000, 4999), codes(10000, 10999), code(13014),
}

// notExecuted are texts of such errors, of a code that has others as well.
var notExecuted = []rule{
	saying(5000, noScanIndex, parts("index", "not found"), parts("index does not exist"),
		parts("index", "already exist"),
		parts("limit for number of indexes")),
}

// executedSoFar are errors that end a statement while it is executed, in a part of the service that counts what was
// written before: the evaluation of expressions and the data service's refusals. The others say nothing about it.
var executedSoFar = []rule{codes(5003, 5999), codes(12000, 12999)}

// rule picks errors out by code, and by text or cause where a code has several meanings.
type rule struct {
	low, high int        // codes, both inclusive
	cause     int        // a cause's code; 0 asks for none
	texts     [][]string // lower-case parts that stand in the message one after the other, of any of the lists
}

func (r *rule) match(e ServerError, message string) bool {
	if e.Code < r.low || e.Code > r.high {
		return false
	}
	if r.cause != 0 {
		found := false
		for _, c := range e.Causes {
			found = found || c == r.cause
		}
		if !found {
			return false
		}
	}
	if len(r.texts) == 0 {
		return true
	}
	for _, parts := range r.texts {
		if inOrder(message, parts) {
			return true
		}
	}
	return false
}

// inOrder reports whether the parts stand in text one after the other.
func inOrder(text string, parts []string) bool {
	for _, p := range parts {
		var found bool
		if _, text, found = strings.Cut(text, p); !found {
			return false
		}
	}
	return true
}

func code(c int) rule                      { return rule{low: c, high: c} }
func codes(low, high int) rule             { return rule{low: low, high: high} }
func causedBy(c, cause int) rule           { return rule{low: c, high: c, cause: cause} }
func saying(c int, texts ...[]string) rule { return rule{low: c, high: c, texts: texts} }
func parts(inThisOrder ...string) []string { return inThisOrder }

// noScanIndex is how the service forwards its index client's error, under code 5000.
var noScanIndex = parts("queryport.indexnotfound")

// retryRow is a row of the table of answers that may be retried.
type retryRow struct {
	rule
	hint   bool // only if the service says so itself
	reason retry.Reason
}

func (r *retryRow) match(e ServerError, message string) bool {
	return (e.Retry || !r.hint) && r.rule.match(e, message)
}

// retries is the table of answers that may be retried; the first match counts. Sources: SDK RFC 0049 for the codes,
// RFC 0058 for the last three of prepared statements.
var retries = []retryRow{
	{rule: code(4040), reason: retry.QueryPreparedStatementFailure},
	{rule: code(4050), reason: retry.QueryPreparedStatementFailure},
	{rule: code(4060), reason: retry.QueryPreparedStatementFailure},
	{rule: code(4070), reason: retry.QueryPreparedStatementFailure},
	{rule: code(4080), reason: retry.QueryPreparedStatementFailure},
	{rule: code(4090), reason: retry.QueryPreparedStatementFailure},
	{rule: saying(5000, noScanIndex), reason: retry.QueryIndexNotFound},
	{rule: codes(math.MinInt, 12015), hint: true, reason: retry.QueryErrorRetryable},
	{rule: codes(12017, math.MaxInt), hint: true, reason: retry.QueryErrorRetryable},
}

// kindRow is a row of the table of errors.
type kindRow struct {
	rule
	kind *cberr.Kind
}

// kinds is the table of errors; the first match counts. Source: SDK RFC 0058, which wins where SDKs read a code
// differently. AmbiguousTimeout stands for both: a statement that only reads is never ambiguous.
var kinds = []kindRow{
	{saying(1065, parts("query_context"), parts("preserve_expiry"), parts("use_replica")), cberr.FeatureNotAvailable},
	{code(1080), cberr.AmbiguousTimeout},
	{codes(1191, 1194), cberr.RateLimited},
	{code(1197), cberr.FeatureNotAvailable},
	{code(2120), cberr.AuthenticationFailure},
	{code(3000), cberr.ParsingFailure},
	{saying(3230, parts("advisor"), parts("advise"), parts("query window functions")), cberr.FeatureNotAvailable},
	{code(4040), cberr.PreparedStatementFailure},
	{code(4050), cberr.PreparedStatementFailure},
	{code(4060), cberr.PreparedStatementFailure},
	{code(4070), cberr.PreparedStatementFailure},
	{code(4080), cberr.PreparedStatementFailure},
	{code(4090), cberr.PreparedStatementFailure},
	{code(4300), cberr.IndexExists},
	{codes(4000, 4999), cberr.PlanningFailure},
	{saying(5000, parts("index", "not found"), parts("index does not exist"), noScanIndex), cberr.IndexNotFound},
	{saying(5000, parts("index", "already exist")), cberr.IndexExists},
	{
		saying(5000, parts("limit for number of indexes that can be created per scope has been reached")),
		cberr.QuotaLimited,
	},
	{codes(5000, 5999), cberr.InternalServerFailure},
	{codes(10000, 10999), cberr.AuthenticationFailure},
	{code(12004), cberr.IndexNotFound},
	{code(12016), cberr.IndexNotFound},
	{causedBy(12009, 12033), cberr.CASMismatch},
	{causedBy(12009, 17014), cberr.DocumentNotFound},
	{causedBy(12009, 17012), cberr.DocumentExists},
	{saying(12009, parts("cas mismatch")), cberr.CASMismatch},
	{code(12009), cberr.DMLFailure},
	{codes(12000, 12999), cberr.IndexFailure},
	{codes(14000, 14999), cberr.IndexFailure},
	{code(13014), cberr.AuthenticationFailure},
}

// Codes are the rows of the table of errors, as Classify has them for a readonly statement whose plan the client keeps.
func Codes() []httpsvc.CodeRow {
	var list []httpsvc.CodeRow
	for _, k := range kinds {
		texts := k.texts
		if len(texts) == 0 {
			texts = [][]string{nil}
		}
		for _, parts := range texts {
			e, when := ServerError{Code: k.low, Message: strings.Join(parts, " ")}, ""
			switch {
			case k.cause != 0:
				e.Causes, when = []int{k.cause}, "caused by "+strconv.Itoa(k.cause)
			case len(parts) > 0:
				when = "with the text \"" + strings.Join(parts, " ... ") + "\""
			}
			reason, _, _ := Classify(Answer{Errors: []ServerError{e}, Readonly: true, Plan: true})
			list = append(list, httpsvc.CodeRow{Low: k.low, High: k.high, When: when, Kind: k.kind, Reason: reason})
		}
	}
	return list
}
