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

// Classify says what an answer means: the kind of its failure, or nil, and the reason for which it may be
// retried, with ok false when it may not. The first entry of the error list decides.
//
// The service's own word that a statement may be sent again is heard where nothing can have been executed: never after
// a timeout, and only for statements that change nothing. Others are sent again for the codes that the retry RFC lists.
func Classify(a Answer) (reason retry.Reason, ok bool, err error) {
	reason, kind := a.statement().Classify()
	if kind != nil {
		err = kind
	}
	return reason, reason != retry.Unknown, err
}

// InDoubt reports whether the service may have executed a part of a statement that has failed. It is false for
// statements that change nothing.
func (a Answer) InDoubt() bool { return a.statement().InDoubt() }

func (a *Answer) statement() *httpsvc.Statement {
	s := &httpsvc.Statement{
		Codes: table, HTTPStatus: a.HTTPStatus, Status: a.Status, Readonly: a.Readonly, Mutations: a.Mutations,
		Hint: retry.AnalyticsTemporaryFailure,
	}
	for _, e := range a.Errors {
		s.Errors = append(s.Errors, httpsvc.Entry{
			Code: e.Code, Message: strings.ToLower(e.Message), Again: e.Retriable,
		})
	}
	return s
}

// Code is a row of the table of codes: which answers it is about, and what they mean. Its fields: the codes from Low to
// High, the Cause or the Texts that an error must have, and If, which asks for more and which When says in words; then
// the Kind of the failure, the Reason for which the request may be sent again, and the Effect, how much was executed.
type Code = httpsvc.Code

// Codes is the table of errors of the analytics service; its first matching row counts.
func Codes() []Code { return slices.Clone(table) }

// table is the table of errors. Sources: SDK RFC 0058 for the kinds, RFC 0049 for the reasons; 21002 is the service's
// timeout.
var table = httpsvc.Codes{
	failed(20000, 20999, cberr.AuthenticationFailure, httpsvc.NotCompiled),
	failed(21002, 21002, cberr.AmbiguousTimeout, httpsvc.TimeLimit),
	busy(23000, cberr.TemporaryFailure),
	busy(23003, cberr.TemporaryFailure),
	busy(23007, cberr.JobQueueFull),
	failed(24000, 24000, cberr.ParsingFailure, httpsvc.NotCompiled),
	failed(24006, 24006, cberr.LinkNotFound, httpsvc.NotCompiled),
	failed(24025, 24025, cberr.DatasetNotFound, httpsvc.NotCompiled),
	failed(24034, 24034, cberr.DataverseNotFound, httpsvc.NotCompiled),
	failed(24039, 24039, cberr.DataverseExists, httpsvc.NotCompiled),
	failed(24040, 24040, cberr.DatasetExists, httpsvc.NotCompiled),
	failed(24044, 24045, cberr.DatasetNotFound, httpsvc.NotCompiled),
	failed(24047, 24047, cberr.IndexNotFound, httpsvc.NotCompiled),
	failed(24048, 24048, cberr.IndexExists, httpsvc.NotCompiled),
	failed(24000, 24999, cberr.CompilationFailure, httpsvc.NotCompiled),
	failed(25000, 25999, cberr.InternalServerFailure, httpsvc.EffectUnknown),
}

func failed(low, high int, kind *cberr.Kind, effect httpsvc.Effect) httpsvc.Code {
	return httpsvc.Code{Low: low, High: high, Kind: kind, Effect: effect}
}

// busy is the row of a code that says that the service did not take the statement.
func busy(code int, kind *cberr.Kind) httpsvc.Code {
	return httpsvc.Code{
		Low: code, High: code, Kind: kind, Reason: retry.AnalyticsTemporaryFailure, Effect: httpsvc.NotExecuted,
	}
}
