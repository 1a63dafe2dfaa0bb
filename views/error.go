package views

import (
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Error is what every failed view query returns. It unwraps to its kind, a value of package cberr, and to its cause, so
// that errors.Is finds both. Its zero value prints as well.
type Error struct {
	// Kind, Status, Text, Endpoint, Retry, InDoubt, Cause, and the methods of every service's error
	httpsvc.Failure
	Errors               []ServerError // of nodes, behind the rows
	Bucket, Design, View string
	UniqueID             string
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
	return httpsvc.FailureJSON(&e.Failure, more)
}

// wrap makes an *Error of what a request to the service has ended with. What comes from before the request stays as it
// is.
func wrap(err error, r *Request, id string) error {
	e, ok := httpsvc.FailureOf[Error](err)
	if !ok {
		return err
	}
	e.Bucket, e.Design, e.View, e.UniqueID = r.Bucket, r.Design, r.View, id
	return e
}
