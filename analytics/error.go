package analytics

import (
	"strconv"
	"strings"

	"github.com/couchcore/couchcore/internal/httpsvc"
)

// Error is what every failed analytics query returns. It unwraps to its kind, a value of package cberr, and to its
// cause, so that errors.Is finds both. Its zero value prints as well.
type Error struct {
	// Kind, Status, Text, Endpoint, Retry, InDoubt, Cause, and the methods of every service's error
	httpsvc.Failure
	Errors          []ServerError // the service's own list; the first one decides about the kind
	Statement       string        // with stars in the place of passwords and keys
	ClientContextID string
}

func (e *ServerError) text() string {
	if e.Code == 0 && e.Message == "" {
		return httpsvc.Shortened(string(e.Raw))
	}
	return strings.TrimSpace(strconv.Itoa(e.Code) + " " + httpsvc.Shortened(e.Message))
}

// MarshalJSON writes the error's context with the keys that the SDKs use.
func (e *Error) MarshalJSON() ([]byte, error) {
	more := map[string]any{"statement": e.Statement, "client_context_id": e.ClientContextID}
	var list []map[string]any
	for _, s := range e.Errors {
		list = append(list, map[string]any{"code": s.Code, "message": s.Message, "retry": s.Retriable})
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
	e.Statement, e.ClientContextID = httpsvc.HideSecrets(r.Statement), id
	return e
}
