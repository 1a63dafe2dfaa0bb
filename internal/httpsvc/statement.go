package httpsvc

import (
	"slices"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Statement is what a service that executes statements, query or analytics, has said of one.
type Statement struct {
	Codes      Codes // the service's table
	HTTPStatus int
	Status     string // how the statement ended: "success", "errors", "timeout" ...; "": the answer does not say
	Errors     []Entry
	Mutations  uint64       // how many documents the answer says that the statement changed
	Counted    bool         // the answer has metrics
	Readonly   bool         // the request said that the statement changes nothing
	Hint       retry.Reason // of a read that the service says may be sent again
}

// endings are the states of a statement that did not succeed although no error is listed.
var endings = map[string]*cberr.Kind{
	"errors": cberr.Couchbase, "fatal": cberr.Couchbase, "failed": cberr.Couchbase, "stopped": cberr.RequestCanceled,
	"aborted": cberr.RequestCanceled, "closed": cberr.RequestCanceled, "timeout": cberr.AmbiguousTimeout,
}

func (s *Statement) ending() *cberr.Kind { return endings[strings.ToLower(s.Status)] }

// Classify says what the answer means: the kind of its failure, nil for a success, and the reason for which the
// statement may be sent again, Unknown for none. The first entry of the error list decides. AmbiguousTimeout in the
// table stands for both kinds of timeout: a statement that only reads is never ambiguous.
//
// The service's own word that a statement may be sent again counts for statements that change nothing; the others are
// sent again for the codes of the table alone, which tell that nothing was executed. Nothing is sent again after a
// timeout.
func (s *Statement) Classify() (retry.Reason, *cberr.Kind) {
	reason, kind := retry.Unknown, s.ending()
	switch {
	case len(s.Errors) > 0:
		e := &s.Errors[0]
		row := s.Codes.Find(e)
		if reason, kind = row.Reason, row.Kind; reason == retry.Unknown && e.Again && s.reads() {
			reason = s.Hint
		}
		if s.Mutations > 0 || s.TimedOut() || s.InDoubt() {
			reason = retry.Unknown
		}
	case s.HTTPStatus == 401 || s.HTTPStatus == 403:
		kind = cberr.AuthenticationFailure
	case kind == nil && (s.HTTPStatus < 200 || s.HTTPStatus > 299):
		kind = cberr.Couchbase
	}
	if kind == cberr.AmbiguousTimeout && s.reads() {
		kind = cberr.UnambiguousTimeout
	}
	return reason, kind
}

// reads reports whether the statement changes nothing: the request says so, and the answer counts no changes.
func (s *Statement) reads() bool { return s.Readonly && s.Mutations == 0 }

// TimedOut reports whether a time limit ended the statement, or a part of it. The words for it do not count in texts
// that may quote the statement, whose names may have them.
func (s *Statement) TimedOut() bool {
	return strings.EqualFold(s.Status, "timeout") || slices.ContainsFunc(s.Errors, func(e Entry) bool {
		switch effect := s.Codes.Find(&e).Effect; effect { //nolint:exhaustive // the others say nothing of time
		case TimeLimit:
			return true
		case NotCompiled:
			return false
		}
		return strings.Contains(e.Message, "timeout") || strings.Contains(e.Message, "timed out")
	})
}

// InDoubt reports whether the service may have executed a part of the failed statement; never of one that changes
// nothing.
func (s *Statement) InDoubt() bool {
	switch {
	case s.reads():
		return false
	case s.Mutations > 0 || s.TimedOut():
		return true
	case len(s.Errors) == 0:
		return s.ending() != nil
	}
	effect := s.Codes.Find(&s.Errors[0]).Effect
	return effect != NotCompiled && effect != NotExecuted && (effect != Counted || !s.Counted)
}

// Verdict is what the answer means for the request: reason and e.Kind are those of Classify, err is the service's error
// that embeds e, and said is what the first entry of the error list says.
func (s *Statement) Verdict(a *Answer, reason retry.Reason, err error, e *Failure, said string) Verdict {
	v := Verdict{Err: err, Overload: e.Kind == cberr.RateLimited, InDoubt: s.InDoubt()}
	e.InDoubt = s.Mutations > 0
	if len(s.Errors) == 0 {
		if e.Text = a.Text; a.OK() {
			e.Text = string(a.Meta)
		}
		v.General = s.Mutations == 0
		return v
	}
	e.Say(said)
	if code := s.Errors[0].Code; code > 0 {
		v.Code = uint32(code)
	}
	v.Reason = reason
	// A status such as 503 tells of a node that cannot take requests now, whatever the list names. Writes are the
	// list's alone.
	v.General = s.reads() && !v.Overload && !s.TimedOut()
	return v
}
