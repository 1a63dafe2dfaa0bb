package gocbcore_test

import (
	"bufio"
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A cut takes declarations out of test files until the rest compiles with a package that lacks what they use: tests
// that look into what was replaced.
type cut struct {
	dir  string
	gone map[string]string // functions that were taken out, and what the compiler said of them
}

// complaint is a line of the compiler's about a test file.
var complaint = regexp.MustCompile(`^(?:vet: )?\./(\w+_test\.go):(\d+):\d+: (.*)$`)

// compile makes a test binary of the package in dir, after as many rounds as are needed.
func (c *cut) compile(t *testing.T, binary string) {
	t.Helper()
	for range 20 {
		cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-gcflags=-e", "-o", binary, ".")
		cmd.Dir = c.dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off", "GONOSUMDB=*")
		out, err := cmd.CombinedOutput()
		if err == nil {
			return
		}
		byFile := map[string]map[int]string{}
		lines := bufio.NewScanner(bytes.NewReader(out))
		for lines.Scan() {
			m := complaint.FindStringSubmatch(lines.Text())
			if m == nil {
				continue
			}
			if byFile[m[1]] == nil {
				byFile[m[1]] = map[int]string{}
			}
			line, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			if _, known := byFile[m[1]][line]; !known {
				byFile[m[1]][line] = m[3]
			}
		}
		require.NotEmpty(t, byFile, string(out))
		for file, said := range byFile {
			c.takeOut(t, filepath.Join(c.dir, file), said)
		}
	}
	require.Fail(t, "the tests do not compile after 20 rounds")
}

// takeOut removes the declarations in which the named lines are.
func (c *cut) takeOut(t *testing.T, file string, said map[int]string) {
	t.Helper()
	src, err := os.ReadFile(file)
	require.NoError(t, err)
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, file, src, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	nodes := make([]ast.Node, 0, len(f.Decls))
	for _, d := range f.Decls {
		g, grouped := d.(*ast.GenDecl)
		if !grouped || !g.Lparen.IsValid() {
			nodes = append(nodes, d)
			continue
		}
		for _, spec := range g.Specs {
			nodes = append(nodes, spec)
		}
	}
	slices.Reverse(nodes)
	for _, n := range nodes {
		from, to := set.Position(n.Pos()), set.Position(n.End())
		for line, text := range said {
			if line < from.Line || line > to.Line {
				continue
			}
			if fn, ok := n.(*ast.FuncDecl); ok {
				c.gone[fn.Name.Name] = text
			}
			src = slices.Delete(src, from.Offset, to.Offset)
			break
		}
	}
	require.NoError(t, os.WriteFile(file, src, 0o600))
}

// copyTests copies the Go test files of a module, and the data that they read.
func copyTests(t *testing.T, from, to string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(from, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(to, filepath.Base(f)), text, 0o600))
	}
	if _, err := os.Stat(filepath.Join(from, "testdata")); err == nil {
		require.NoError(t, os.CopyFS(filepath.Join(to, "testdata"), os.DirFS(filepath.Join(from, "testdata"))))
	}
}

// standardTests are the names of the tests of gocbcore's standard suite.
func standardTests(t *testing.T, dir string) (names []string) {
	t.Helper()
	method := regexp.MustCompile(`(?m)^func \(suite \*StandardTestSuite\) (Test\w+)\(`)
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range method.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	slices.SortFunc(names, strings.Compare)
	return names
}
