package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// The rules of the whole repository that no linter knows. A package's exceptions are listed beside the rule.

func TestRepositoryRules(t *testing.T) {
	found, err := checkRules(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryPlantedBreachIsFound(t *testing.T) {
	for name, c := range map[string]struct{ source, want string }{
		"log":          {"import \"log\"\nvar _ = log.Println", "package log is not used"},
		"exit":         {"import \"os\"\nfunc f() { os.Exit(1) }", "os.Exit in a library"},
		"renamed exit": {"import o \"os\"\nfunc f() { o.Exit(1) }", "os.Exit in a library"},
		"panic":        {"func f() { panic(1) }", "panic in a library"},
		"after":        {"import \"time\"\nfunc f() { <-time.After(1) }", "time.After"},
		"mutex":        {"import \"sync\"\nvar mu sync.Mutex", "package variable mu is mutable"},
		"pool":         {"import \"sync\"\nvar pool = sync.Pool{}", "package variable pool is mutable"},
		"pointer":      {"import \"sync/atomic\"\nvar n = &atomic.Int64{}", "package variable n is mutable"},
		"map":          {"var cache = make(map[string]int)", "package variable cache is mutable"},
		"assigned": {
			"var logger any\nfunc Set(l any) { logger = l }",
			"package variable logger is assigned in Set",
		},
		"counted": {"var n int\nfunc f() { n++ }", "package variable n is assigned in f"},
		"filled": {
			"var names = map[int]string{}\nfunc f() { names[1] = \"\" }",
			"package variable names is assigned in f",
		},
		"field":          {"var o struct{ a int }\nfunc f() { o.a = 1 }", "package variable o is assigned in f"},
		"not ascii":      {"// caf\u00e9", "byte 0xc3 is not ASCII"},
		"a left-over":    {"// TO" + "DO: later", "left-over"},
		"another one":    {"// FIX" + "ME", "left-over"},
		"no package doc": {"", "no doc.go with a package comment"},
	} {
		files := fstest.MapFS{"x/a.go": {Data: []byte("package x\n" + c.source + "\n")}}
		if name != "no package doc" {
			files["x/doc.go"] = &fstest.MapFile{Data: []byte("// Package x is planted.\npackage x\n")}
		}
		found, err := checkRules(files)
		require.NoError(t, err)
		require.Len(t, found, 1, "%s: %q", name, found)
		require.Contains(t, found[0], c.want, name)
	}
}

func TestWhatTheRulesAllowIsNotFound(t *testing.T) {
	const doc = "// Package x is planted.\npackage x\n"
	found, err := checkRules(fstest.MapFS{
		"x/doc.go": {Data: []byte(doc)},
		"x/a.go": {Data: []byte("package x\nvar table = map[int]string{1: \"a\"}\nfunc init() { if len(table) == 0 { " +
			"panic(1) } }\n" +
			"func f() { table := map[int]string{}; table[2] = \"local\" }\n")},
		"x/a_test.go": {Data: []byte("package x\nimport \"time\"\nvar n int\nfunc f() { n++; <-time.After(1); " +
			"panic(1) } // \u00e9\n")},
		"cmd/c/main.go":   {Data: []byte("package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n")},
		"cmd/c/doc.go":    {Data: []byte("// Command c is planted.\npackage main\n")},
		"bench/main.go":   {Data: []byte("package main\nimport \"os\"\nfunc main() { os.Exit(1) }\n")},
		"bench/doc.go":    {Data: []byte("// Command bench is planted.\npackage main\n")},
		"only/it_test.go": {Data: []byte("package only\n")},
	})
	require.NoError(t, err)
	require.Empty(t, found)
}

// checkRules returns every breach of the rules in the module at fsys.
func checkRules(fsys fs.FS) ([]string, error) {
	c := rulesCheck{
		packages: map[string]bool{}, documented: map[string]bool{}, globals: map[string]map[string]bool{},
		bodies: map[string][]*ast.FuncDecl{},
	}
	err := walkGo(fsys, func(file string, f *ast.File, set *token.FileSet) {
		if !strings.HasSuffix(file, "_test.go") {
			c.file(file, f, set)
		}
	})
	if err != nil {
		return nil, err
	}
	for dir := range c.packages {
		if !c.documented[dir] {
			c.add(dir, "no doc.go with a package comment")
		}
		c.assignments(dir)
	}
	err = walkGo(fsys, func(file string, _ *ast.File, _ *token.FileSet) {
		source, readErr := fs.ReadFile(fsys, file)
		if readErr != nil {
			c.add(file, readErr.Error())
		}
		c.text(file, source)
	})
	slices.Sort(c.found)
	return c.found, err
}

type rulesCheck struct {
	found      []string
	packages   map[string]bool
	documented map[string]bool
	globals    map[string]map[string]bool // package -> names of its variables
	bodies     map[string][]*ast.FuncDecl
}

func (c *rulesCheck) add(where, what string) {
	c.found = append(c.found, where+": "+what)
}

func (c *rulesCheck) file(file string, f *ast.File, set *token.FileSet) {
	dir := packageOf(file)
	c.packages[dir] = true
	if path.Base(file) == "doc.go" && f.Doc != nil {
		first, _, _ := strings.Cut(f.Doc.Text(), " ")
		c.documented[dir] = first == "Package" || first == "Command"
	}
	names := map[string]string{} // local name of an import -> its path
	for _, spec := range f.Imports {
		p := strings.Trim(spec.Path.Value, `"`)
		local := path.Base(p)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		names[local] = p
		if p == "log" {
			c.add(file, "package log is not used: log through the slog.Logger of Config")
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.VAR {
				c.variables(file, dir, d, names)
			}
		case *ast.FuncDecl:
			c.bodies[dir] = append(c.bodies[dir], d)
			c.calls(file, d, names, set)
		}
	}
}

// calls finds what may end the process, and timers that cannot be stopped.
func (c *rulesCheck) calls(file string, d *ast.FuncDecl, names map[string]string, set *token.FileSet) {
	dir := packageOf(file)
	command := isBelow(dir, "cmd") || isBelow(dir, "examples") || dir == "bench"
	ast.Inspect(d, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		where := fmt.Sprintf("%s:%d", file, set.Position(call.Pos()).Line)
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			// init may check the package's own tables.
			if fun.Name == "panic" && !command && (d.Name.Name != "init" || d.Recv != nil) {
				c.add(where, "panic in a library")
			}
		case *ast.SelectorExpr:
			x, ok := fun.X.(*ast.Ident)
			if !ok {
				break
			}
			switch names[x.Name] + "." + fun.Sel.Name {
			case "os.Exit":
				if !command {
					c.add(where, "os.Exit in a library")
				}
			case "time.After":
				c.add(where, "time.After: its timer cannot be stopped")
			}
		}
		return true
	})
}

// variables finds package variables whose type or value can only be there to change: there is no process-wide state.
func (c *rulesCheck) variables(file, dir string, d *ast.GenDecl, names map[string]string) {
	for _, spec := range d.Specs {
		v := spec.(*ast.ValueSpec)
		for _, n := range v.Names {
			if n.Name == "_" {
				continue
			}
			if c.globals[dir] == nil {
				c.globals[dir] = map[string]bool{}
			}
			c.globals[dir][n.Name] = true
			if changes(v, names) {
				c.add(file, "package variable "+n.Name+" is mutable")
			}
		}
	}
}

func changes(v *ast.ValueSpec, names map[string]string) bool {
	mutable := false
	ast.Inspect(v, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				mutable = mutable || names[x.Name] == "sync" || names[x.Name] == "sync/atomic"
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok {
				mutable = mutable || f.Name == "make" || f.Name == "new"
			}
		}
		return true
	})
	return mutable
}

// assignments finds functions that assign to a package variable, as a whole or in part. A name that the function
// declares anywhere counts as its own.
func (c *rulesCheck) assignments(dir string) {
	for _, d := range c.bodies[dir] {
		if d.Name.Name == "init" && d.Recv == nil {
			continue
		}
		local, assigned := namesIn(d)
		for name := range assigned {
			if c.globals[dir][name] && !local[name] {
				c.add(dir, "package variable "+name+" is assigned in "+d.Name.Name)
			}
		}
	}
}

func namesIn(d *ast.FuncDecl) (local, assigned map[string]bool) {
	local, assigned = map[string]bool{}, map[string]bool{}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		case *ast.RangeStmt:
			target := assigned
			if n.Tok == token.DEFINE {
				target = local
			}
			for _, e := range []ast.Expr{n.Key, n.Value} {
				if e != nil {
					target[root(e)] = true
				}
			}
		case *ast.AssignStmt:
			target := assigned
			if n.Tok == token.DEFINE {
				target = local
			}
			for _, e := range n.Lhs {
				target[root(e)] = true
			}
		case *ast.IncDecStmt:
			assigned[root(n.X)] = true
		}
		return true
	})
	return local, assigned
}

// root is the variable that an assignment's left side begins with, or "".
func root(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}

// text finds what no file may hold.
func (c *rulesCheck) text(file string, source []byte) {
	for n, line := range strings.Split(string(source), "\n") {
		where := fmt.Sprintf("%s:%d", file, n+1)
		for _, word := range []string{"TO" + "DO", "FIX" + "ME"} {
			if strings.Contains(line, word) {
				c.add(where, "left-over "+word)
			}
		}
		if strings.HasSuffix(file, "_test.go") {
			continue // a test may hold the text it tests with
		}
		for i := range len(line) {
			if line[i] >= 0x80 {
				c.add(where, fmt.Sprintf("byte 0x%02x is not ASCII", line[i]))
				break
			}
		}
	}
}

// TestTheFileMapIsTrue keeps ARCHITECTURE.md from naming files that are gone, or functions that are elsewhere, and from
// leaving packages out.
func TestTheFileMapIsTrue(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	require.NoError(t, err)
	for _, file := range regexp.MustCompile(`[\w*/]+\.(?:go|sh)\b`).FindAllString(string(text), -1) {
		found, err := filepath.Glob(file)
		require.NoError(t, err)
		require.NotEmpty(t, found, "the file map names %s", file)
	}
	functions := regexp.MustCompile("`(?:\\w+\\.)?(\\w+)` (?:in |\\()([\\w/]+\\.go)").FindAllSubmatch(text, -1)
	require.Greater(t, len(functions), 8, "of a Get alone there are eight")
	for _, m := range functions {
		source, err := os.ReadFile(string(m[2]))
		require.NoError(t, err)
		require.Regexp(t, `(?m)^func (\([^)]*\) )?`+string(m[1])+`[\[(]`, string(source), "a function of %s", m[2])
	}
	require.NoError(t, walkGo(os.DirFS("."), func(file string, _ *ast.File, _ *token.FileSet) {
		dir := packageOf(file)
		require.True(t, isBelow(dir, "examples") || strings.Contains(string(text), dir),
			"ARCHITECTURE.md does not mention %s", dir)
	}))
}

// TestLinksLeadSomewhere looks at the links of all documents to files of the repository, pictures included.
func TestLinksLeadSomewhere(t *testing.T) {
	root, code, link := os.DirFS("."), regexp.MustCompile("(?s)```.*?```|`[^`]*`"), regexp.MustCompile(`\]\(([^)#\s]+)[^)]*\)`)
	links := 0
	require.NoError(t, fs.WalkDir(root, ".", func(file string, d fs.DirEntry, err error) error {
		if name := d.Name(); err == nil && d.IsDir() && (name == "target" || name != "." && name[0] == '.') {
			return fs.SkipDir // not the repository's
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".md") {
			return err
		}
		text, err := fs.ReadFile(root, file)
		for _, m := range link.FindAllSubmatch(code.ReplaceAll(text, nil), -1) {
			to := string(m[1])
			if strings.Contains(to, "://") {
				continue
			}
			links++
			_, missing := fs.Stat(root, path.Join(path.Dir(file), to))
			require.NoError(t, missing, "%s links to %s", file, to)
		}
		return err
	}))
	require.Greater(t, links, 20)
}
