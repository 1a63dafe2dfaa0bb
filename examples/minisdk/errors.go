package minisdk

import (
	"errors"
	"fmt"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/retry"
)

// The SDK's own errors. Every failure matches one of them by errors.Is, and what couchcore has said beneath it.
var (
	ErrNotFound = errors.New("there is no such document")
	ErrExists   = errors.New("the document exists")
	ErrChanged  = errors.New("the document has changed")
	ErrTimeout  = errors.New("the time is over")
	ErrClosed   = errors.New("the client is closed")
	ErrOther    = errors.New("it failed")
)

// kinds are couchcore's errors in the SDK's words; the first that fits counts.
var kinds = []struct{ is, as error }{
	{cberr.DocumentNotFound, ErrNotFound},
	{cberr.DocumentExists, ErrExists},
	{cberr.CASMismatch, ErrChanged},
	{cberr.Timeout, ErrTimeout},
	{retry.ErrClosed, ErrClosed},
}

// Error is a call that failed.
type Error struct {
	Op, ID string
	Kind   error // one of the errors above
	// MayBeApplied says that a server may have executed the write: read the document before you write again.
	MayBeApplied bool
	Retries      int            // that were tried
	Reasons      []retry.Reason // why
	Cause        error          // couchcore's, which says on which node and in which state
}

// Error says what couchcore says.
func (e *Error) Error() string { return fmt.Sprintf("%s %q: %v: %v", e.Op, e.ID, e.Kind, e.Cause) }

// Unwrap gives both.
func (e *Error) Unwrap() []error { return []error{e.Kind, e.Cause} }

// failure is an error of couchcore's as the SDK's; nil for nil.
func failure(op, id string, err error) error {
	if err == nil {
		return nil
	}
	e := &Error{Op: op, ID: id, Kind: ErrOther, Cause: err}
	for _, k := range kinds {
		if errors.Is(err, k.is) {
			e.Kind = k.as
			break
		}
	}
	if info, ok := retry.InfoOf(err); ok {
		e.Retries = info.Retries()
		for why := range info.Reasons.All() {
			e.Reasons = append(e.Reasons, why)
		}
	}
	var told interface{ Ambiguous() bool }
	e.MayBeApplied = errors.As(err, &told) && told.Ambiguous()
	return e
}
