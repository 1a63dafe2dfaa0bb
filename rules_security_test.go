package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Each row of SECURITY.md has tests, which testdata/security.txt names: a row is a number, a package's path and a test.
// The table has every test whose name bears a number of the page.
func TestEveryRowOfTheSecurityPageHasItsTest(t *testing.T) {
	page, err := os.ReadFile("SECURITY.md")
	require.NoError(t, err)
	table, err := os.ReadFile("testdata/security.txt")
	require.NoError(t, err)
	found, err := checkSecurity(os.DirFS("."), string(page), string(table))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))

	tests := fstest.MapFS{"a/x_test.go": {Data: []byte("package a\nfunc TestX(t *testing.T) {}\n" +
		"func TestY(t *testing.T) { t.Skip() }\n")}, "b/x_test.go": {Data: []byte("package b\n" +
		"func TestZ_S1_D5_S2(t *testing.T) {}\nfunc TestSHA_SASL(t *testing.T) {}\n")}}
	for table, want := range map[string]string{
		"S1 a TestX\n":             "S2 has no test",
		"S1 a TestX\nS2 a TestY\n": "S2: a.TestY may be skipped",
		"S1 a TestX\nS2 a TestZ\n": "S2: a has no TestZ",
		"S1 a TestX\nS2 a\n":       "S2 a: a row has three words",
		"S1 a TestX\nS3 a TestX\n": "S3 a TestX: SECURITY.md has no such row",
		"S1 b TestZ_S1_D5_S2\n":    "S2: b.TestZ_S1_D5_S2 is not in the table",
		"S2 b TestZ_S1_D5_S2\n":    "S1: b.TestZ_S1_D5_S2 is not in the table",
	} {
		found, err := checkSecurity(tests, "| S1 | it is safe |\n| S2 | it is closed |\n", table)
		require.NoError(t, err)
		require.Contains(t, found, want)
	}
	found, err = checkSecurity(tests, "| S1 | it is safe |\n| S2 | it is closed |\n", "S1 a TestX\n"+
		"S1 b TestZ_S1_D5_S2\nS2 b TestZ_S1_D5_S2\n")
	require.NoError(t, err)
	require.Empty(t, found)
}

// checkSecurity says which rows of the page have no test, and what is wrong with the table.
func checkSecurity(files fs.FS, page, table string) (found []string, err error) {
	tests, err := allTests(files)
	if err != nil {
		return nil, err
	}
	rows, proved := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\| (S\d+) \|`).FindAllStringSubmatch(page, -1) {
		rows[m[1]] = true
	}
	for row := range strings.Lines(table) {
		row = strings.TrimSpace(row)
		words := strings.Fields(row)
		if len(words) != 3 {
			found = append(found, row+": a row has three words")
			continue
		}
		name := words[1] + "." + words[2]
		switch fn, ok := tests[name]; {
		case !rows[words[0]]:
			found = append(found, row+": SECURITY.md has no such row")
		case !ok:
			found = append(found, fmt.Sprintf("%s: %s has no %s", words[0], words[1], words[2]))
		case skips(fn):
			found = append(found, fmt.Sprintf("%s: %s may be skipped", words[0], name))
		default:
			proved[words[0]] = true
		}
	}
	for row := range rows {
		if !proved[row] {
			found = append(found, row+" has no test")
		}
	}
	return append(found, unlisted(tests, table)...), nil
}

// unlisted are the tests whose names bear a number of the page, and that the table does not have with that number.
func unlisted(tests map[string]*ast.FuncDecl, table string) (found []string) {
	for test := range tests {
		for _, number := range strings.Split(test, "_")[1:] {
			row := number + " " + strings.Replace(test, ".Test", " Test", 1)
			if securityNumber.MatchString(number) && !slices.Contains(strings.Split(table, "\n"), row) {
				found = append(found, number+": "+test+" is not in the table")
			}
		}
	}
	slices.Sort(found)
	return found
}

var securityNumber = regexp.MustCompile(`^S\d+$`)

// The time that == takes tells how much of a secret is right.
func TestTheMocksSecretsAreComparedInConstantTime(t *testing.T) {
	found, err := comparedSecrets(os.DirFS("."), "mock")
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
	for source, count := range map[string]int{
		`func f() bool { return u.password == given }`:   1,
		`func f() bool { return "x" != Password }`:       1,
		`func f() bool { return u.password == "" }`:      0,
		`func f() bool { return nil != u.tokens }`:       0,
		`func f() bool { return u.name == "password" }`:  0,
		`func f() bool { return bytes.Equal(token, b) }`: 1,
	} {
		found, err := comparedSecrets(fstest.MapFS{"mock/a.go": {Data: []byte("package mock\n" + source)}}, "mock")
		require.NoError(t, err)
		require.Len(t, found, count, source)
	}
}

// comparedSecrets are places in a folder, tests apart, that compare a value named after a secret with ==, != or Equal.
func comparedSecrets(files fs.FS, folder string) (found []string, err error) {
	return found, eachFile(files, folder, func(name string, set *token.FileSet, tree *ast.File) {
		ast.Inspect(tree, func(n ast.Node) bool {
			var sides []ast.Expr
			switch n := n.(type) {
			case *ast.BinaryExpr:
				if n.Op == token.EQL || n.Op == token.NEQ {
					sides = []ast.Expr{n.X, n.Y}
				}
			case *ast.CallExpr:
				if s, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Equal") {
					sides = n.Args
				}
			}
			for i, side := range sides {
				switch other := sides[len(sides)-1-i].(type) { // whether there is one
				case *ast.BasicLit:
					if other.Value == `""` {
						continue
					}
				case *ast.Ident:
					if other.Name == "nil" {
						continue
					}
				}
				if secretName.MatchString(lastName(side)) {
					found = append(found, fmt.Sprintf("%v: compares %s", set.Position(side.Pos()), lastName(side)))
				}
			}
			return true
		})
	})
}

// lastName is an identifier, or the last one of a selector.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// eachFile calls f with each file of Go in a folder and below, tests apart.
func eachFile(files fs.FS, folder string, f func(name string, set *token.FileSet, tree *ast.File)) error {
	return fs.WalkDir(files, folder, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.IsDir() || path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		set := token.NewFileSet()
		tree, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		f(name, set, tree)
		return nil
	})
}

func TestNothingIsBuiltWithCgo(t *testing.T) {
	require.NoError(t, eachFile(os.DirFS("."), ".", func(name string, _ *token.FileSet, tree *ast.File) {
		for _, imp := range tree.Imports {
			require.NotEqual(t, `"C"`, imp.Path.Value, name)
		}
	}))
}

func TestTheGateVerifiesTheModules(t *testing.T) {
	gate, err := os.ReadFile(".ci/run")
	require.NoError(t, err)
	m := regexp.MustCompile(`(?m)^\s+for dir in (.+); do\n\s+\(cd "\$dir" && go mod verify\)$`).FindSubmatch(gate)
	require.NotNil(t, m)
	verified := strings.Fields(string(m[1]))
	require.NoError(t, fs.WalkDir(os.DirFS("."), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "go.mod" {
			require.Contains(t, verified, path.Dir(name), "a module of the tree")
			require.FileExists(t, path.Join(path.Dir(name), "go.sum"), "sums are committed")
		}
		return err
	}))
}
