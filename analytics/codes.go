package analytics

import (
	"encoding/json"

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
	Readonly   bool // what the request said: it decides whether the service's own timeout is ambiguous
}

// Classify says what an answer means: the kind of its failure, nil when it is none, and the reason for which it may be
// retried, with ok false when it may not. The first entry of the error list decides.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	if len(a.Errors) == 0 {
		switch {
		case a.HTTPStatus == 401 || a.HTTPStatus == 403:
			return retry.Unknown, false, cberr.AuthenticationFailure
		case a.HTTPStatus < 200 || a.HTTPStatus > 299:
			return retry.Unknown, false, cberr.Couchbase
		}
		return retry.Unknown, false, nil
	}
	e := a.Errors[0]
	if e.Retriable { // the service's own word, whatever the code
		reason, ok = retry.AnalyticsTemporaryFailure, true
	}
	for _, r := range rows {
		if e.Code < r.low || e.Code > r.high {
			continue
		}
		if r.reason != retry.Unknown {
			reason, ok = r.reason, true
		}
		if r.kind == cberr.AmbiguousTimeout && a.Readonly {
			return reason, ok, cberr.UnambiguousTimeout
		}
		return reason, ok, r.kind
	}
	return reason, ok, cberr.Couchbase
}

// row is a row of the table of errors: a range of codes, what kind of failure they are, and the reason for which they
// may be retried, Unknown for none.
type row struct {
	low, high int
	kind      *cberr.Kind
	reason    retry.Reason
}

// rows is the table of errors; the first match counts. Sources: SDK RFC 0058 for the kinds, RFC 0049 for the reasons;
// 21002 is the service's timeout. AmbiguousTimeout stands for both: a statement that only reads is never ambiguous.
var rows = []row{
	{20000, 20999, cberr.AuthenticationFailure, retry.Unknown},
	{21002, 21002, cberr.AmbiguousTimeout, retry.Unknown},
	{23000, 23000, cberr.TemporaryFailure, retry.AnalyticsTemporaryFailure},
	{23003, 23003, cberr.TemporaryFailure, retry.AnalyticsTemporaryFailure},
	{23007, 23007, cberr.JobQueueFull, retry.AnalyticsTemporaryFailure},
	{24000, 24000, cberr.ParsingFailure, retry.Unknown},
	{24006, 24006, cberr.LinkNotFound, retry.Unknown},
	{24025, 24025, cberr.DatasetNotFound, retry.Unknown},
	{24034, 24034, cberr.DataverseNotFound, retry.Unknown},
	{24039, 24039, cberr.DataverseExists, retry.Unknown},
	{24040, 24040, cberr.DatasetExists, retry.Unknown},
	{24044, 24045, cberr.DatasetNotFound, retry.Unknown},
	{24047, 24047, cberr.IndexNotFound, retry.Unknown},
	{24048, 24048, cberr.IndexExists, retry.Unknown},
	{24000, 24999, cberr.CompilationFailure, retry.Unknown},
	{25000, 25999, cberr.InternalServerFailure, retry.Unknown},
}
