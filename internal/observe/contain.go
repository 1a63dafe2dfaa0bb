package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
)

// PanicError is code of the user's that panicked. It fails what the code was called for, and nothing else.
type PanicError struct {
	In    string // the callback, as in "Dial"
	Value any
	Stack []byte
}

// Error gives the panic's value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic in %s: %v", e.In, e.Value) }

// Unwrap gives the panic's value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Contain is deferred by a function that calls code of the user's and returns *err: a panic becomes its error, and so
// does an error that cannot be used.
func Contain(in string, err *error) {
	if v := recover(); v != nil {
		if e, ok := v.(error); ok {
			v = Usable(in, e)
		}
		*err = &PanicError{in, v, debug.Stack()}
		return
	}
	if *err != nil {
		*err = Usable(in, *err)
	}
}

// mostErrors bounds the tree of one error of the user's.
const mostErrors = 1024

// errProbe is an error that no error of the user's is.
var errProbe = errors.New("probe")

// Usable gives an error of the user's, or what stands for it where its own methods panic, such as those of a nil
// pointer, or where it wraps itself. The client and the user's logs call these methods wherever an error is looked at
// or printed.
func Usable(in string, err error) (usable error) {
	if err == nil {
		return nil
	}
	in = "an error of " + in
	defer func() {
		if v := recover(); v != nil {
			usable = &PanicError{in, fmt.Sprint(v), debug.Stack()}
		}
	}()
	left := mostErrors
	if walk(err, &left); left < 0 {
		return fmt.Errorf("%s wraps more than %d errors", in, mostErrors)
	}
	_ = err.Error()
	var none *PanicError
	_ = errors.Is(err, errProbe) || errors.As(err, &none)
	return err
}

// walk counts down the errors of a tree, until the count is used up.
func walk(err error, left *int) {
	if *left--; err == nil || *left < 0 {
		return
	}
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		walk(e.Unwrap(), left)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			walk(inner, left)
		}
	}
}

// GoneError is code of the user's that has ended its goroutine, as runtime.Goexit and a test's FailNow do. It fails
// what the code was called for, and nothing else.
type GoneError struct {
	In string // the callback, as in "Dial"
}

// Error names the callback.
func (e *GoneError) Error() string { return e.In + " has ended its goroutine" }

// Apart calls code of the user's on a goroutine of its own, so that one that ends its goroutine ends none of the
// client's, and waits for it. A panic is a *PanicError, the end of the goroutine a *GoneError.
func Apart(in string, f func() error) error {
	done := make(chan error, 1)
	go func() {
		var err error = &GoneError{in}
		defer func() { done <- err }()
		defer Contain(in, &err)
		err = f()
	}()
	return <-done
}

// LogFailed writes that code of the user's has panicked or ended its goroutine, if err says so.
func LogFailed(l Log, err error) {
	var panicked *PanicError
	var gone *GoneError
	switch {
	case errors.As(err, &panicked):
		l.Warn(context.Background(), MsgCallbackPanicked,
			slog.String(KeyPanic, fmt.Sprint(panicked.Value)), slog.String(KeyStack, string(panicked.Stack)))
	case errors.As(err, &gone):
		l.Warn(context.Background(), MsgCallbackPanicked, slog.String(KeyPanic, gone.Error()))
	}
}
