package viewjs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dop251/goja"

	"github.com/couchcore/couchcore/mock"
)

// Options are the limits of one call of a function. Zero values stand for the defaults.
//
// Time and Memory are checked by a timer. Inside a testing/synctest bubble the clock stands still while a function
// runs, so there only Depth and Output act.
type Options struct {
	Time   time.Duration // 1 s
	Memory int64         // bytes by which the process's heap may grow; 64 MiB
	Depth  int           // calls within calls, and brackets within brackets; 512
	Output int           // bytes of all keys and values that one document, or one reduction, yields; 8 MiB
}

// Engine compiles the functions of views. It may be used by several goroutines at once.
type Engine struct{ opts Options }

// New returns an engine with the given limits.
func New(o Options) *Engine {
	return &Engine{Options{
		Time: cmp.Or(o.Time, time.Second), Memory: cmp.Or(o.Memory, 64<<20), Depth: cmp.Or(o.Depth, 512),
		Output: cmp.Or(o.Output, 8<<20),
	}}
}

// functions are those of one view, with an interpreter of their own.
type functions struct {
	opts      Options
	vm        *goja.Runtime
	mapper    goja.Callable
	reducer   goja.Callable // nil without one
	parse     goja.Callable
	stringify goja.Callable

	// Of the call that is running.
	emit func(key, value []byte)
	left int // of Output
}

var errOutput = errors.New("too much output")

// Compile implements mock.ViewEngine.
func (e *Engine) Compile(mapFunction, reduce string) (mock.ViewFunctions, error) {
	f := &functions{opts: e.opts, vm: goja.New()}
	f.vm.SetMaxCallStackSize(e.opts.Depth)
	json := f.vm.GlobalObject().Get("JSON").ToObject(f.vm)
	f.parse, _ = goja.AssertFunction(json.Get("parse")) // part of the language
	f.stringify, _ = goja.AssertFunction(json.Get("stringify"))
	if err := f.vm.Set("emit", f.emitted); err != nil {
		return nil, err
	}
	if _, err := f.vm.RunString(prelude); err != nil {
		return nil, fmt.Errorf("viewjs: prelude: %w", err)
	}
	var err error
	if f.mapper, err = f.function("map", mapFunction); err != nil {
		return nil, err
	}
	if reduce != "" {
		f.reducer, err = f.function("reduce", reduce)
	}
	return f, err
}

// function compiles an expression that is to be a function.
func (f *functions) function(name, source string) (goja.Callable, error) {
	if err := readable(source, f.opts.Depth); err != nil {
		return nil, fmt.Errorf("the %s function: %w", name, err)
	}
	source = strings.TrimRight(source, "; \t\r\n")
	program, err := goja.Compile(name, "("+source+"\n)", false)
	if err != nil {
		return nil, fmt.Errorf("syntax error in the %s function: %w", name, err)
	}
	var v goja.Value
	err = f.guarded(context.Background(), func() (err error) {
		v, err = f.vm.RunProgram(program)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("the %s function: %w", name, err)
	}
	call, ok := goja.AssertFunction(v)
	if !ok {
		return nil, fmt.Errorf("the %s function is not a function", name)
	}
	return call, nil
}

// emitted is emit(key, value) of the map functions.
func (f *functions) emitted(call goja.FunctionCall) goja.Value {
	key, err := f.json(call.Argument(0))
	var value []byte
	if err == nil {
		value, err = f.json(call.Argument(1))
	}
	if err != nil {
		return f.vm.NewGoError(err) // thrown away: what cannot be JSON is not emitted
	}
	if f.left -= len(key) + len(value); f.left < 0 {
		f.vm.Interrupt(errOutput)
		return goja.Undefined()
	}
	if f.emit != nil {
		f.emit(key, value)
	}
	return goja.Undefined()
}

// json is a value as JSON text; what JSON does not know is null.
func (f *functions) json(v goja.Value) ([]byte, error) {
	s, err := f.stringify(goja.Undefined(), v)
	if err != nil {
		return nil, err
	}
	if goja.IsUndefined(s) {
		return []byte("null"), nil
	}
	return []byte(s.String()), nil
}

// value is JSON text as a value.
func (f *functions) value(b []byte) (goja.Value, error) {
	return f.parse(goja.Undefined(), f.vm.ToValue(string(b)))
}

// Map implements mock.ViewFunctions.
func (f *functions) Map(ctx context.Context, doc, meta []byte, emit func(key, value []byte)) error {
	f.emit, f.left = emit, f.opts.Output
	defer func() { f.emit = nil }()
	return f.guarded(ctx, func() error {
		d, err := f.value(doc)
		if err != nil {
			return err
		}
		m, err := f.value(meta)
		if err != nil {
			return err
		}
		_, err = f.mapper(goja.Undefined(), d, m)
		return err
	})
}

// Reduce implements mock.ViewFunctions.
func (f *functions) Reduce(ctx context.Context, keys, values []byte, rereduce bool) (out []byte, err error) {
	if f.reducer == nil {
		return nil, errors.New("the view has no reduce function")
	}
	err = f.guarded(ctx, func() error {
		k, err := f.value(keys)
		if err != nil {
			return err
		}
		v, err := f.value(values)
		if err != nil {
			return err
		}
		result, err := f.reducer(goja.Undefined(), k, v, f.vm.ToValue(rereduce))
		if err == nil {
			out, err = f.json(result)
		}
		return err
	})
	if err == nil && len(out) > f.opts.Output {
		err = fmt.Errorf("%w: %w", mock.ErrViewLimit, errOutput)
	}
	return out, err
}
