package couchcore_test

import (
	"bytes"
	"fmt"
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// padding is what gofmt puts between the columns of a table, which no author can shorten.
var padding = regexp.MustCompile(" {2,}")

// maxColumns is where lines of code and of prose end; a tab counts four.
const maxColumns = 120

func TestLinesEndAt120Columns(t *testing.T) {
	found, err := longLines(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryLongLineIsFound(t *testing.T) {
	long := strings.Repeat("a", maxColumns)
	for name, c := range map[string]struct {
		file, text string
		want       int
	}{
		"code":            {"a.go", "package a\nvar _ = " + long + "\n", 1},
		"comment":         {"a.go", "package a\n// " + long + "\n", 1},
		"tabs":            {"a.go", "package a\n\t\t// " + long[8:] + "\n", 1},
		"raw string":      {"a.go", "package a\nvar _ = `" + long + "\n" + long + "`\n", 0},
		"tag":             {"a.go", "package a\ntype t struct { a int `" + long + "` }\n", 0},
		"expected output": {"a.go", "package a\n// Output: " + long + "\n", 0},
		"prose":           {"a.md", "a\n" + long + "b\n", 1},
		"table":           {"a.md", "| " + long + " |\n", 0},
		"snippet":         {"a.md", "```\n" + long + "b\n```\n" + long + "\n", 0},
	} {
		found, err := longLines(fstest.MapFS{c.file: {Data: []byte(c.text)}})
		require.NoError(t, err)
		require.Len(t, found, c.want, name)
	}
}

func longLines(fsys fs.FS) (found []string, err error) {
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "target" || file != "." && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".go" && path.Ext(file) != ".md":
			return nil
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		free := verbatim(text)
		if path.Ext(file) == ".md" {
			free = notProse(text)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if path.Ext(file) == ".go" {
				line = padding.ReplaceAllString(line, " ")
			}
			if n := utf8.RuneCountInString(line) + 3*strings.Count(line, "\t"); n > maxColumns && !free[i] {
				found = append(found, fmt.Sprintf("%s:%d has %d columns", file, i+1, n))
			}
		}
		return nil
	})
	return found, err
}

// verbatim are the lines of Go that cannot be broken: those with a raw string, and what an example must print.
func verbatim(text []byte) map[int]bool {
	free := map[int]bool{}
	files := token.NewFileSet()
	f := files.AddFile("", files.Base(), len(text))
	var s scanner.Scanner
	s.Init(f, text, nil, scanner.ScanComments)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return free
		}
		raw := tok == token.STRING && lit[0] == '`'
		if raw || tok == token.COMMENT && strings.HasPrefix(lit, "// Output:") {
			first := f.Line(pos) - 1
			for i := range 1 + strings.Count(lit, "\n") {
				free[first+i] = true
			}
		}
	}
}

// notProse are the lines of a document that are tables, snippets or what commands print.
func notProse(text []byte) map[int]bool {
	free := map[int]bool{}
	inside := false
	for i, line := range bytes.Split(text, []byte("\n")) {
		fence := bytes.HasPrefix(bytes.TrimSpace(line), []byte("```"))
		free[i] = inside || fence || bytes.HasPrefix(line, []byte("|"))
		inside = inside != fence
	}
	return free
}
