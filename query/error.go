package query

import (
	"errors"
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/httpsvc"
	"github.com/couchcore/couchcore/retry"
)

// Error is what every failed query returns. It unwraps to its kind, a value of package cberr, and to its cause, so that
// errors.Is finds both. Its zero value prints as well.
type Error struct {
	Kind   *cberr.Kind
	Errors []ServerError // the service's own list; the first one decides about the kind
	Status int           // of HTTP, 0 when there was no answer
	Text   string        // the answer, as far as it was kept, when it holds no error list

	Statement       string // with stars in the place of passwords and keys
	ClientContextID string
	Endpoint        string     // the node of the last attempt, "" when there was none
	Retry           retry.Info // attempts, reasons, time waited
	InDoubt         bool       // the service may have executed the statement
	Cause           error      // what the last attempt met; nil when Kind and Errors say it all

	response *httpsvc.ResponseError
}

func (e *Error) facts() httpsvc.Facts {
	said := httpsvc.Shortened(e.Text)
	if len(e.Errors) > 0 {
		said = e.Errors[0].text()
	}
	return httpsvc.Facts{
		Service: "query", Kind: e.Kind, Endpoint: e.Endpoint, Status: e.Status, Said: said, Retry: e.Retry, InDoubt: e.InDoubt,
		Cause: e.Cause, Response: e.response,
	}
}

func (e *ServerError) text() string {
	if e.Code == 0 && e.Message == "" {
		return httpsvc.Shortened(string(e.Raw))
	}
	return strings.TrimSpace(strconv.Itoa(e.Code) + " " + httpsvc.Shortened(e.Message))
}

// Error says what failed, on which node, after how many attempts, why, and whether it may have been executed. The
// statement is not in it.
func (e *Error) Error() string { return e.facts().Text() }

// Unwrap gives the kind and the cause.
func (e *Error) Unwrap() []error { return e.facts().Chain() }

// RetryInfo says how often and why the request was sent again.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// Ambiguous reports whether the service may have executed the statement although it failed.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	more := map[string]any{"statement": e.Statement, "client_context_id": e.ClientContextID}
	var list []map[string]any
	for _, s := range e.Errors {
		list = append(list, map[string]any{"code": s.Code, "message": s.Message, "retry": s.Retry, "reason": s.Causes})
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
		Kind: f.Kind, Statement: httpsvc.HideSecrets(r.Statement), ClientContextID: id, Endpoint: f.Endpoint, Retry: f.Retry,
		InDoubt: f.InDoubt, Cause: f.Cause, response: f.Response,
	}
	if inner != nil {
		e.Errors, e.Status, e.Text = inner.Errors, inner.Status, inner.Text
	}
	return e
}
