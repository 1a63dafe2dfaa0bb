package viewjs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/couchcore/couchcore/mock/viewjs"
)

// mostFuzzed keeps inputs small: the parser's time grows with the square of what is nested.
const mostFuzzed = 4 << 10

// FuzzFunctions: no function of a view ends the process or passes its time, and what it emits is JSON.
func FuzzFunctions(f *testing.F) {
	f.Add(`function (doc, meta) { emit(meta.id, doc.a) }`, `function (k, v, r) { return sum(v) }`, []byte(`{"a":[1]}`))
	f.Add(`function (d) { for (;;) {} }`, ``, []byte(`{}`))
	f.Add(`function (d) { emit(d); d.d = d; emit(d) }`, `(`, []byte(`"x"`))
	f.Add(`function f(d) { f(f) }`, `function (k) { throw k }`, []byte(`null`))
	e := viewjs.New(viewjs.Options{Time: 50 * time.Millisecond})
	f.Fuzz(func(t *testing.T, mapFunction, reduce string, doc []byte) {
		if !json.Valid(doc) || len(mapFunction)+len(reduce) > mostFuzzed {
			return
		}
		fs, err := e.Compile(mapFunction, reduce)
		if err != nil {
			return
		}
		began := time.Now()
		_ = fs.Map(t.Context(), doc, []byte(`{"id":"k"}`), func(key, value []byte) {
			if !json.Valid(key) || !json.Valid(value) {
				t.Errorf("%q: %q", key, value)
			}
		})
		if reduce != "" {
			out, err := fs.Reduce(t.Context(), []byte(`[[1,"k"]]`), []byte(`[1]`), false)
			if err == nil && !json.Valid(out) {
				t.Errorf("%q", out)
			}
		}
		if took := time.Since(began); took > 20*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// FuzzCheckHandler: code of the eventing service compiles, or is refused at a place within it.
func FuzzCheckHandler(f *testing.F) {
	f.Add("function OnUpdate(doc, meta) { log(doc); }")
	f.Add("function OnDelete(meta) {\n let a; let a; }")
	f.Add("function OnUpdate(doc { SELECT 1; }")
	f.Add("feefifofum")
	e := viewjs.New(viewjs.Options{})
	f.Fuzz(func(t *testing.T, code string) {
		if len(code) > mostFuzzed {
			return
		}
		line, column, err := e.CheckHandler(code)
		if line < 0 || column < 0 || err == nil && line+column != 0 {
			t.Errorf("%q: %d:%d %v", code, line, column, err)
		}
	})
}
