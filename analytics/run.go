package analytics

import (
	"context"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Run sends a statement with d and gives its rows as soon as the first one is there, or none is to come. It blocks until
// then, at most until the request's deadline, which binds the rows as well. The error is an *Error, or says which field
// cannot be sent.
func Run(ctx context.Context, d httpsvc.Doer, r *Request) (*Rows, error) {
	h, err := r.HTTP()
	if err != nil {
		return nil, err
	}
	rows, err := httpsvc.OpenRows(ctx, d, h, httpsvc.RowService{
		Key: "results", Judge: func(a *httpsvc.Answer) httpsvc.Verdict { return verdict(a, r) },
	})
	if err != nil {
		return nil, wrap(err, r, h.UniqueID)
	}
	return &Rows{rows: rows, r: r, id: h.UniqueID}, nil
}

// failedStatus are the states of a statement that has not come to its end although no error is listed.
var failedStatus = map[string]*cberr.Kind{
	"errors": cberr.Couchbase, "fatal": cberr.Couchbase, "failed": cberr.Couchbase, "stopped": cberr.RequestCanceled,
	"aborted": cberr.RequestCanceled, "closed": cberr.RequestCanceled, "timeout": cberr.AmbiguousTimeout,
}

// verdict says what an answer means.
func verdict(a *httpsvc.Answer, r *Request) httpsvc.Verdict {
	if a.Row {
		return httpsvc.Verdict{}
	}
	e := &Error{Errors: ParseErrors(a.Errors), Status: a.Status, Endpoint: a.Endpoint}
	why, again, err := Classify(Answer{HTTPStatus: a.Status, Errors: e.Errors, Readonly: r.Idempotent()})
	if err == nil && a.Meta != nil {
		if kind := failedStatus[ParseMeta(a.Meta).Status]; kind != nil {
			if kind == cberr.AmbiguousTimeout && r.Idempotent() {
				kind = cberr.UnambiguousTimeout
			}
			err, e.Text = kind, string(a.Meta)
		}
	}
	if err == nil {
		return httpsvc.Verdict{}
	}
	e.Kind = cberr.KindOf(err)
	v := httpsvc.Verdict{Err: e}
	if len(e.Errors) == 0 {
		if !a.OK() {
			e.Text = a.Text
		}
		v.General = true
		return v
	}
	if code := e.Errors[0].Code; code > 0 {
		v.Code = uint32(code)
	}
	if again {
		v.Reason = why
	}
	return v
}
