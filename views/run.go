package views

import (
	"context"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Doer sends requests over HTTP to a service. Package core has the one: a program does not make one, and does not call
// Run itself.
type Doer = httpsvc.Doer

// Run sends a view query with d and gives its rows as soon as the first one is there, or none is to come. It blocks
// until then, at most until the request's deadline, which binds the rows as well. The error is an *Error, or says which
// field cannot be sent.
func Run(ctx context.Context, d Doer, r *Request) (*Rows, error) {
	h, err := r.http()
	if err != nil {
		return nil, err
	}
	rows, err := httpsvc.OpenRows(ctx, d, h, httpsvc.RowService[Meta]{
		Key: "rows", Judge: verdict, Meta: ParseMeta, Wrap: func(err error) error { return wrap(err, r, h.UniqueID) },
	})
	if err != nil {
		return nil, err
	}
	return &Rows{rows}, nil
}

// verdict says what an answer means.
func verdict(a *httpsvc.Answer) httpsvc.Verdict {
	if a.Row {
		return httpsvc.Verdict{}
	}
	e := &Error{Failure: httpsvc.NewFailure("views", a), Errors: ParseErrors(a.Errors)}
	e.Text = a.Text
	why, again, err := Classify(Answer{HTTPStatus: a.Status, Text: a.Text, Errors: e.Errors})
	if err == nil && len(a.Meta) > 0 && a.Rows == 0 {
		// an error object that came as a success
		if m := httpsvc.Object(a.Meta); m["rows"] == nil && m["error"] != nil {
			err, e.Text = cberr.Couchbase, string(a.Meta)
		}
	}
	if err == nil {
		return httpsvc.Verdict{}
	}
	e.Kind = cberr.KindOf(err)
	if len(e.Errors) > 0 {
		e.Say(e.Errors[0].text())
	}
	v := httpsvc.Verdict{Err: e, Code: uint32(a.Status), General: !again && !a.OK()}
	if again {
		v.Reason = why
	}
	return v
}
