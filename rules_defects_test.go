package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
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
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The defects of other clients that this one must be immune to are numbered from 1 to this. testdata/defects.txt says
// which tests prove it: a row is a number, a package's path and a test, whose own name bears the number. A line "D119:
// sentence" before the rows of a number says what the defect is; rules_numbers_test.go fails where it is missing. the
// numbers that must have a test; later ones may appear as soon as they have a sentence and a test
const defects = 118

func TestEveryDefectOfAPeerHasItsTest(t *testing.T) {
	table, err := os.ReadFile("testdata/defects.txt")
	require.NoError(t, err)
	found, err := checkDefects(os.DirFS("."), string(table), defects)
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryFlawInTheTableOfDefectsIsFound(t *testing.T) {
	const good = "D1 a TestX_D1\nD2 a TestD2D3Both\nD3 a TestD2D3Both\n"
	const source = "func TestX_D1(t *testing.T) {}\nfunc TestD2D3Both(t *testing.T) {}\n"
	for name, c := range map[string]struct{ table, source, want string }{
		"good": {good, source, ""},
		"no test": {
			strings.Replace(good, "D1 a TestX_D1\n", "", 1), "func TestD2D3Both(t *testing.T) {}\n",
			"D1 has no test",
		},
		"gone": {good, "func TestD2D3Both(t *testing.T) {}\n", "D1: a has no TestX_D1"},
		"renamed": {
			strings.ReplaceAll(good, "TestX_D1", "TestX"), strings.ReplaceAll(source, "_D1", ""),
			"D1: a.TestX does not bear the number",
		},
		"not listed": {good, source + "func TestY_D1(t *testing.T) {}\n", "D1: a.TestY_D1 is not in the table"},
		"no defect":  {good, source + "func TestY_D4(t *testing.T) {}\n", "D4: a.TestY_D4 is not in the table"},
		"no such one": {
			good + "D4 a TestY_D4\n", source + "func TestY_D4(t *testing.T) {}\n",
			"D4 a TestY_D4: there is no such defect",
		},
		"explained": {
			"D1: It is slow.\n" + good + "D9: It is wrong.\nD9 a TestZ_D9\n",
			source + "func TestZ_D9(t *testing.T) {}\n", "",
		},
		"unproved": {good + "D9: It is wrong.\n", source, "D9 has no test"},
		"two": {
			"D1: It is slow.\nD1: It is slow.\n" + good, source,
			"D1: It is slow.: a sentence stands before its rows, once, and ends with a full stop",
		},
		"twice": {good + "D1 a TestX_D1\n", source, "D1 a TestX_D1: out of order"},
		"out of order": {
			"D3 a TestD2D3Both\n" + strings.Replace(good, "D3 a TestD2D3Both\n", "", 1), source,
			"D1 a TestX_D1: out of order",
		},
		"short row":   {good + "D3 a\n", source, "D3 a: a row has three words"},
		"no function": {good, strings.Replace(source, "X_D1(t *testing.T)", "X_D1()", 1), "D1: a has no TestX_D1"},
		"a method": {
			good, strings.Replace(source, "TestX_D1(", "(T) TestX_D1(", 1) + "type T int\n",
			"D1: a has no TestX_D1",
		},
		"skipped": {good, strings.Replace(source, "X_D1(t *testing.T) {",
			"X_D1(t *testing.T) { if slow { t.Skip() }\n", 1), "D1: a.TestX_D1 may be skipped"},
		"built rarely": {good, "//go:build rare\n\npackage a\n" + source, "D1: a has no TestX_D1"},
	} {
		t.Run(name, func(t *testing.T) {
			text := c.source
			if !strings.Contains(text, "package") {
				text = "package a\n" + text
			}
			found, err := checkDefects(fstest.MapFS{"a/x_test.go": {Data: []byte(text)}}, c.table, 3)
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Contains(t, found, c.want)
		})
	}
}

// checkDefects compares the table with the tests and says what is wrong.
func checkDefects(files fs.FS, table string, count int) (found []string, err error) {
	tests, err := allTests(files)
	if err != nil {
		return nil, err
	}
	listed := map[string]bool{}
	proved := map[int]bool{}
	explained := map[int]bool{}
	last := 0
	for row := range strings.Lines(table) {
		row = strings.TrimSpace(row)
		if id, text, ok := strings.Cut(row, ": "); ok && !strings.Contains(id, " ") {
			n, err := strconv.Atoi(strings.TrimPrefix(id, "D"))
			if err != nil || n < last || explained[n] || !strings.HasSuffix(text, ".") {
				found = append(found, row+": a sentence stands before its rows, once, and ends with a full stop")
			}
			last, explained[n] = n, true
			continue
		}
		words := strings.Fields(row)
		if len(words) != 3 {
			found = append(found, row+": a row has three words")
			continue
		}
		n, err := strconv.Atoi(strings.TrimPrefix(words[0], "D"))
		if err != nil || n < 1 || n > count && !explained[n] {
			found = append(found, row+": there is no such defect")
			continue
		}
		if n < last || listed[row] {
			found = append(found, row+": out of order")
		}
		last, listed[row] = n, true
		name := words[1] + "." + words[2]
		fn, ok := tests[name]
		switch {
		case !ok:
			found = append(found, fmt.Sprintf("D%d: %s has no %s", n, words[1], words[2]))
		case !slices.Contains(numbers(words[2]), n):
			found = append(found, fmt.Sprintf("D%d: %s does not bear the number", n, name))
		case skips(fn):
			found = append(found, fmt.Sprintf("D%d: %s may be skipped", n, name))
		default:
			proved[n] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		i := strings.LastIndexByte(name, '.')
		for _, n := range numbers(name[i+1:]) {
			if !listed[fmt.Sprintf("D%d %s %s", n, name[:i], name[i+1:])] {
				found = append(found, fmt.Sprintf("D%d: %s is not in the table", n, name))
			}
		}
	}
	for n := 1; n <= max(count, last); n++ {
		if !proved[n] && (n <= count || explained[n]) {
			found = append(found, fmt.Sprintf("D%d has no test", n))
		}
	}
	return found, nil
}

// allTests gives the tests that a plain "go test" runs, by the path of their package, a dot and their name.
func allTests(files fs.FS) (map[string]*ast.FuncDecl, error) {
	tests := map[string]*ast.FuncDecl{}
	return tests, fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "target" || d.Name() == "testdata" || name != "." && strings.HasPrefix(d.Name(),
			".")):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, group := range tree.Comments {
			if group.Pos() < tree.Package && slices.ContainsFunc(group.List,
				func(c *ast.Comment) bool { return constraint.IsGoBuild(c.Text) }) {
				return nil
			}
		}
		for _, d := range tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") &&
				len(fn.Type.Params.List) == 1 {
				tests[path.Dir(name)+"."+fn.Name.Name] = fn
			}
		}
		return nil
	})
}

// numbers are those of the defects in a test's name. A number after capitals, as in TestID1, is not one.
func numbers(name string) (all []int) {
	for i := 1; i < len(name); i++ {
		if name[i] != 'D' || name[i-1] >= 'A' && name[i-1] <= 'Z' {
			continue
		}
		digits := name[i+1:]
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789"))]
		if n, err := strconv.Atoi(digits); err == nil {
			all = append(all, n)
		}
	}
	return all
}

// skips reports whether a test may end before it has proved anything.
func skips(fn *ast.FuncDecl) (yes bool) {
	ast.Inspect(fn.Body, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, s.Sel.Name) {
			yes = true
		}
		return !yes
	})
	return yes
}
