package gocbcore

import (
	"go/format"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

const source = `// Package p is an example.
package p

import (
	"errors"
	"fmt"
	other "strings"
)

// A is kept.
type A struct{ n int }

// Text is A's.
func (a *A) Text() string { return fmt.Sprint(a.n) }

// Gone is A's too.
func (a A) Gone() string { return other.ToUpper("gone") }

var (
	// first is one of two.
	first = errors.New("first")
	second = 2
)

const (
	zero = iota
	one
)
`

func TestAPartOfAFileIsKeptAsItIs(t *testing.T) {
	got, err := choose(entry{file: "p.go", how: drop, names: []string{"A.Gone", "second"}}, []byte(source))
	require.NoError(t, err)
	require.Equal(t, `// Package p is an example.
package p

// Notice: couchcore has left parts of this file out. The whole of it is p.go in
// github.com/couchbase/gocbcore/v10.

import "errors"

import "fmt"

// A is kept.
type A struct{ n int }

// Text is A's.
func (a *A) Text() string { return fmt.Sprint(a.n) }

var first = errors.New("first")

const (
	zero = iota
	one
)
`, string(got))
	_, err = format.Source(got)
	require.NoError(t, err)
}

func TestWhatIsTakenBringsItsMethods(t *testing.T) {
	got, err := choose(entry{file: "p.go", how: take, names: []string{"A", "one"}}, []byte(source))
	require.NoError(t, err)
	require.Contains(t, string(got), "func (a A) Gone()")
	require.Contains(t, string(got), `import other "strings"`)
	require.Contains(t, string(got), "zero = iota", "a group of constants is one")
	require.NotContains(t, string(got), "first")
	require.NotContains(t, string(got), "errors")
}

func TestANameThatTheSourceHasNotIsAnError(t *testing.T) {
	_, err := choose(entry{file: "p.go", how: take, names: []string{"A", "B"}}, []byte(source))
	var e *SelectError
	require.ErrorAs(t, err, &e)
	require.Equal(t, SelectError{File: "p.go", Name: "B"}, *e)
}

func TestManifests(t *testing.T) {
	m, err := parseManifest("# text\nsum h1:x\nrequire m v1 # why\nkeep a.go\n\tb.go c.go\ndrop d.go X\n\tY.z\n")
	require.NoError(t, err)
	require.Equal(t, []entry{
		{file: "a.go"}, {file: "b.go"}, {file: "c.go"}, {file: "d.go", how: drop, names: []string{"X", "Y.z"}},
	}, m.entries)
	require.Equal(t, [][2]string{{"m", "v1"}}, m.require)

	for text, line := range map[string]int{"": 0, "keep a.go": 0, "sum a b": 1, "sum a\nkeep": 2, "\tgoes on": 1} {
		_, err := parseManifest(text)
		var e *ManifestError
		require.ErrorAs(t, err, &e, text)
		require.Equal(t, line, e.Line, text)
	}
	_, err = ManifestOf("v10.0.0")
	var unknown *UnknownVersionError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, Versions(), unknown.Known)
}

// moduleSource is a source of two files, and its manifest.
func moduleSource() (fstest.MapFS, *Manifest) {
	src := fstest.MapFS{
		"LICENSE": {Data: []byte("license")}, "p.go": {Data: []byte(source)}, "engine.go": {Data: []byte("package p")},
	}
	return src, &Manifest{
		Version: "v1.0.0", Sum: "h1:none",
		entries: []entry{{file: "LICENSE"}, {file: "p.go", how: take, names: []string{"A"}}},
	}
}

func TestOnlyThePublishedModuleIsUsed(t *testing.T) {
	src, m := moduleSource()
	src["p.go"].Data = append(src["p.go"].Data, ' ')
	_, err := m.Assemble(src, Options{})
	var e *SumError
	require.ErrorAs(t, err, &e)
	require.Equal(t, "h1:none", e.Want)
}

func TestAnAssembledModule(t *testing.T) {
	src, m := moduleSource()
	var err error
	m.Sum, err = sum(src, Module+"@v1.0.0")
	require.NoError(t, err)
	files, err := m.Assemble(src, Options{Couchcore: "v0.1.0", Go: "1.26.0"})
	require.NoError(t, err)
	again, err := m.Assemble(src, Options{Couchcore: "v0.1.0", Go: "1.26.0"})
	require.NoError(t, err)
	require.Equal(t, files, again)
	require.Equal(t, "license", string(files["LICENSE"]))
	require.NotContains(t, files, "engine.go")
	require.Contains(t, string(files["go.mod"]), "github.com/couchcore/couchcore v0.1.0\n")
	require.NotContains(t, string(files["couchcore_agent.go"]), "go:build")

	dir := filepath.Join(t.TempDir(), "new")
	differ := func() []string {
		list, err := files.Differences(dir)
		require.NoError(t, err)
		return list
	}
	require.Len(t, differ(), len(files))
	require.NoError(t, files.Write(dir))
	require.Empty(t, differ())
	require.NoError(t, os.WriteFile(filepath.Join(dir, "own.go"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "p.go"), nil, 0o600))
	require.NoError(t, os.Remove(filepath.Join(dir, "LICENSE")))
	require.Equal(t, []string{"LICENSE is missing", "p.go is another one", "own.go should not be there"}, differ())
	require.NoError(t, files.Write(dir))
	require.Empty(t, differ())

	require.NoError(t, os.Remove(filepath.Join(dir, mark)))
	var not *NotOursError
	require.ErrorAs(t, files.Write(dir), &not)
}
