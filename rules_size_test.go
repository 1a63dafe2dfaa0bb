package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// What a reader can hold in mind: files, functions, the documented architecture, the types that a user of kv meets, and
// the package that every call goes through.
const (
	maxFile         = 500
	maxFunction     = 60
	maxArchitecture = 250
	maxTypesOfKV    = 90
	maxConn         = 1800
)

// longFunctions are longer than maxFunction: tables, and functions that take many cases apart one after the other.
var longFunctions = []string{
	"internal/sim/changes.go: changes", "internal/sim/faults.go: networkFaults", "mock/http_buckets.go: createBucket",
	"mock/internal/store/mutate.go: mutate", "mock/internal/store/store.go: Apply",
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	found, err := long(os.DirFS("."))
	require.NoError(t, err)
	found = slices.DeleteFunc(found, func(f string) bool {
		where, _, _ := strings.Cut(f, " has ")
		return slices.Contains(longFunctions, where)
	})
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestLongFilesAndFunctionsAreFound(t *testing.T) {
	lines := strings.Repeat("\n", maxFunction)
	found, err := long(fstest.MapFS{
		"a/a.go":      {Data: []byte("package a\n\nfunc f() {" + lines + "}\n\nfunc g() {}\n")},
		"a/a_test.go": {Data: []byte("package a\n\nfunc f() {" + lines + "}\n")},
		"a/b.go":      {Data: []byte("package a\n" + strings.Repeat("\n", maxFile))},
	})
	require.NoError(t, err)
	require.Equal(t, []string{"a/a.go: f has 61 lines", "a/b.go has 501 lines"}, found)
}

// long lists files that are too long, and functions outside of tests.
func long(fsys fs.FS) (found []string, err error) {
	err = walkGo(fsys, func(file string, f *ast.File, set *token.FileSet) {
		if n := set.File(f.FileStart).LineCount(); n > maxFile {
			found = append(found, fmt.Sprintf("%s has %d lines", file, n))
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || strings.HasSuffix(file, "_test.go") {
				continue
			}
			if n := set.Position(fn.End()).Line - set.Position(fn.Pos()).Line + 1; n > maxFunction {
				found = append(found, fmt.Sprintf("%s: %s has %d lines", file, fn.Name.Name, n))
			}
		}
	})
	slices.Sort(found)
	return found, err
}

func TestTheArchitectureFitsInOneReading(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), maxArchitecture)
}

func TestAUserOfKVMeets90TypesAtMost(t *testing.T) {
	var types []string
	require.NoError(t, walkGo(os.DirFS("."), func(file string, f *ast.File, _ *token.FileSet) {
		if path.Dir(file) != "kv" || strings.HasSuffix(file, "_test.go") {
			return
		}
		for _, d := range f.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && s.Name.IsExported() {
						types = append(types, s.Name.Name)
					}
				}
			}
		}
	}))
	require.LessOrEqual(t, len(types), maxTypesOfKV, "merge two of them, or keep one internal: %v", types)
}

func TestTheConnectionStaysSmall(t *testing.T) {
	lines := 0
	require.NoError(t, walkGo(os.DirFS("."), func(file string, f *ast.File, set *token.FileSet) {
		if path.Dir(file) == "internal/conn" && !strings.HasSuffix(file, "_test.go") {
			lines += set.File(f.FileStart).LineCount()
		}
	}))
	require.LessOrEqual(t, lines, maxConn)
}
