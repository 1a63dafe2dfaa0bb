package views

import (
	"errors"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Error is what every failed view query returns. It unwraps to its kind, a value of package cberr, and to its cause, so that
// errors.Is finds both. Its zero value prints as well.
type Error struct {
	Kind   *cberr.Kind
	Errors []ServerError // of nodes, behind the rows
	Text   string        // what the service said otherwise, as far as it was kept
	Status int           // of HTTP, 0 when there was no answer

	Bucket, Design, View string
	UniqueID             string
	Endpoint             string     // the node of the last attempt, "" when there was none
	Retry                retry.Info // attempts, reasons, time waited
	InDoubt              bool       // never true: a view query changes nothing
	Cause                error      // what the last attempt met; nil when Kind and Text say it all

	response *httpsvc.ResponseError
}

func (e *Error) facts() httpsvc.Facts {
	said := httpsvc.Shortened(e.Text)
	if len(e.Errors) > 0 {
		said = e.Errors[0].text()
	}
	return httpsvc.Facts{
		Service: "views", Kind: e.Kind, Endpoint: e.Endpoint, Status: e.Status, Said: said, Retry: e.Retry,
		InDoubt: e.InDoubt, Cause: e.Cause, Response: e.response,
	}
}

func (e *ServerError) text() string {
	if e.Reason == "" {
		return httpsvc.Shortened(string(e.Raw))
	}
	if e.From == "" {
		return httpsvc.Shortened(e.Reason)
	}
	return httpsvc.Shortened(e.From + ": " + e.Reason)
}

// Error says what failed, on which node, after how many attempts, and why. Keys are not in it.
func (e *Error) Error() string { return e.facts().Text() }

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return e.facts().Chain() }

// RetryInfo says how often and why the request was sent again.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// Ambiguous reports whether the service may have executed the request although it failed.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	more := map[string]any{
		"bucket": e.Bucket, "design_document_name": e.Design, "view_name": e.View, "unique_id": e.UniqueID,
	}
	var list []map[string]string
	for _, s := range e.Errors {
		list = append(list, map[string]string{"from": s.From, "reason": s.Reason})
	}
	if list != nil {
		more["errors"] = list
	}
	return e.facts().JSON(more)
}

// wrap makes an *Error of what a request to the service has ended with. What comes from before the request stays as it
// is.
func wrap(err error, r *Request, id string) error {
	if err == nil {
		return nil
	}
	var inner *Error
	var told error
	if errors.As(err, &inner) {
		told = inner
	}
	f, ok := httpsvc.FactsOf(err, told)
	if !ok {
		return err
	}
	e := &Error{
		Kind: f.Kind, Bucket: r.Bucket, Design: r.Design, View: r.View, UniqueID: id, Endpoint: f.Endpoint, Retry: f.Retry,
		InDoubt: f.InDoubt, Cause: f.Cause, response: f.Response,
	}
	if inner != nil {
		e.Errors, e.Status, e.Text = inner.Errors, inner.Status, inner.Text
	}
	return e
}
