package couchcore_test

import (
	"bytes"
	"flag"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var updateAPI = flag.Bool("update", false, "write testdata/api.txt anew")

// public are the packages that programs import.
var public = []string{
	"analytics", "cberr", "collections", "compat/gocbcore", "core", "errormap", "kv", "memd", "mock", "mock/control",
	"mock/couchbasemock", "mock/gocaves", "mock/memnet", "mock/scripted", "mock/viewjs", "query", "retry",
	"retry/hedge", "retry/policy", "search", "views",
}

// TestEveryPublicPackageIsListed: a package that programs can import is one whose names are listed.
func TestEveryPublicPackageIsListed(t *testing.T) {
	found := map[string]bool{}
	require.NoError(t, walkGo(os.DirFS("."), func(name string, file *ast.File, _ *token.FileSet) {
		dir := filepath.ToSlash(filepath.Dir(name))
		top, _, _ := strings.Cut(dir, "/")
		own := slices.Contains([]string{".", "bench", "examples", "interop", "tools"}, top) ||
			dir == "compat/gocbcore/engine" // a part of the module that is assembled
		if !own && file.Name.Name != "main" && !strings.HasSuffix(name, "_test.go") &&
			!slices.Contains(strings.Split(dir, "/"), "internal") {
			found[dir] = true
		}
	}))
	require.ElementsMatch(t, public, slices.Collect(maps.Keys(found)))
}

// TestTheExportedNamesAreListed: a change of what programs can use is a change of a file, which a reader of the change
// sees. Names that stand for types of internal packages are listed with the fields and methods of those.
func TestTheExportedNamesAreListed(t *testing.T) {
	var lines []string
	for _, dir := range public {
		lines = append(lines, exportsOf(t, dir)...)
	}
	require.Greater(t, len(lines), 1000)
	text := strings.Join(lines, "\n") + "\n"
	if *updateAPI {
		require.NoError(t, os.WriteFile("testdata/api.txt", []byte(text), 0o600))
	}
	want, err := os.ReadFile("testdata/api.txt")
	require.NoError(t, err)
	require.Equal(t, string(want), text, "if the change is meant, write it down: make api")
}

// exportsOf lists what a package exports, a line each.
func exportsOf(t *testing.T, dir string) (lines []string) {
	t.Helper()
	for _, f := range sourcesOf(t, dir) {
		for _, d := range f.Decls {
			for _, line := range exportsIn(t, f, d, "") {
				lines = append(lines, "pkg "+dir+", "+line)
			}
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

func sourcesOf(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, names, dir)
	for _, name := range names {
		if !strings.HasSuffix(name, "_test.go") {
			f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			files = append(files, f)
		}
	}
	return files
}

// exportsIn lists what one declaration exports; with only, the type of that name and its methods alone.
func exportsIn(t *testing.T, f *ast.File, d ast.Decl, only string) (lines []string) {
	t.Helper()
	switch d := d.(type) {
	case *ast.FuncDecl:
		name, receiver := d.Name.Name, ""
		if d.Recv != nil {
			receiver = strings.TrimPrefix(printed(d.Recv.List[0].Type), "*")
			receiver, _, _ = strings.Cut(receiver, "[")
		}
		if !ast.IsExported(name) || receiver != "" && !ast.IsExported(receiver) || only != "" && receiver != only {
			return nil
		}
		return []string{printed(&ast.FuncDecl{Recv: d.Recv, Name: d.Name, Type: d.Type})}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.ValueSpec:
				for _, n := range s.Names {
					if n.IsExported() && only == "" {
						lines = append(lines, strings.TrimSpace(d.Tok.String()+" "+n.Name+" "+printed(s.Type)))
					}
				}
			case *ast.TypeSpec:
				if s.Name.IsExported() && (only == "" || only == s.Name.Name) {
					lines = append(lines, typeLines(t, f, s)...)
				}
			}
		}
	}
	return lines
}

func typeLines(t *testing.T, f *ast.File, s *ast.TypeSpec) (lines []string) {
	t.Helper()
	head := "type " + s.Name.Name
	if s.TypeParams != nil {
		head += "[...]"
	}
	var members *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		lines, members = append(lines, head+" struct"), typ.Fields
	case *ast.InterfaceType:
		lines, members = append(lines, head+" interface"), typ.Methods
	default:
		if s.Assign.IsValid() {
			head += " ="
		}
		lines = append(lines, head+" "+printed(s.Type))
		lines = append(lines, ofInternal(t, f, s)...)
	}
	if members == nil {
		return lines
	}
	for _, m := range members.List {
		typ := printed(m.Type)
		for _, n := range m.Names {
			if n.IsExported() {
				lines = append(lines, head+", "+n.Name+" "+typ)
			}
		}
		if len(m.Names) == 0 {
			lines = append(lines, head+", embeds "+typ)
		}
	}
	return lines
}

// ofInternal lists the members of a type of an internal package that a public name stands for.
func ofInternal(t *testing.T, f *ast.File, s *ast.TypeSpec) (lines []string) {
	t.Helper()
	sel, ok := s.Type.(*ast.SelectorExpr)
	if !ok || !s.Assign.IsValid() {
		return nil
	}
	for _, i := range f.Imports {
		dir, ok := strings.CutPrefix(strings.Trim(i.Path.Value, `"`), modulePath+"/")
		if !ok || !strings.Contains(dir, "internal/") || filepath.Base(dir) != printed(sel.X) {
			continue
		}
		for _, in := range sourcesOf(t, dir) {
			for _, d := range in.Decls {
				for _, line := range exportsIn(t, in, d, sel.Sel.Name) {
					lines = append(lines, "type "+s.Name.Name+": "+line)
				}
			}
		}
	}
	return lines
}

// printed is a node of the syntax on one line.
func printed(n any) string {
	if e, ok := n.(ast.Expr); ok && e == nil || n == nil {
		return ""
	}
	var b bytes.Buffer
	if printer.Fprint(&b, token.NewFileSet(), n) != nil {
		return ""
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
