package observe

import (
	"fmt"
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

// Contain is deferred by a function that calls code of the user's and returns *err: a panic becomes its error.
func Contain(in string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{in, v, debug.Stack()}
	}
}
