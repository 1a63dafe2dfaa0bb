package services

import (
	"bytes"
	"net/http"
	"time"
)

// capture keeps an answer instead of sending it.
type capture struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *capture) Header() http.Header         { return w.header }
func (w *capture) WriteHeader(status int)      { w.status = status }
func (w *capture) Write(b []byte) (int, error) { return w.body.Write(b) }

// rewritten is an answer with the body that its Rewrite makes, sent in the same way.
func (x *Call) rewritten(a *Answer) *Answer {
	content := Answer{
		Status: a.Status, Header: a.Header, Rows: a.Rows, Stream: a.Stream, Errors: a.Errors, Warnings: a.Warnings,
		Mutated: a.Mutated, Members: a.Members, RowsLast: a.RowsLast, Body: a.Body,
	}
	to := &capture{header: http.Header{}, status: http.StatusOK}
	y := *x
	y.w = to
	o := &outlet{x: &y, a: &content, rc: http.NewResponseController(to), limit: maxServiceBody, at: time.Now()}
	o.run(nil) // into memory, without waits
	out := *a
	out.Rewrite, out.Rows, out.Stream, out.Errors = nil, nil, nil, nil
	if out.Body = a.Rewrite(to.body.Bytes()); out.Body == nil {
		out.Body = []byte{}
	}
	out.Status, out.Header = to.status, to.header
	return &out
}
