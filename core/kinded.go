package core

import (
	"context"
	"errors"

	"github.com/couchcore/couchcore/cberr"
)

// kinded gives an error a kind, and leaves its text.
type kinded struct {
	kind *cberr.Kind
	err  error
}

func (e *kinded) Error() string { return e.err.Error() }

// Unwrap gives both.
func (e *kinded) Unwrap() []error { return []error{e.kind, e.err} }

// ofKind is err with a kind; nil for nil.
func ofKind(kind *cberr.Kind, err error) error {
	if err == nil {
		return nil
	}
	return &kinded{kind, err}
}

// ended is the cause of a context's end with its kind.
func ended(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return ofKind(cberr.UnambiguousTimeout, context.Cause(ctx))
	}
	return ofKind(cberr.RequestCanceled, context.Cause(ctx))
}
