package couchcore_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// An attempt is a send and a retry is a resend, in every name, key and text. Names of others stay: retry_attempts is
// the error RFC's for retries, and compat/gocbcore has gocbcore's names.
var (
	saysAttempts = regexp.MustCompile(`(?i:\battempts\b)|Attempts\b`)
	saysRetries  = regexp.MustCompile(`(?i)\bretr|\bresen[dt]|\bsent again\b`)
)

func TestAttemptsAreNeverRetries(t *testing.T) {
	require.Empty(t, mixedCounts(t, os.DirFS(".")))
}

func TestEveryMixtureOfAttemptsAndRetriesIsFound(t *testing.T) {
	for source, want := range map[string]int{
		"type r struct {\n\tAttempts int // retries made\n}":                                   1,
		"type r struct {\n\tAttempts int // sends\n\tRetries int `json:\"retry_attempts\"`\n}": 0,
		"type r struct {\n\tRetries int `json:\"attempts\"`\n}":                                1,
		"type r struct {\n\tAttempts int `json:\"retries\"`\n}":                                1,
		"var x = r{Attempts: i.Retries()}":                                                     1,
		"var x = r{Attempts: i.Retries() + 1, Retries: i.Retries()}":                           0,
		"var x = r{Retries: f.Attempts}":                                                       1,
		"func f() { x.Attempts = i.Retries() }":                                                1,
		"func f() { attempts, retries = i.Attempts(), i.Retries() }":                           0,
		"func f() { slog.Int(\"attempts\", i.Retries()) }":                                     1,
		"func f() { slog.Int(KeyAttempts, i.Retries()) }":                                      1,
		"func f() { fmt.Sprintf(\"attempts %d, retries %d\", i.Attempts(), i.Retries()) }":     0,
	} {
		tree := fstest.MapFS{"kv/a.go": {Data: []byte("package kv\n\n" + source + "\n")}}
		require.Len(t, mixedCounts(t, tree), want, source)
	}
}

// mixedCounts lists the places of Go files where a count of one is named as the other.
func mixedCounts(t *testing.T, fsys fs.FS) (found []string) {
	t.Helper()
	require.NoError(t, walkGo(fsys, func(name string, file *ast.File, set *token.FileSet) {
		if strings.HasPrefix(name, "compat/") {
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if mixes(n) {
				found = append(found, set.Position(n.Pos()).String())
			}
			return true
		})
	}))
	return found
}

func mixes(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Field:
		return mixesField(n)
	case *ast.KeyValueExpr:
		return crossed(n.Key, n.Value)
	case *ast.AssignStmt:
		for i := range min(len(n.Lhs), len(n.Rhs)) {
			if crossed(n.Lhs[i], n.Rhs[i]) {
				return true
			}
		}
	case *ast.CallExpr:
		return mixesArguments(n.Args)
	}
	return false
}

// mixesField compares a field's name with its comment and with its name in JSON.
func mixesField(f *ast.Field) bool {
	key := ""
	if f.Tag != nil {
		key = reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json")
	}
	for _, n := range f.Names {
		switch n.Name {
		case "Attempts":
			return saysRetries.MatchString(f.Doc.Text()+f.Comment.Text()) || saysRetries.MatchString(key)
		case "Retries":
			return saysAttempts.MatchString(key)
		}
	}
	return false
}

// mixesArguments finds a count of retries that an argument beside it calls attempts.
func mixesArguments(args []ast.Expr) bool {
	names, retries := false, false
	for _, a := range args {
		said, of := "", countName(a)
		if text, ok := a.(*ast.BasicLit); ok {
			said = text.Value
		} else if strings.HasPrefix(of, "Key") {
			said = of
		}
		names = names || saysAttempts.MatchString(said) && !saysRetries.MatchString(said)
		retries = retries || strings.EqualFold(of, "retries")
	}
	return names && retries
}

// crossed reports whether one of the two is a count of attempts, and the other of retries.
func crossed(to, from ast.Expr) bool {
	a, b := strings.ToLower(countName(to)), strings.ToLower(countName(from))
	return a == "attempts" && b == "retries" || a == "retries" && b == "attempts"
}

// countName is the name of what an expression counts: that of its field, method or variable.
func countName(e ast.Expr) string {
	switch x := e.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	case *ast.CallExpr:
		if len(x.Args) == 0 {
			return countName(x.Fun)
		}
	}
	return ""
}
