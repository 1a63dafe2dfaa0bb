package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The names of Go that a guide sets in back-quotes exist.

// nameInPage is a name of one of our packages, or a member of one: `kv.Get`, `core.Cluster.Query`.
var nameInPage = regexp.MustCompile("`(" + strings.Join(packages, "|") + `)\.([A-Z]\w*)(?:\.([A-Z]\w*))?` + "[`(]")

var packages = []string{
	"analytics", "cberr", "core", "errormap", "kv", "memd", "mock", "policy", "query", "retry", "search", "views",
}

// exported is what a package exports: its names, and of each type the members, "" among them if not all are known.
type exported map[string]map[string]bool

func exportsOf(t *testing.T, pkg string) exported {
	t.Helper()
	dir := filepath.Join(root, pkg)
	if pkg == "policy" {
		dir = filepath.Join(root, "retry", pkg)
	}
	found := exported{}
	member := func(of, name string) {
		if found[of] == nil {
			found[of] = map[string]bool{}
		}
		found[of][name] = true
	}
	files, err := filepath.Glob(dir + "/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					member(d.Name.Name, "")
				} else {
					member(baseName(d.Recv.List[0].Type), d.Name.Name)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							member(n.Name, "")
						}
					case *ast.TypeSpec:
						for _, name := range membersOf(s.Type) {
							member(s.Name.Name, name)
						}
						if s.Assign.IsValid() {
							member(s.Name.Name, "*")
						}
						member(s.Name.Name, "")
					}
				}
			}
		}
	}
	return found
}

// membersOf are a type's fields or methods; "*" says that it has those of another type too.
func membersOf(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch e := e.(type) {
	case *ast.StructType:
		list = e.Fields
	case *ast.InterfaceType:
		list = e.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
		if len(f.Names) == 0 {
			names = append(names, baseName(f.Type), "*")
		}
	}
	return names
}

func baseName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return baseName(e.X)
	case *ast.IndexExpr:
		return baseName(e.X)
	case *ast.IndexListExpr:
		return baseName(e.X)
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestNamesOfThePagesExist(t *testing.T) {
	known := map[string]exported{}
	for _, p := range packages {
		known[p] = exportsOf(t, p)
	}
	checked := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(page string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(page) != ".md" {
			return err
		}
		checkNames(t, known, page, checked)
		return nil
	})
	require.NoError(t, err)
	for _, page := range []string{"README.md", "ARCHITECTURE.md", "SECURITY.md"} {
		checkNames(t, known, filepath.Join(root, page), checked)
	}
	require.GreaterOrEqual(t, len(checked), 50, "%q", slices.Sorted(maps.Keys(checked)))
}

func checkNames(t *testing.T, known map[string]exported, page string, checked map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	for _, m := range nameInPage.FindAllStringSubmatch(string(text), -1) {
		checked[m[0]] = true
		members, ok := known[m[1]][m[2]]
		require.True(t, ok, "%s names %s", page, m[0])
		if m[3] != "" {
			require.True(t, members[m[3]] || members["*"], "%s names %s", page, m[0])
		}
	}
}
