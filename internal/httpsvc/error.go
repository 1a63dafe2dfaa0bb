package httpsvc

import (
	"errors"
	"strconv"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// Error is a request that failed. It unwraps to its kind and its cause; the cause of a failure that a service has told
// of is the Err of its Verdict. Its zero value prints as well.
type Error struct {
	Service, Operation string
	Method, Path       string // without the query string, which may hold keys
	Endpoint           string // of the last attempt
	InDoubt            bool   // the service may have executed it
	Retry              retry.Info
	Kind               *cberr.Kind
	Cause              error
	Response           *ResponseError // the answer, nil without one
}

// Error says what was asked of whom, and why that failed.
func (e *Error) Error() string {
	s := e.Service + " " + e.Method + " " + e.Path + ": " + KindText(e.Kind)
	if e.Endpoint != "" {
		s += " on " + e.Endpoint
	}
	s += retried(e.Retry.Retries())
	if e.Retry.Parked {
		s += ", waiting for a retry"
	}
	var answer error
	if m, ok := errors.AsType[*ManagementError](e.Cause); ok {
		answer = m
		s += ": " + m.told()
	}
	if because := causeText(e.Cause, answer, e.Kind); because != "" {
		s += ", because: " + because
	}
	if e.InDoubt {
		s += "; it may have been applied"
	}
	return s
}

// Unwrap gives the kind, the cause and the answer, as far as there are any.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Cause != nil {
		errs = append(errs, e.Cause)
	}
	if e.Response != nil {
		errs = append(errs, e.Response)
	}
	return errs
}

// RetryInfo says how often and why the request was retried.
func (e *Error) RetryInfo() retry.Info { return e.Retry }

// Ambiguous reports whether the service may have executed the request.
func (e *Error) Ambiguous() bool { return e.InDoubt }

// retried says how often a request was sent again; "" for never.
func retried(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return " after 1 retry"
	}
	return " after " + strconv.Itoa(n) + " retries"
}

// KindText is a kind's text, also of none.
func KindText(k *cberr.Kind) string {
	if k == nil {
		return cberr.Couchbase.Error()
	}
	return k.Error()
}
