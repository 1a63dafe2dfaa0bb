package couchcore_test

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// secretName is what the name of a field says that holds a secret.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|credential)s?$`)

// secretFields may hold text all the same, with the reason.
var secretFields = map[string]string{
	"internal/handshake keyringEntry.password": "behind a function, see Keyring",
	"cmd/couchcore clusterFlags.Password":      "what was typed on the command line",
	"cmd/couchcore clusterFlags.Token":         "what was typed on the command line",
	"cmd/couchcore mockCmd.Password":           "of a mock cluster, which prints it",
	"cmd/couchcore mockReady.Password":         "of a mock cluster, which prints it",
	"cmd/couchcore mockSetup.Tokens":           "of a mock cluster, from a fixture of a test",
	"cmd/couchcore setupUser.Password":         "of a mock cluster, from a fixture of a test",
	"cmd/couchcore demoWrite.token":            "what a document holds",
}

// openPlaces are directories whose secrets are those of tests.
var openPlaces = []string{"mock", "internal/testkit", "internal/sim", "internal/bench", "bench"}

// TestNoFieldHoldsASecretAsText_D139: a printer that walks values finds text in any field, however deep and unexported.
func TestNoFieldHoldsASecretAsText_D139(t *testing.T) {
	found, err := textSecrets(os.DirFS("."))
	require.NoError(t, err)
	for where := range secretFields {
		i := slices.IndexFunc(found, func(f string) bool { return strings.HasPrefix(f, where+" ") })
		require.GreaterOrEqual(t, i, 0, "%s is no exception any more", where)
		found = slices.Delete(found, i, i+1)
	}
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
	for name, source := range map[string]string{
		"a word":      "type c struct{ Password string }",
		"one of many": "type c struct{ user, password string }",
		"bytes":       "type c struct{ accessToken []byte }",
		"by name":     "type c struct{ inner struct{ secrets map[string]string } }",
	} {
		found, err := textSecrets(fstest.MapFS{"x/a.go": {Data: []byte("package x\n" + source + "\n")}})
		require.NoError(t, err)
		require.Len(t, found, 1, name)
	}
	found, err = textSecrets(fstest.MapFS{"x/a.go": {Data: []byte("package x\ntype c struct{ Password Secret; Token " +
		"bool; tokens int; TokenURL string }\n")}})
	require.NoError(t, err)
	require.Empty(t, found)
}

// textSecrets are the fields of structs that hold secrets as text or bytes.
func textSecrets(fsys fs.FS) (found []string, err error) {
	err = walkGo(fsys, func(file string, f *ast.File, _ *token.FileSet) {
		dir := packageOf(file)
		if strings.HasSuffix(file, "_test.go") || slices.ContainsFunc(openPlaces,
			func(place string) bool { return isBelow(dir, place) }) {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			ast.Inspect(spec.Type, func(n ast.Node) bool {
				field, ok := n.(*ast.Field)
				if !ok || !holdsText(field.Type) {
					return true
				}
				for _, name := range field.Names {
					where := fmt.Sprintf("%s %s.%s", dir, spec.Name.Name, name.Name)
					if secretName.MatchString(name.Name) {
						found = append(found, where+" holds a secret as text: use observe.Secret")
					}
				}
				return true
			})
			return false
		})
	})
	slices.Sort(found)
	return found, err
}

// holdsText reports whether a type is text, bytes, or a collection of text.
func holdsText(t ast.Expr) bool {
	switch t := t.(type) {
	case *ast.Ident:
		return t.Name == "string" || t.Name == "byte"
	case *ast.ArrayType:
		return holdsText(t.Elt)
	case *ast.MapType:
		return holdsText(t.Key) || holdsText(t.Value)
	case *ast.StarExpr:
		return holdsText(t.X)
	}
	return false
}

// commandSecret is a password on a command line: where every user of the machine sees it, and in the history of the
// shell.
var commandSecret = regexp.MustCompile(`couchcore\b[^|\n]*\s(?:-p|--password)(?:\s+|=)(?:[^-\s|\x60)]|-[^\s"\x60])` +
	`|\bcurl\b[^|\n]*\s(?:-u|--user)(?:\s+|=)\S+:\S|://[^/\s"]+:[^/\s"@]+@\w|\bCOUCHCORE_PASSWORD=\S`)

// TestNoExamplePutsAPasswordOnACommandLine_D144 looks at documents, help texts and examples; what tests record is their
// own.
func TestNoExamplePutsAPasswordOnACommandLine_D144(t *testing.T) {
	found, err := commandSecrets(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
	for name, line := range map[string]string{
		"a flag": "couchcore ping -p secret", "long": "$ couchcore kv get k --password=secret",
		"with -": "couchcore ping -p -secret",
		"curl":   "curl -u app:secret http://h:8091", "URL": "couchbase://app:secret@h",
		"environment": "COUCHCORE_PASSWORD=x couchcore ping",
	} {
		for _, file := range []string{"a.md", "b/help.go", "c/testdata/help.txt", "d.sh"} {
			found, err := commandSecrets(fstest.MapFS{file: {Data: []byte("x\n" + line + "\n")}})
			require.NoError(t, err)
			require.Len(t, found, 1, "%s in %s", name, file)
		}
	}
	found, err = commandSecrets(fstest.MapFS{
		"a.md": {Data: []byte("couchcore ping -u app -p -\n| `-p`, `--password` | none |" +
			"\ncouchbases://db.example.com:11207,h2\nmkdir -p x\n")},
		"a_test.go": {Data: []byte("couchcore ping -p secret\n")},
	})
	require.NoError(t, err)
	require.Empty(t, found)
}

func commandSecrets(fsys fs.FS) (found []string, err error) {
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && (name == "target" || name != "." && name[0] == '.'):
			return fs.SkipDir
		case d.IsDir(), strings.HasSuffix(name, "_test.go"), strings.Contains(file, "testdata/") && name != "help.txt":
			return nil
		}
		text, err := fs.ReadFile(fsys, file)
		for n, line := range strings.Split(string(text), "\n") {
			if commandSecret.MatchString(line) {
				found = append(found, fmt.Sprintf("%s:%d puts a password on a command line: %s", file, n+1, line))
			}
		}
		return err
	})
	return found, err
}
