package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNoExportedSignatureHasAnInternalType: what a program can call it can write down. An alias of an internal type is
// a name that a program has.
func TestNoExportedSignatureHasAnInternalType(t *testing.T) {
	found := map[string]bool{}
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); n == "internal" || n == "testdata" || n == "cmd" || n != "." && n[0] == '.' {
				return fs.SkipDir
			}
			return nil
		}
		if strings.HasSuffix(p, ".go") && !strings.HasSuffix(p, "_test.go") {
			return internalTypes(p, found)
		}
		return nil
	}))
	require.Empty(t, slices.Sorted(maps.Keys(found)))
}

// internalTypes finds what a file exports with a type of an internal package in it.
func internalTypes(file string, found map[string]bool) error {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	internal := map[string]bool{} // names of imports
	for _, i := range f.Imports {
		from, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			return err
		}
		name := path.Base(from)
		if i.Name != nil {
			name = i.Name.Name
		}
		if strings.Contains(from, "/internal/") {
			internal[name] = true
		}
	}
	has := func(what string, in ...ast.Node) {
		for _, n := range in {
			ast.Inspect(n, func(n ast.Node) bool {
				if s, ok := n.(*ast.SelectorExpr); ok {
					if x, ok := s.X.(*ast.Ident); ok && internal[x.Name] {
						found[fmt.Sprintf("%s: %s", path.Dir(file), what)] = true
					}
				}
				return true
			})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if name := exportedName(d); name != "" {
				has(name, d.Type)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() && !s.Assign.IsValid() {
					exportedFields(s, has)
				}
			}
		}
	}
	return nil
}

// exportedName is a function's name, or a method's with its type before it; "" when programs cannot reach it.
func exportedName(d *ast.FuncDecl) string {
	if !d.Name.IsExported() || d.Recv == nil {
		return map[bool]string{true: d.Name.Name}[d.Name.IsExported()]
	}
	t := d.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			if !x.IsExported() {
				return ""
			}
			return x.Name + "." + d.Name.Name
		default:
			return ""
		}
	}
}

// exportedFields looks at the exported fields of a struct and the exported methods of an interface.
func exportedFields(s *ast.TypeSpec, has func(what string, in ...ast.Node)) {
	var fields *ast.FieldList
	switch x := s.Type.(type) {
	case *ast.StructType:
		fields = x.Fields
	case *ast.InterfaceType:
		fields = x.Methods
	default:
		has(s.Name.Name, s.Type)
		return
	}
	for _, f := range fields.List {
		for _, n := range f.Names {
			if n.IsExported() {
				has(s.Name.Name+"."+n.Name, f.Type)
			}
		}
	}
}
