package analytics

import (
	"context"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Doer sends requests over HTTP to a service. Package core has the one: a program does not make one, and does not call
// Run itself.
type Doer = httpsvc.Doer

// Run sends a statement with d and gives its rows as soon as the first one is there, or none is to come. It blocks
// until then, at most until the request's deadline, which binds the rows as well. The error is an *Error, or says which
// field cannot be sent.
func Run(ctx context.Context, d Doer, r *Request) (*Rows, error) {
	h, err := r.http()
	if err != nil {
		return nil, err
	}
	rows, err := httpsvc.OpenRows(ctx, d, h, httpsvc.RowService[Meta]{
		Key: "results", Judge: func(a *httpsvc.Answer) httpsvc.Verdict { return verdict(a, r) },
		Meta: ParseMeta, Wrap: func(err error) error { return wrap(err, r, h.UniqueID) },
	})
	if err != nil {
		return nil, err
	}
	return &Rows{rows}, nil
}

// verdict says what an answer means.
func verdict(a *httpsvc.Answer, r *Request) httpsvc.Verdict {
	if a.Row {
		return httpsvc.Verdict{}
	}
	e := &Error{Failure: httpsvc.NewFailure("analytics", a), Errors: ParseErrors(a.Errors)}
	meta := httpsvc.Object(a.Meta)
	said := Answer{
		HTTPStatus: a.Status, Errors: e.Errors, Status: httpsvc.Text(meta["status"]),
		Mutations: httpsvc.Uint(httpsvc.Object(meta["metrics"])["mutationCount"]), Readonly: r.Idempotent(),
	}
	st := said.statement()
	reason, kind := st.Classify()
	if kind == nil {
		return httpsvc.Verdict{}
	}
	if e.Kind = kind; len(e.Errors) == 0 {
		return st.Verdict(a, reason, e, &e.Failure, "")
	}
	return st.Verdict(a, reason, e, &e.Failure, e.Errors[0].text())
}
