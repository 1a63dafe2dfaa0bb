package search

import (
	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Error is what every failed search returns. It unwraps to its kind, a value of package cberr, and to its cause, so
// that errors.Is finds both. Its zero value prints as well.
type Error struct {
	// Kind, Status, Text, Endpoint, Retry, InDoubt, Cause, and the methods of every service's error
	httpsvc.Failure
	Index, Bucket, Scope string
	UniqueID             string
}

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	return httpsvc.FailureJSON(&e.Failure, map[string]any{
		"index_name": e.Index, "bucket": e.Bucket, "scope": e.Scope, "unique_id": e.UniqueID,
	})
}

// wrap makes an *Error of what a request to the service has ended with. What comes from before the request stays as it
// is.
func wrap(err error, r *Request, id string) error {
	e, ok := httpsvc.FailureOf[Error](err)
	if !ok {
		return err
	}
	e.Index, e.Bucket, e.Scope, e.UniqueID = r.Index, r.Bucket, r.Scope, id
	return e
}
