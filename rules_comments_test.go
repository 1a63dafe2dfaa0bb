package couchcore_test

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// vagueWords hide who acts in a comment; the glossary's section of CONTRIBUTING.md says what stands instead.
var vagueWords = regexp.MustCompile(`(?i)\b(?:nobody|whoever|somebody|anybody|(?:is|are) none)\b`)

func TestCommentsNameWhoActs(t *testing.T) {
	require.Empty(t, vagueComments(t, os.DirFS(".")))
}

func TestEveryVagueCommentIsFound(t *testing.T) {
	for text, want := range map[string]int{
		"// Whoever asks": 1, "// there\n// is none": 1, "// nobody's": 1, "// it is awake": 0, "// none is left": 0,
	} {
		tree := fstest.MapFS{"kv/a.go": {Data: []byte("package kv\n\n" + text + "\nvar x = \"nobody\"\n")}}
		require.Len(t, vagueComments(t, tree), want, text)
	}
}

// vagueComments lists the places of vague words in the comments of Go files.
func vagueComments(t *testing.T, fsys fs.FS) (found []string) {
	t.Helper()
	require.NoError(t, walkGo(fsys, func(name string, file *ast.File, set *token.FileSet) {
		for _, group := range file.Comments {
			text := strings.Join(strings.Fields(group.Text()), " ")
			if word := vagueWords.FindString(text); word != "" && !strings.HasPrefix(name, "rules_") {
				found = append(found, set.Position(group.Pos()).String()+": "+word)
			}
		}
	}))
	return found
}
