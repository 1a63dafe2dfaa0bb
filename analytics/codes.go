package analytics

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
	Code      int
	Message   string
	Retriable bool // the service says that the same statement may succeed if sent again
	Raw       json.RawMessage
}

// ParseErrors reads the entries of an answer's error list. A field that is missing or of another type is left at its
// zero value.
func ParseErrors(list []json.RawMessage) []ServerError {
	out := make([]ServerError, 0, len(list))
	for _, raw := range list {
		m := httpsvc.Object(raw)
		e := ServerError{Message: httpsvc.Text(m["msg"]), Retriable: httpsvc.Bool(m["retriable"]), Raw: raw}
		e.Code, _ = httpsvc.Int(m["code"])
		out = append(out, e)
	}
	return out
}

// Answer is what the service said of a statement.
type Answer struct {
	HTTPStatus int
	Errors     []ServerError
	Status     string // how the statement has ended: "success", "fatal", "timeout" ...; empty: the answer does not say
	Mutations  uint64 // that the answer's metrics count
	Readonly   bool   // the request said that the statement changes nothing
}

// Classify says what an answer means: the kind of its failure, nil when it is none, and the reason for which it may be
// retried, with ok false when it may not. The first entry of the error list decides.
//
// The service's own word that a statement may be sent again is heard where nothing can have been executed: never after
// a timeout, and only for statements that change nothing. Others are sent again for the codes that the retry RFC lists.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	reason, err = a.classify()
	if reason != retry.Unknown && (a.Mutations > 0 || a.InDoubt() || a.timedOut()) {
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
	if e.Retriable && a.Readonly { // the service's own word, whatever the code
		reason = retry.AnalyticsTemporaryFailure
	}
	for _, r := range rows {
		if e.Code < r.low || e.Code > r.high {
			continue
		}
		if r.reason != retry.Unknown {
			reason = r.reason
		}
		if r.kind == cberr.AmbiguousTimeout && a.Readonly {
			return reason, cberr.UnambiguousTimeout
		}
		return reason, r.kind
	}
	return reason, cberr.Couchbase
}

// failedStatus are the states of a statement that has not come to its end although no error is listed.
var failedStatus = map[string]*cberr.Kind{
	"errors": cberr.Couchbase, "fatal": cberr.Couchbase, "failed": cberr.Couchbase, "stopped": cberr.RequestCanceled,
	"aborted": cberr.RequestCanceled, "closed": cberr.RequestCanceled, "timeout": cberr.AmbiguousTimeout,
}

// timeoutCode is that of the service's own timeout.
const timeoutCode = 21002

// timedOut reports whether the statement, or a part of it, has run into a time limit. The compiler's texts repeat parts
// of it, whose names may have the word.
func (a *Answer) timedOut() bool {
	return strings.EqualFold(a.Status, "timeout") || slices.ContainsFunc(a.Errors, func(e ServerError) bool {
		message := strings.ToLower(e.Message)
		return e.Code == timeoutCode ||
			!compiling(e.Code) && (strings.Contains(message, "timeout") || strings.Contains(message, "timed out"))
	})
}

// compiling reports whether a code is of the compiler or of the privileges.
func compiling(code int) bool {
	return code >= 20000 && code <= 20999 || code >= 24000 && code <= 24999
}

// refused reports whether a code comes before a statement is executed.
func refused(code int) bool {
	return slices.ContainsFunc(rows, func(r row) bool { return r.refusal && code >= r.low && code <= r.high })
}

// InDoubt reports whether the service may have executed a part of a statement that has failed. It is false for
// statements that change nothing.
func (a Answer) InDoubt() bool {
	switch {
	case a.Readonly:
		return false
	case a.Mutations > 0 || a.timedOut():
		return true
	case len(a.Errors) == 0:
		return failedStatus[strings.ToLower(a.Status)] != nil
	}
	return !refused(a.Errors[0].Code)
}

// row is a row of the table of errors: a range of codes, what kind of failure they are, the reason for which they may
// be retried, Unknown for none, and whether nothing was executed.
type row struct {
	low, high int
	kind      *cberr.Kind
	reason    retry.Reason
	refusal   bool // it comes before the statement is executed
}

// rows is the table of errors; the first match counts. Sources: SDK RFC 0058 for the kinds, RFC 0049 for the reasons;
// 21002 is the service's timeout. AmbiguousTimeout stands for both: a statement that only reads is never ambiguous.
var rows = []row{
	{20000, 20999, cberr.AuthenticationFailure, retry.Unknown, true},
	{21002, 21002, cberr.AmbiguousTimeout, retry.Unknown, false},
	{23000, 23000, cberr.TemporaryFailure, retry.AnalyticsTemporaryFailure, true},
	{23003, 23003, cberr.TemporaryFailure, retry.AnalyticsTemporaryFailure, true},
	{23007, 23007, cberr.JobQueueFull, retry.AnalyticsTemporaryFailure, true},
	{24000, 24000, cberr.ParsingFailure, retry.Unknown, true},
	{24006, 24006, cberr.LinkNotFound, retry.Unknown, true},
	{24025, 24025, cberr.DatasetNotFound, retry.Unknown, true},
	{24034, 24034, cberr.DataverseNotFound, retry.Unknown, true},
	{24039, 24039, cberr.DataverseExists, retry.Unknown, true},
	{24040, 24040, cberr.DatasetExists, retry.Unknown, true},
	{24044, 24045, cberr.DatasetNotFound, retry.Unknown, true},
	{24047, 24047, cberr.IndexNotFound, retry.Unknown, true},
	{24048, 24048, cberr.IndexExists, retry.Unknown, true},
	{24000, 24999, cberr.CompilationFailure, retry.Unknown, true},
	{25000, 25999, cberr.InternalServerFailure, retry.Unknown, false},
}

// Codes are the rows of the table of errors.
func Codes() []httpsvc.CodeRow {
	list := make([]httpsvc.CodeRow, 0, len(rows))
	for _, r := range rows {
		list = append(list, httpsvc.CodeRow{Low: r.low, High: r.high, Kind: r.kind, Reason: r.reason})
	}
	return list
}
