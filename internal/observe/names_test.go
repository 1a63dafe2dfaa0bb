package observe_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A message or a key that nothing writes is a promise that the log does not keep. The guide has each message.
func TestEveryMessageAndKeyIsWritten(t *testing.T) {
	page, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	unused := map[string]bool{}
	f, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		if spec, is := n.(*ast.ValueSpec); is {
			name := spec.Names[0].Name
			unused[name] = true
			if strings.HasPrefix(name, "Msg") {
				text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
				require.NoError(t, err)
				require.Contains(t, string(page), "`"+text+"`")
			}
		}
		return true
	})
	require.Greater(t, len(unused), 40)
	err = filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Base(path) == "names.go" || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for name := range unused {
			if strings.Contains(string(source), name) {
				delete(unused, name)
			}
		}
		return err
	})
	require.NoError(t, err)
	require.Empty(t, unused)
}
