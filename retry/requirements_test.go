package retry_test

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
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// series are the ids that REQUIREMENTS.md lists, in its order: each begins with 1.
var series = []struct {
	prefix string
	last   int
}{{"CB-", 68}, {"SM-", 21}, {"ADR-", 10}, {"GR-", 17}, {"GA6-", 53}, {invariant, 16}}

// invariant begins the ids of what holds whatever happens.
const invariant = "I"

// outside are the trees whose tests go the way of a user: nothing in them imports anything internal.
var outside = []string{"retry/promises", "core/field"}

// unseen are the requirements that cannot be seen from outside. Their rows say why.
var unseen = []string{"CB-8", "CB-24", "CB-28"}

// notVisible begins the cell of such a row.
const notVisible = "not visible: "

type requirement struct {
	line                int
	id, text            string
	promises            string // the cell with the tests outside
	packages, testNames []string
}

var (
	idForm   = regexp.MustCompile(`^(` + invariant + `|[A-Z][A-Z0-9]*-)[0-9]+$`)
	testForm = regexp.MustCompile(`^(Test|Example|Fuzz)\w*(/.+)?$`)
)

// parseRequirements reads the rows of the tables.
func parseRequirements(src string) (rows []requirement, problems []string) {
	for i, l := range strings.Split(src, "\n") {
		if !strings.HasPrefix(l, "|") || strings.HasPrefix(l, "| id |") || strings.HasPrefix(l, "|---") {
			continue
		}
		cells := strings.Split(strings.Trim(l, "|"), "|")
		if len(cells) != 5 {
			problems = append(problems, fmt.Sprintf("line %d: %d cells, not 5", i+1, len(cells)))
			continue
		}
		for k := range cells {
			cells[k] = strings.TrimSpace(cells[k])
		}
		rows = append(rows, requirement{i + 1, cells[0], cells[1], cells[2], list(cells[3]), list(cells[4])})
	}
	return rows, problems
}

// list are the entries of a cell.
func list(s string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(s, ", ", ","), func(r rune) bool { return r == ',' })
}

// testsOf gives the test functions of a package, with their comments.
func testsOf(root fs.FS, pkg string) (map[string]string, error) {
	files, err := fs.Glob(root, path.Join(pkg, "*_test.go"))
	if err != nil {
		return nil, err
	}
	tests := map[string]string{}
	for _, name := range files {
		src, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && testForm.MatchString(fn.Name.Name) {
				tests[fn.Name.Name] = fn.Doc.Text()
			}
		}
	}
	return tests, nil
}

// module is the module's files, and the tests of the packages that were looked at.
type module struct {
	root  fs.FS
	known map[string]map[string]string
}

func theModule() module { return module{os.DirFS(".."), map[string]map[string]string{}} }

// unproved says what is wrong with the list of requirements in src.
func (m module) unproved(src string) []string {
	rows, problems := parseRequirements(src)
	say := func(r requirement, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("line %d: %s: %s", r.line, r.id, fmt.Sprintf(format, args...)))
	}
	missing := map[string]bool{}
	for _, s := range series {
		for n := 1; n <= s.last; n++ {
			missing[s.prefix+strconv.Itoa(n)] = true
		}
	}
	seen := map[string]bool{}
	for _, r := range rows {
		switch {
		case !idForm.MatchString(r.id) || !missing[r.id] && !seen[r.id]:
			say(r, "no such id")
			continue
		case seen[r.id]:
			say(r, "listed twice")
		}
		seen[r.id] = true
		delete(missing, r.id)
		if r.text == "" {
			say(r, "says nothing")
		}
		for _, p := range r.packages {
			m.tests(p, func(format string, args ...any) { say(r, format, args...) })
		}
		m.unseenRow(r, func(format string, args ...any) { say(r, format, args...) })
		unprovedRow(r, m.known, func(format string, args ...any) { say(r, format, args...) })
	}
	for _, s := range series {
		for n := 1; n <= s.last; n++ {
			if id := s.prefix + strconv.Itoa(n); missing[id] {
				problems = append(problems, id+" is missing")
			}
		}
	}
	return problems
}

// tests are those of a package.
func (m module) tests(pkg string, say func(format string, args ...any)) map[string]string {
	if m.known[pkg] == nil {
		tests, err := testsOf(m.root, pkg)
		if err != nil {
			say("package %s: %v", pkg, err)
		}
		m.known[pkg] = tests
	}
	return m.known[pkg]
}

// unseenRow checks that a row names tests that see the requirement from outside, or says why there can be none.
func (m module) unseenRow(r requirement, say func(format string, args ...any)) {
	if why, ok := strings.CutPrefix(r.promises, notVisible); ok || slices.Contains(unseen, r.id) {
		if why == "" || !slices.Contains(unseen, r.id) {
			say("is it visible or not? The rows that are not are %v", unseen)
		}
		return
	}
	names := list(r.promises)
	if len(names) == 0 {
		say("no test sees it from outside")
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			say("names %s twice", name)
		}
		if !slices.ContainsFunc(outside, func(tree string) bool { _, ok := m.tests(tree, say)[name]; return ok }) {
			say("there is no %s in %s", name, strings.Join(outside, ", "))
		}
	}
}

// unprovedRow compares one row with the tests that there are.
func unprovedRow(r requirement, known map[string]map[string]string, say func(format string, args ...any)) {
	used, named := map[string]bool{}, !strings.HasPrefix(r.id, invariant)
	word := regexp.MustCompile(`\b` + regexp.QuoteMeta(r.id) + `\b`)
	for i, t := range r.testNames {
		if !testForm.MatchString(t) {
			say("%s is no name of a test", t)
			continue
		}
		if slices.Contains(r.testNames[:i], t) {
			say("names %s twice", t)
		}
		fn, _, _ := strings.Cut(t, "/")
		found := false
		for _, p := range r.packages {
			if doc, ok := known[p][fn]; ok {
				found, used[p] = true, true
				named = named || word.MatchString(doc)
			}
		}
		if !found {
			say("there is no %s in %s", fn, strings.Join(r.packages, ", "))
		}
	}
	for _, p := range r.packages {
		if !used[p] {
			say("no test of package %s", p)
		}
	}
	if !named {
		say("no comment of its tests names it")
	}
}

func requirements(t *testing.T) string {
	t.Helper()
	src, err := os.ReadFile("REQUIREMENTS.md")
	require.NoError(t, err)
	return string(src)
}

// TestEveryPromiseIsInTheTable finds tests of retry/promises that no row names.
func TestEveryPromiseIsInTheTable(t *testing.T) {
	src, err := os.ReadFile("REQUIREMENTS.md")
	require.NoError(t, err)
	rows, _ := parseRequirements(string(src))
	named := map[string]bool{"TestMain": true}
	for _, r := range rows {
		for _, name := range list(r.promises) {
			named[name] = true
		}
	}
	m := theModule()
	for name := range m.tests(outside[0], t.Fatalf) {
		require.True(t, named[name], "no row names %s", name)
	}
}

// TestEveryRequirementIsProved reads the list of requirements and invariants, and finds the tests that it names.
func TestEveryRequirementIsProved(t *testing.T) {
	for _, p := range theModule().unproved(requirements(t)) {
		t.Error(p)
	}
	rows, _ := parseRequirements(requirements(t))
	require.Len(t, rows, 169+16)
}

// TestTheTreesOutsideImportNothingInternal: what a test there sees, a user sees.
func TestTheTreesOutsideImportNothingInternal(t *testing.T) {
	for _, tree := range outside {
		files, err := fs.Glob(os.DirFS(".."), tree+"/*.go")
		require.NoError(t, err)
		require.NotEmpty(t, files)
		for _, name := range files {
			f, err := parser.ParseFile(token.NewFileSet(), path.Join("..", name), nil, parser.ImportsOnly)
			require.NoError(t, err)
			require.True(t, strings.HasSuffix(f.Name.Name, "_test"), "%s: package %s", name, f.Name.Name)
			for _, i := range f.Imports {
				require.NotContains(t, i.Path.Value, "internal", name)
			}
		}
	}
}

// TestThePromisesAreAtLeast150Tests, each named after a statement.
func TestThePromisesAreAtLeast150Tests(t *testing.T) {
	tests, err := testsOf(os.DirFS(".."), outside[0])
	require.NoError(t, err)
	require.Greater(t, len(tests), 150)
}

// TestEveryDefectHasItsTest: the defects of other clients in retrying and in deadlines, 67 to 91, have tests that are
// named after them, here or in the package where they would be.
func TestEveryDefectHasItsTest(t *testing.T) {
	missing := map[string]bool{}
	for n := 67; n <= 91; n++ {
		missing["D"+strconv.Itoa(n)] = true
	}
	named, number := regexp.MustCompile(`(?m)^func (Test\w+)\(`), regexp.MustCompile(`D[0-9]+`)
	root := os.DirFS("..")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "target"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		src, err := fs.ReadFile(root, name)
		for _, fn := range named.FindAllSubmatch(src, -1) {
			for _, d := range number.FindAllString(string(fn[1]), -1) {
				delete(missing, d)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Empty(t, missing)
}

// TestRequirementsThatAreNotProvedAreFound plants faults in the list.
func TestRequirementsThatAreNotProvedAreFound(t *testing.T) {
	good, all := requirements(t), theModule()
	rowOf := func(id string) string {
		i := strings.Index(good, "\n| "+id+" |")
		require.Positive(t, i, id)
		return good[i+1 : i+2+strings.Index(good[i+1:], "\n")]
	}
	change := func(id, from, to string) string {
		row := rowOf(id)
		require.Contains(t, row, from)
		return strings.Replace(good, row, strings.Replace(row, from, to, 1), 1)
	}
	outsideOf := func(id string) string { return strings.TrimSpace(strings.Split(rowOf(id), "|")[3]) }
	for name, c := range map[string]struct{ src, want string }{
		"missing":           {strings.Replace(good, rowOf("GA6-53"), "", 1), "GA6-53 is missing"},
		"missing invariant": {strings.Replace(good, rowOf("I16"), "", 1), "I16 is missing"},
		"unseen":            {change("SM-3", outsideOf("SM-3"), ""), "SM-3: no test sees it from outside"},
		"seen by a unit only": {
			change("SM-3", outsideOf("SM-3"), "TestLimitOfAttempts"),
			"SM-3: there is no TestLimitOfAttempts in retry/promises, core/field",
		},
		"an excuse":           {change("SM-3", outsideOf("SM-3"), notVisible+"so"), "SM-3: is it visible or not?"},
		"an excuse of no row": {change("CB-8", outsideOf("CB-8"), ""), "CB-8: is it visible or not?"},
		"doubled":             {good + rowOf("SM-3"), "SM-3: listed twice"},
		"beyond the last":     {good + strings.Replace(rowOf("SM-3"), "SM-3", "SM-22", 1), "SM-22: no such id"},
		"unknown":             {good + strings.Replace(rowOf("SM-3"), "SM-3", "XY-3", 1), "XY-3: no such id"},
		"renumbered":          {change("ADR-4", "ADR-4", "ADR-04"), "ADR-4 is missing"},
		"no such test":        {change("CB-1", "TestStages", "TestPhases"), "CB-1: there is no TestPhases in retry"},
		"another package's": {
			change("CB-1", "TestStages", "TestThrottle"),
			"CB-1: there is no TestThrottle in retry",
		},
		"no such package": {
			change("SM-3", "retry/policy", "retry/police"),
			"SM-3: no test of package retry/police",
		},
		"package in vain": {change("SM-3", "retry/policy", "retry/policy, kv"), "SM-3: no test of package kv"},
		"no tests":        {good + "| I16 | it ends | | retry | |\n", "I16: no test of package retry"},
		"not a test": {
			change("SM-3", "TestLimitOfAttempts", "newWorld"),
			"SM-3: newWorld is no name of a test",
		},
		"test twice": {
			change("SM-4", "TestImportsOfRetry", "TestImportsOfRetry, TestImportsOfRetry"),
			"SM-4: names TestImportsOfRetry twice",
		},
		"no text":       {change("CB-40", "One entry to retrying for all services", ""), "CB-40: says nothing"},
		"too few cells": {good + "| CB-1 | it is so |\n", "2 cells, not 5"},
		"invariant unnamed": {
			change("I14", "TestFastFailIsBestEffortOtherwise", "TestActions"),
			"I14: no comment of its tests names it",
		},
		"outside of the root": {
			change("SM-3", "retry/policy", "../retry"),
			"SM-3: there is no TestLimitOfAttempts in ../retry",
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Contains(t, strings.Join(all.unproved(c.src), "\n"), c.want)
		})
	}
	t.Run("subtest", func(t *testing.T) {
		require.Equal(t, all.unproved(good), all.unproved(change("CB-1", "TestStages", "TestStages/lost_get")))
	})
}
