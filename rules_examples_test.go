package couchcore_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryVerbHasAnExample: what a program does with the client is shown by an Example that runs, so that it is in
// the documentation of the package and cannot become untrue. A verb is an operation of package kv, a function of it
// that runs operations, and what has a context in package core.
func TestEveryVerbHasAnExample(t *testing.T) {
	for _, pkg := range []string{"kv", "core"} {
		names, err := filepath.Glob(pkg + "/*.go")
		require.NoError(t, err)
		verbs, tests, set := 0, []*ast.File{}, token.NewFileSet()
		var code []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			require.NoError(t, err)
			if strings.HasSuffix(name, "_test.go") {
				tests = append(tests, f)
			} else {
				code = append(code, f)
			}
		}
		var shown []string
		for _, e := range doc.Examples(tests...) {
			if e.Output != "" {
				shown = append(shown, e.Name)
			}
		}
		for _, f := range code {
			for _, d := range f.Decls {
				verb := verbOf(d)
				if verb == "" {
					continue
				}
				verbs++
				if !slices.ContainsFunc(shown, func(e string) bool { return shows(e, verb) }) {
					t.Errorf("package %s: %s has no Example that runs", pkg, verb)
				}
			}
		}
		require.Greater(t, verbs, 10)
	}
}

// shows reports whether an Example of that name is one of the verb.
func shows(example, verb string) bool {
	suffix, ok := strings.CutPrefix(example, verb)
	return ok && (suffix == "" || len(suffix) > 1 && suffix[0] == '_' && suffix[1] >= 'a' && suffix[1] <= 'z')
}

// verbOf is the verb that a declaration makes, in the words of Examples; "" for none.
func verbOf(d ast.Decl) string {
	fn, ok := d.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	receiver := ""
	if fn.Recv != nil {
		typ := fn.Recv.List[0].Type
		if star, ok := typ.(*ast.StarExpr); ok {
			typ = star.X
		}
		name, ok := typ.(*ast.Ident)
		if !ok || !name.IsExported() {
			return ""
		}
		if receiver = name.Name; fn.Name.Name == "encode" { // an operation
			return receiver
		}
	}
	params := fn.Type.Params.List
	if !fn.Name.IsExported() || len(params) == 0 || receiver != "" && receiver != "Cluster" && receiver != "Bucket" {
		return ""
	}
	first, ok := params[0].Type.(*ast.SelectorExpr)
	if !ok || first.Sel.Name != "Context" || fn.Name.Name == "LoginTargetOf" { // which asks about a configuration
		return ""
	}
	return strings.TrimPrefix(receiver+"_"+fn.Name.Name, "_")
}
