package search

import (
	"context"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Capabilities of a cluster that searches may need.
const (
	capScoped = "scopedSearchIndex"
	capVector = "vectorSearch"
)

// Doer sends requests over HTTP to a service. Package core has the one: a program does not make one, and does not call
// Run itself.
type Doer = httpsvc.Doer

// Run sends a search with d and gives its hits as soon as the first one is there, or none is to come. It blocks until
// then, at most until the request's deadline, which binds the hits as well. supports says whether the cluster's search
// service has a capability, known being false while no cluster map says so; nil knows nothing. The error is an *Error,
// or says which field cannot be sent or which feature the cluster lacks.
func Run(ctx context.Context, d Doer, r *Request, supports func(capability string) (has, known bool)) (*Rows,
	error,
) {
	h, err := r.http()
	if err != nil {
		return nil, err
	}
	for _, need := range []struct {
		is   bool
		name string
	}{{r.Scoped(), capScoped}, {len(r.Vectors) > 0, capVector}} {
		if !need.is || supports == nil {
			continue
		}
		if has, known := supports(need.name); known && !has {
			return nil, fmt.Errorf("search: %w: the cluster lacks %s", cberr.FeatureNotAvailable, need.name)
		}
	}
	rows, err := httpsvc.OpenRows(ctx, d, h, httpsvc.RowService[Meta]{
		Key: "hits", Judge: func(a *httpsvc.Answer) httpsvc.Verdict { return verdict(a, r) },
		Meta: ParseMeta, Wrap: func(err error) error { return wrap(err, r, h.UniqueID) },
	})
	if err != nil {
		return nil, err
	}
	return &Rows{rows}, nil
}

// verdict says what an answer means. The failure of some partitions is not a failure of the search.
func verdict(a *httpsvc.Answer, r *Request) httpsvc.Verdict {
	if a.Row {
		return httpsvc.Verdict{}
	}
	e := &Error{Failure: httpsvc.NewFailure("search", a)}
	e.Text = a.Text
	why, again, err := Classify(Answer{HTTPStatus: a.Status, Text: a.Text, Scoped: r.Scoped()})
	if err == nil {
		m := httpsvc.Object(a.Meta)
		e.Text = httpsvc.Text(m["error"])
		if e.Text == "" && httpsvc.Text(m["status"]) != "fail" {
			return httpsvc.Verdict{}
		}
		err = cberr.Couchbase
	}
	e.Kind = cberr.KindOf(err)
	v := httpsvc.Verdict{
		Err: e, Code: uint32(a.Status), General: !again && !a.OK(), Overload: e.Kind == cberr.RateLimited,
	}
	if again {
		v.Reason = why
	}
	return v
}
