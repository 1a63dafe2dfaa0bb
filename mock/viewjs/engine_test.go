package viewjs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/mock/viewjs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, o viewjs.Options, source, doc string) ([]string, error) {
	t.Helper()
	f, err := viewjs.New(o).Compile(source, "")
	require.NoError(t, err)
	var out []string
	err = f.Map(t.Context(), []byte(doc), []byte(`{"id":"d1","type":"json"}`), func(k, v []byte) {
		out = append(out, string(k)+" "+string(v))
	})
	return out, err
}

func TestMapFunctions(t *testing.T) {
	for name, c := range map[string]struct {
		source, doc string
		want        []string
	}{
		"values":      {`function (doc, meta) { emit(doc.a, meta.id); }`, `{"a":[1,{"b":null}]}`, []string{`[1,{"b":null}] "d1"`}},
		"undefined":   {`function (doc) { emit(doc.nothing); }`, `{}`, []string{"null null"}},
		"semicolon":   {"function (doc) { emit(1, 2) } ;\n", `{}`, []string{"1 2"}},
		"arrow":       {`(doc, meta) => { for (const x of doc) emit(x, null) }`, `[3,4]`, []string{"3 null", "4 null"}},
		"two emits":   {`function (doc) { emit("a", 1); emit("b", 2); }`, `{}`, []string{`"a" 1`, `"b" 2`}},
		"dates":       {`function (doc) { emit(dateToArray(doc.at), null); }`, `{"at":"2024-02-29T12:30:01Z"}`, []string{"[2024,2,29,12,30,1] null"}},
		"no date":     {`function (doc) { emit(dateToArray(doc.at), null); }`, `{"at":"x"}`, []string{"null null"}},
		"base64":      {`function (doc) { emit(decodeBase64(doc), null); }`, `"AAH/"`, []string{"[0,1,255] null"}},
		"sum":         {`function (doc) { emit(sum(doc), isArray(doc)); }`, `[1,2,3]`, []string{"6 true"}},
		"no function": {`function (doc) { emit(function () {}, 1); }`, `{}`, []string{"null 1"}},
		"numbers":     {`function (doc) { emit(doc, 0.1); }`, `9007199254740992`, []string{"9007199254740992 0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, viewjs.Options{}, c.source, c.doc)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestFunctionsThatFail(t *testing.T) {
	out, err := run(t, viewjs.Options{}, `function (doc) { emit(1, 1); doc.a.b.c; }`, `{}`)
	require.ErrorContains(t, err, "TypeError")
	require.NotErrorIs(t, err, mock.ErrViewLimit)
	require.Equal(t, []string{"1 1"}, out)
	for _, source := range []string{"function (doc) {", "42", "", "function (a) {} ; emit()", "nothing"} {
		_, err := viewjs.New(viewjs.Options{}).Compile(source, "")
		require.Error(t, err, source)
		_, err = viewjs.New(viewjs.Options{}).Compile("function () {}", source)
		require.Equal(t, source != "", err != nil, source)
	}
}

func TestLimits(t *testing.T) {
	for name, c := range map[string]struct {
		opts         viewjs.Options
		source, want string
	}{
		"time":   {viewjs.Options{Time: 30 * time.Millisecond}, `function () { while (true) {} }`, "too much time"},
		"caught": {viewjs.Options{Time: 30 * time.Millisecond}, `function () { while (true) { try { while (true) {} } catch (e) {} } }`, "too much time"},
		"memory": {viewjs.Options{Memory: 16 << 20, Time: time.Minute}, `function () { var all = []; while (true) { all.push([1, 2, 3, 4]); } }`, "too much memory"},
		"depth":  {viewjs.Options{Depth: 64}, `function f() { f(); }`, "calls within calls"},
		"output": {viewjs.Options{Output: 1000}, `function () { while (true) { emit("0123456789", 1); } }`, "too much output"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t, c.opts, c.source, `{}`)
			require.ErrorIs(t, err, mock.ErrViewLimit)
			require.ErrorContains(t, err, c.want)
		})
	}
}

// The parser calls itself for what is nested. Code that would take more stack than a process may have is refused; the
// runtime would end the process.
func TestDeepCodeIsRefused_D203(t *testing.T) {
	e := viewjs.New(viewjs.Options{})
	code := func(in string, n int) string { return "function OnUpdate(doc) {" + strings.Repeat(in, n) + "1}" }
	for _, source := range []string{code("!", 8<<20), code("(", 8<<20), code("(", 513)} {
		_, err := e.Compile(source, "")
		require.Error(t, err)
		_, err = e.Compile("function (doc) {}", source)
		require.Error(t, err)
		_, _, err = e.CheckHandler(source)
		require.Error(t, err)
	}
	for _, costly := range []string{"a:", "a=>"} {
		_, err := e.Compile(code(costly, 2049), "")
		require.ErrorContains(t, err, "more than 2048 times")
		_, _, err = e.CheckHandler(code(costly, 2049))
		require.ErrorContains(t, err, "more than 2048 times")
	}
	_, _, err := e.CheckHandler(code("a=>", 2048))
	require.NoError(t, err)
	_, err = e.Compile(code("!", 64<<10), "")
	require.NoError(t, err)
	_, _, err = e.CheckHandler(code("!", 64<<10))
	require.NoError(t, err)
}

func TestAnInterruptedFunctionCanBeUsedAgain(t *testing.T) {
	f, err := viewjs.New(viewjs.Options{Time: 20 * time.Millisecond}).Compile(`function (doc) { while (doc.loop) {} emit(1, 1); }`, "")
	require.NoError(t, err)
	require.ErrorIs(t, f.Map(t.Context(), []byte(`{"loop":true}`), []byte(`{}`), nil), mock.ErrViewLimit)
	n := 0
	require.NoError(t, f.Map(t.Context(), []byte(`{}`), []byte(`{}`), func(_, _ []byte) { n++ }))
	require.Equal(t, 1, n)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client has left")
	cancel(gone)
	require.ErrorContains(t, f.Map(ctx, []byte(`{"loop":true}`), []byte(`{}`), nil), gone.Error())
}

func TestReduceFunctions(t *testing.T) {
	f, err := viewjs.New(viewjs.Options{}).Compile(`function () {}`,
		`function (keys, values, rereduce) { return { sum: sum(values), again: rereduce, keys: keys } }`)
	require.NoError(t, err)
	out, err := f.Reduce(t.Context(), []byte(`[[1,"a"],[2,"b"]]`), []byte(`[3,4]`), false)
	require.NoError(t, err)
	require.JSONEq(t, `{"sum":7,"again":false,"keys":[[1,"a"],[2,"b"]]}`, string(out))
	out, err = f.Reduce(t.Context(), []byte("null"), []byte(`[7,8]`), true)
	require.NoError(t, err)
	require.JSONEq(t, `{"sum":15,"again":true,"keys":null}`, string(out))
	f, err = viewjs.New(viewjs.Options{}).Compile(`function () {}`, "")
	require.NoError(t, err)
	_, err = f.Reduce(t.Context(), []byte("null"), []byte(`[]`), true)
	require.Error(t, err)
}

func TestPlacesOfErrorsInHandlers(t *testing.T) {
	e := viewjs.New(viewjs.Options{})
	for _, row := range []struct {
		code         string
		line, column int
		text         string
	}{
		{"function OnUpdate(doc, meta) {\n}", 0, 0, ""},
		{"function OnDelete(meta, options) {}\nfunction other() { return 1 }", 0, 0, ""},
		{"feefifofum", 1, 1, "only functions are allowed"},
		{"function OnUpdate() {}\nvar a = 1", 2, 1, "only functions are allowed"},
		{"function OnUpdate(doc {", 1, 23, "Unexpected token"},
		{"function OnUpdate() {\n let a; let a; }", 2, 13, "already been declared"},
		{"function OnUpdate() {}\nfunction OnUpdate() {}", 0, 0, "more than one function OnUpdate"},
		{"", 0, 0, "no function OnUpdate or OnDelete"},
		{"function OnUpdate() {" + strings.Repeat("[", 1000), 0, 0, "brackets within brackets"},
	} {
		line, column, err := e.CheckHandler(row.code)
		if row.text == "" {
			require.NoError(t, err, row.code)
		} else {
			require.ErrorContains(t, err, row.text)
		}
		require.Equal(t, [2]int{row.line, row.column}, [2]int{line, column}, row.code)
	}
}
