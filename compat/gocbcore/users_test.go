package gocbcore_test

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/compat/gocbcore"
)

// usersVariable names a directory with clones of the programs below, each under its own name: the module proxies do not
// have most of them.
const usersVariable = "COUCHCORE_GOCBCORE_USERS"

// users are programs that use gocbcore directly. The folders are those of packages that do so for DCP: they lack DCP's
// agent, and nothing else.
var users = map[string][]string{
	"sync_gateway": {"base"}, "query": nil, "cbft": nil, "xdcrDiffer": {"dcp", "differ"}, "cbgt": {"."},
	"go-dcp": {"couchbase"},
}

// dcpNames are what the packages for DCP may lack.
var dcpNames = []string{"DCPAgent", "CreateDcpAgent"}

// TestDirectUsersCompile type-checks the files of other programs that import gocbcore, against the assembled module.
// Modules other than gocb and gocbcore are taken as empty, so that what is said of gocbcore alone counts.
func TestDirectUsersCompile(t *testing.T) {
	root := os.Getenv(usersVariable)
	if root == "" {
		t.Skipf("set %s to a directory with clones", usersVariable)
	}
	from := &known{Importer: importsOf(t, assembled(t, newest())), made: map[string]*types.Package{}}
	from.names = namesOf(t, from.Importer)
	var list []string
	for name, dcp := range users {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(root, name)
			var compile, lack []string
			for _, folder := range folders(t, dir) {
				complaints, used := from.check(t, filepath.Join(dir, folder))
				require.NotEmpty(t, used, folder)
				list = append(list, name+" "+folder+": "+strings.Join(used, " "))
				for _, c := range complaints {
					known := slices.ContainsFunc(dcpNames, func(n string) bool { return strings.Contains(c, n) })
					require.True(t, known, "%s: %s", folder, c)
				}
				if len(complaints) == 0 {
					compile = append(compile, folder)
				} else {
					lack = append(lack, folder)
				}
			}
			t.Logf("compile: %q, lack DCP: %q", compile, lack)
			require.Equal(t, dcp, lack)
			require.NotEmpty(t, append(compile, lack...))
		})
	}
	slices.Sort(list)
	text := wrapped(list)
	if *updateUsers {
		require.NoError(t, os.WriteFile(usersFile, []byte(text), 0o600))
	}
	require.Equal(t, readFile(t, usersFile), text, "go test -run TestDirectUsersCompile -update-users writes it")
}

// folders are those of which a file that is no test imports gocbcore.
func folders(t *testing.T, dir string) (list []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return nil //nolint:nilerr // files that are no Go, as of templates
		}
		for _, i := range f.Imports {
			folder, err := filepath.Rel(dir, filepath.Dir(name))
			if err == nil && strings.HasPrefix(i.Path.Value, `"`+gocbcore.Module) && !slices.Contains(list, folder) {
				list = append(list, folder)
			}
		}
		return nil
	}))
	return list
}

// known imports what gocb needs; any other package is empty.
type known struct {
	types.Importer
	made  map[string]*types.Package
	names map[types.Object]string // of gocbcore's
}

// Import implements types.Importer.
func (k *known) Import(name string) (*types.Package, error) {
	if p, err := k.Importer.Import(name); err == nil {
		return p, nil
	}
	if k.made[name] == nil {
		k.made[name] = types.NewPackage(name, path.Base(name))
		k.made[name].MarkComplete()
	}
	return k.made[name], nil
}

// check gives what the type checker says of gocbcore about a package's files, and the names of gocbcore's that they
// use.
func (k *known) check(t *testing.T, dir string) (complaints, used []string) {
	t.Helper()
	set := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	var files []*ast.File
	system := build.Default
	system.BuildTags = []string{"vectors", "enterprise"}
	for _, name := range names {
		if fits, err := system.MatchFile(dir, filepath.Base(name)); err != nil || !fits ||
			strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, f)
	}
	c := types.Config{Importer: k, FakeImportC: true, Error: func(err error) {
		var said types.Error
		if errors.As(err, &said) && strings.Contains(said.Msg, "gocbcore") {
			complaints = append(complaints, said.Msg)
		}
	}}
	info := types.Info{Uses: map[*ast.Ident]types.Object{}}
	_, _ = c.Check(filepath.Base(dir), set, files, &info)
	for _, o := range info.Uses {
		if name := k.names[o]; name != "" && !slices.Contains(used, name) {
			used = append(used, name)
		}
	}
	slices.Sort(used)
	return complaints, used
}
