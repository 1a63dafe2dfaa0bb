package gocbcore_test

import (
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
	"github.com/couchcore/couchcore/internal/testkit"
)

// TestTheAPIIsWhole holds what gocbcore exports against what the assembled module does: each name, each method and
// field with its type, each constant with its value. testdata/missing.txt has what is left out, and nothing else.
func TestTheAPIIsWhole(t *testing.T) {
	testkit.RequireInterop(t)
	theirs, ours := exports(t, ""), exports(t, assembled(t, newest()))
	var missing, other []string
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		is, there := ours[name]
		owner, _, member := strings.Cut(name, ".")
		_, whole := ours[owner]
		switch {
		case there && is != theirs[name]:
			other = append(other, fmt.Sprintf("%s is %s, not %s", name, is, theirs[name]))
		case !there && (!member || whole): // of a type that is missing the type alone is named
			missing = append(missing, name)
		}
	}
	require.Empty(t, other)
	var known []string
	for line := range strings.Lines(readFile(t, "testdata/missing.txt")) {
		names, _, _ := strings.Cut(line, "#")
		known = append(known, strings.Fields(names)...)
	}
	slices.Sort(known)
	require.Equal(t, known, missing)
	t.Logf("%d of gocbcore's exported names, fields and methods; %d are missing", len(theirs), len(missing))
}

// exports are the exported names of a module in the place of gocbcore's, or of gocbcore itself for "", and what they
// are.
func exports(t *testing.T, module string) map[string]string {
	t.Helper()
	all, from := map[string]string{}, importsOf(t, module)
	for prefix, path := range publicPackages {
		pkg, err := from.Import(path)
		require.NoError(t, err)
		exportsOf(pkg, prefix, all)
	}
	return all
}

// publicPackages are gocbcore's, by what stands before their names here.
var publicPackages = map[string]string{
	"": gocbcore.Module, "memd.": gocbcore.Module + "/memd", "connstr.": gocbcore.Module + "/connstr",
}

func exportsOf(pkg *types.Package, prefix string, all map[string]string) {
	note := func(name string, o types.Object) {
		if o.Exported() {
			all[prefix+name] = typeOf(o.Type())
		}
	}
	for _, name := range pkg.Scope().Names() {
		o := pkg.Scope().Lookup(name)
		if !o.Exported() {
			continue
		}
		switch o := o.(type) {
		case *types.Const:
			all[prefix+name] = o.Val().ExactString()
		case *types.TypeName:
			all[prefix+name] = "type"
			for _, of := range []types.Type{o.Type(), types.NewPointer(o.Type())} {
				for m := range types.NewMethodSet(of).Methods() {
					note(name+"."+m.Obj().Name(), m.Obj())
				}
			}
			if s, ok := o.Type().Underlying().(*types.Struct); ok {
				for f := range s.Fields() {
					note(name+"."+f.Name(), f)
				}
			}
		default:
			note(name, o)
		}
	}
}

// typeOf is a type in words, without the names of parameters.
func typeOf(t types.Type) string {
	short := func(p *types.Package) string { return p.Name() }
	f, ok := t.(*types.Signature)
	if !ok {
		return types.TypeString(t, short)
	}
	var list [2][]string
	for i, of := range []*types.Tuple{f.Params(), f.Results()} {
		for v := range of.Variables() {
			list[i] = append(list[i], types.TypeString(v.Type(), short))
		}
	}
	return fmt.Sprint("func", list, f.Variadic())
}

// importsOf gives the packages that gocb needs, with a module in the place of gocbcore's unless it is "".
func importsOf(t *testing.T, module string) types.Importer {
	t.Helper()
	_, run := gocbProgram(t, module, "package main\n\nimport (\n\t_ \"github.com/couchbase/gocb/v2\"\n"+
		"\t_ \""+gocbcore.Module+"/connstr\"\n)\n\nfunc main() {}\n")
	run("mod", "tidy")
	where := map[string]string{}
	for line := range strings.Lines(run("list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")) {
		if path, file, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			where[path] = file
		}
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) {
		file, ok := where[path]
		if !ok {
			return nil, fmt.Errorf("%s is not imported", path)
		}
		return os.Open(file)
	})
}
