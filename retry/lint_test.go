package retry_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestImportsOfRetry proves SM-4: the standard library only, and of that nothing that logs or talks.
func TestImportsOfRetry(t *testing.T) {
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), n, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, i := range f.Imports {
			path, err := strconv.Unquote(i.Path.Value)
			require.NoError(t, err)
			require.NotContains(t, path, ".", "%s imports %s", n, path)
			require.False(t, slices.Contains([]string{"net", "net/http", "log", "log/slog", "encoding/json"}, path),
				"%s imports %s", n, path)
		}
	}
}

var asks = regexp.MustCompile(`\.RetryAfter\(`)

// TestOnlyTheOrchestratorAsks proves CB-40: nothing else in the module asks a strategy, but for strategies that wrap
// another and the command that explains decisions.
func TestOnlyTheOrchestratorAsks(t *testing.T) {
	root := os.DirFS("..")
	found := 0
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "testdata" ||
			path == "target") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		src, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if !asks.Match(src) {
			return nil
		}
		found++
		switch {
		case path == "retry/callbacks.go", path == "retry/strategy.go":
		case path == "compat/gocbcore/engine/retry.go": // wraps a strategy of gocbcore's, another type
		case strings.HasPrefix(path, "retry/policy/"), strings.HasPrefix(path, "cmd/"), strings.HasPrefix(path,
			"examples/"):
		default:
			t.Errorf("%s asks a strategy; only the orchestrator may", path)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, found)
}

// TestVolatility proves CB-28: the doc comment says what may change and what to do about it.
func TestVolatility(t *testing.T) {
	src, err := os.ReadFile("strategy.go")
	require.NoError(t, err)
	before, _, ok := strings.Cut(string(src), "type FastFailOnTerminalError struct")
	require.True(t, ok)
	doc := before[strings.LastIndex(before, "\n\n"):]
	require.Contains(t, doc, "volatile")
	require.Contains(t, doc, "copy this type")
}
