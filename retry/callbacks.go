package retry

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"runtime/debug"
)

// inline is inlineOver. A strategy whose methods Inline or Wraps panic counts as one that may block.
func inline(s, inherited Strategy) (yes bool) {
	defer func() {
		if recover() != nil {
			yes = false // consultOn fails the operation, if the strategy panics there too
		}
	}()
	return inlineOver(s, inherited)
}

// ask calls the strategy and makes an error of its panic.
func ask(ctx context.Context, s Strategy, r *Request, why Reason) (a Action, err error) {
	defer contain("a retry strategy", &err)
	return s.RetryAfter(ctx, r, why), nil
}

// askInline asks a strategy that never blocks, and waits for it. Code of the user's runs on a goroutine of its own: it
// may end its goroutine, and the caller's may be the reader of a connection.
func askInline(ctx context.Context, s Strategy, r *Request, why Reason) (a Action, err error) {
	if ownCode(s) {
		return ask(ctx, s, r, why)
	}
	err = errStrategyGone // stays when the strategy ends its goroutine
	apart(func() { a, err = ask(ctx, s, r, why) })
	return a, err
}

// ownCode reports whether a strategy is one of this package's and calls no function of the user's.
func ownCode(s Strategy) bool {
	if f, ok := s.(FastFailOnTerminalError); ok {
		s = f.Base
	}
	if s == nil {
		return true
	}
	b, ok := s.(BestEffort)
	return ok && b.Backoff == nil
}

// apart runs code of the user's on a goroutine of its own, and waits until it is over.
func apart(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	<-done
}

// take asks a budget; one that panics, or ends its goroutine, refuses.
func take(b Budget, k Kind) (cost int32, ok bool, err error) {
	err = errBudgetGone // stays when the budget ends its goroutine
	apart(func() {
		defer contain("a retry budget", &err)
		cost, ok = b.Take(k)
		err = nil
	})
	return cost, ok && err == nil, err
}

// payBack settles with a budget; what becomes of that is the budget's alone.
func payBack(b Budget, cost int32, succeeded bool) {
	apart(func() {
		var err error
		defer contain("a retry budget", &err)
		b.Settle(cost, succeeded)
	})
}

// translated applies a strategy's own translation.
func translated(f func(error) error, cause error) (err error) {
	if f == nil {
		return cause
	}
	apart(func() {
		defer func() {
			if recover() != nil {
				err = nil
			}
		}()
		err = usable(f(cause))
	})
	if err == nil {
		return cause
	}
	return err
}

// usable gives err, or a *PanicError in its place when the methods of err panic. It is for errors of the user's:
// whatever looks at them later calls their methods.
func usable(err error) (out error) {
	if err == nil {
		return nil
	}
	defer func() {
		if v := recover(); v != nil {
			out = &PanicError{"an error", fmt.Sprint(v), debug.Stack()}
		}
	}()
	_ = err.Error()
	_ = errors.Is(err, ErrClosed)
	return err
}

func contain(what string, err *error) {
	if v := recover(); v != nil {
		*err = &PanicError{what, v, debug.Stack()}
	}
}

// same compares budgets, whose types need not be comparable.
func same(a, b Budget) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}
