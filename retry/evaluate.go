package retry

import (
	"errors"
	"time"
)

// Directive is what an evaluation says of one try. Its zero value is Fail's.
type Directive struct {
	ruling   ruling
	kind     Kind
	pushback Pushback
}

type ruling uint8

const (
	fails ruling = iota
	succeeds
	repeats
)

// Succeed ends the work with the try's result, also when the try has an error: what it was for is there.
func Succeed() Directive { return Directive{ruling: succeeds} }

// Fail ends the work with the try's error, or with ErrRejected when it has none.
func Fail() Directive { return Directive{} }

// Again asks for another try because of a failure of the kind. Kinds of the program's own begin at OwnKind.
func Again(k Kind) Directive { return Directive{ruling: repeats, kind: k} }

// After is d with a delay that the server has named for the next try. The shipped strategies wait exactly that long.
func (d Directive) After(wait time.Duration) Directive {
	d.pushback = PushbackAfter(wait)
	return d
}

// Evaluation judges a try by its result or its error. It is called once for each try, on the goroutine of Do.
type Evaluation[R any] func(result R, err error) Directive

// Evaluator is an error that says itself what becomes of the work that has met it. Evaluate asks it.
type Evaluator interface{ RetryDirective() Directive }

// Standard is the evaluation of work that consists of calls of this client: every result without an error is a success,
// and Evaluate judges errors.
func Standard[R any](_ R, err error) Directive { return Evaluate(err) }

// Evaluate judges an error. It succeeds without one. It asks for another try when nothing can have been applied and
// another try may help: for the errors of this client that means a call that a server has not looked at, has refused
// for a reason that is retryable, or that has timed out without doubt, and for an Evaluator what that says. Everything
// else fails: what may have been applied, what is definite (a missing document, a wrong argument, a refused login),
// what the caller has canceled, and errors that it does not know. Of several errors in one tree a failure decides.
func Evaluate(err error) Directive {
	if err == nil {
		return Succeed()
	}
	d, _ := evaluate(err)
	if d.ruling != repeats {
		return Fail()
	}
	var named interface{ Pushback() Pushback }
	if d.pushback.None() && errors.As(err, &named) {
		d.pushback = named.Pushback()
	}
	if d.pushback.Never() {
		return Fail()
	}
	return d
}

// evaluate gives the verdict of an error's tree; known is false when nothing in it has one.
func evaluate(err error) (d Directive, known bool) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case Evaluator:
		return e.RetryDirective(), true
	case *Error:
		return e.directive(), true
	case interface{ Ambiguous() bool }: // an error of a call of this client, or one like it
		if e.Ambiguous() {
			return Fail(), true
		}
		d, _ := below(err)
		return d, true // without an end by the orchestrator it is definite
	}
	return below(err)
}

// below is evaluate for what an error wraps.
func below(err error) (d Directive, known bool) {
	switch e := err.(type) { //nolint:errorlint // the tree is walked here
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return evaluate(inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			one, ok := evaluate(inner)
			switch {
			case ok && one.ruling == fails:
				return one, true
			case ok && one.ruling == repeats || ok && !known:
				d, known = one, true
			}
		}
	}
	return d, known
}

// directive is what the end of an operation means for work that contains it.
func (e *Error) directive() Directive {
	switch {
	case e.InDoubt:
		return Fail()
	case errors.Is(e.kind, ErrTimeout):
		return Again(Timeout)
	case errors.Is(e, ErrThrottled), errors.Is(e, ErrTooManyInRetry):
		return Again(Throttling)
	case e.kind != nil || e.ended != nil ||
		e.Reason == Unknown: // canceled, closed, terminal, a strategy that has panicked
		return Fail()
	}
	return Again(e.Reason.Kind())
}
