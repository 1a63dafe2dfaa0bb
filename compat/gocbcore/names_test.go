package gocbcore_test

import (
	"flag"
	"go/types"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/testkit"
)

// usersFile has what programs use of gocbcore that are no modules of a proxy's: a paragraph for each package, whose
// lines after the first are indented.
const usersFile = "testdata/users.txt"

var updateUsers = flag.Bool("update-users", false, "write "+usersFile)

// TestWhatDirectUsersUseIsThere holds what the packages of direct users use of gocbcore against the assembled module:
// each name is there, and is what it is in gocbcore. Only packages for DCP may use what DCP alone has.
func TestWhatDirectUsersUseIsThere(t *testing.T) {
	testkit.RequireInterop(t)
	theirs, ours := exports(t, ""), exports(t, assembled(t, newest()))
	packages, names := 0, map[string]bool{}
	var user string
	for line := range strings.Lines(readFile(t, usersFile)) {
		if line[0] != '\t' {
			var list string
			user, list, _ = strings.Cut(line, ": ")
			line = list
			packages++
		}
		for _, name := range strings.Fields(line) {
			names[name] = true
			require.NotEmpty(t, theirs[name], name)
			require.Equal(t, theirs[name], ours[name], "%s uses %s", user, name)
		}
	}
	t.Logf("%d packages use %d names", packages, len(names))
	require.Greater(t, packages, 10)
	require.Greater(t, len(names), 300)
}

// namesOf are the names of gocbcore's exported objects, members with the type before them.
func namesOf(t *testing.T, from types.Importer) map[types.Object]string {
	t.Helper()
	all := map[types.Object]string{}
	note := func(o types.Object, name string) {
		if o.Exported() && all[o] == "" {
			all[o] = name
		}
	}
	for prefix, path := range publicPackages {
		pkg, err := from.Import(path)
		require.NoError(t, err)
		for _, name := range pkg.Scope().Names() {
			o := pkg.Scope().Lookup(name)
			note(o, prefix+name)
			if _, is := o.(*types.TypeName); !is || !o.Exported() {
				continue
			}
			for _, of := range []types.Type{o.Type(), types.NewPointer(o.Type())} {
				for m := range types.NewMethodSet(of).Methods() {
					note(m.Obj(), prefix+name+"."+m.Obj().Name())
				}
			}
			if s, ok := o.Type().Underlying().(*types.Struct); ok {
				for f := range s.Fields() {
					note(f, prefix+name+"."+f.Name())
				}
			}
		}
	}
	return all
}

// wrapped are lines that end at 120 columns; a tab begins the rest of one.
func wrapped(list []string) string {
	var b strings.Builder
	for _, line := range list {
		column := 0
		for i, word := range strings.Fields(line) {
			switch {
			case i == 0:
			case column+1+len(word) > 110:
				b.WriteString("\n\t")
				column = 0
			default:
				b.WriteByte(' ')
				column++
			}
			b.WriteString(word)
			column += len(word)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
