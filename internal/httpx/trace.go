package httpx

import (
	"context"
	"net/http/httptrace"
	"reflect"
	"strings"

	"github.com/couchcore/couchcore/internal/observe"
)

// traced is ctx for net/http: the hooks of a net/http/httptrace.ClientTrace in it are contained. net/http calls them on
// goroutines of its own, among others those that connect for later requests, so a panic would end the process.
func traced(ctx context.Context) context.Context {
	trace := httptrace.ContextClientTrace(ctx)
	if trace == nil {
		return ctx
	}
	own := *trace
	hooks := reflect.ValueOf(&own).Elem()
	for i := range hooks.NumField() {
		f := hooks.Field(i)
		if f.Kind() != reflect.Func || f.IsNil() {
			continue
		}
		user := reflect.ValueOf(f.Interface())
		f.Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) (results []reflect.Value) {
			err := observe.Apart("a hook of httptrace", func() error {
				results = user.Call(args)
				return nil
			})
			if err == nil {
				return results
			}
			results = results[:0]
			for i := range f.Type().NumOut() { // of one hook, an error
				results = append(results, reflect.Zero(f.Type().Out(i)))
			}
			if n := len(results); n > 0 {
				results[n-1] = reflect.ValueOf(&err).Elem()
			}
			return results
		}))
	}
	return httptrace.WithClientTrace(untraced{ctx}, &own)
}

// untraced is a context without the hooks.
type untraced struct{ context.Context }

// Value implements context.Context.
func (c untraced) Value(key any) any {
	v := c.Context.Value(key)
	if v == nil {
		return nil
	}
	if _, is := v.(*httptrace.ClientTrace); is {
		return nil
	}
	if t := reflect.TypeOf(v); t.Kind() == reflect.Pointer && strings.HasSuffix(t.Elem().PkgPath(),
		"internal/nettrace") {
		return nil // what httptrace has the dialer call
	}
	return v
}
