package search

import (
	"errors"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Error is what every failed search returns. It unwraps to its kind, a value of package cberr, and to its cause, so that
// errors.Is finds both. Its zero value prints as well.
type Error struct {
	Kind   *cberr.Kind
	Text   string // what the service said, as far as it was kept
	Status int    // of HTTP, 0 when there was no answer

	Index, Bucket, Scope string
	UniqueID             string
	Endpoint             string     // the node of the last attempt, "" when there was none
	Retry                retry.Info // attempts, reasons, time waited
	InDoubt              bool       // never true: a search changes nothing
	Cause                error      // what the last attempt met; nil when Kind and Text say it all

	response *httpsvc.ResponseError
}

func (e *Error) facts() httpsvc.Facts {
	return httpsvc.Facts{
		Service: "search", Kind: e.Kind, Endpoint: e.Endpoint, Status: e.Status, Said: httpsvc.Shortened(e.Text), Retry: e.Retry,
		InDoubt: e.InDoubt, Cause: e.Cause, Response: e.response,
	}
}

// Error says what failed, on which node, after how many attempts, and why. The query is not in it.
func (e *Error) Error() string { return e.facts().Text() }

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return e.facts().Chain() }

// RetryInfo says how often and why the request was sent again.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// Ambiguous reports whether the service may have executed the request although it failed.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	return e.facts().JSON(map[string]any{
		"index_name": e.Index, "bucket": e.Bucket, "scope": e.Scope, "unique_id": e.UniqueID,
	})
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
		Kind: f.Kind, Index: r.Index, Bucket: r.Bucket, Scope: r.Scope, UniqueID: id, Endpoint: f.Endpoint, Retry: f.Retry,
		InDoubt: f.InDoubt, Cause: f.Cause, response: f.Response,
	}
	if inner != nil {
		e.Status, e.Text = inner.Status, inner.Text
	}
	return e
}
