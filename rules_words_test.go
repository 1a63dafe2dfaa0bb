package couchcore_test

import (
	"go/scanner"
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

// notUsed are words that say nothing of what a name stands for, or have another meaning elsewhere in the tree. The
// glossary in CONTRIBUTING.md has the words for the same things.
var notUsed = map[string]bool{}

func init() {
	for _, w := range strings.Fields(`lone light bare plain smooth usual nobody whoever somebody crowd few early handful
		portion doubt reborn stands either came around others rest quiet baton rare`) {
		notUsed[w] = true
	}
}

var (
	// terms are those of protocols and of the glossary that have such a word: "in doubt", the SASL mechanism PLAIN.
	terms = regexp.MustCompile(`[Ii]nDoubt|(?:[Ss]asl|SASL|[Aa]llow)Plain|PlainAuthMechanism|REST`)
	parts = regexp.MustCompile(`[A-Z]?[a-z]+|[A-Z]+`)
)

func TestNamesUseTheWordsOfTheGlossary(t *testing.T) {
	found, err := badNames(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryWordThatIsNotUsedIsFound(t *testing.T) {
	for name, want := range map[string]int{
		"rest": 1, "atRest": 1, "TestOthers": 1, "restart": 0, "inDoubt": 0, "doubt": 1, "AllowPlain": 0,
		"plainText": 1, "lonely": 0, "quiet": 1,
	} {
		source := "package kv\n\nvar " + name + " = \"rest\" // rest\n"
		found, err := badNames(fstest.MapFS{"kv/a.go": {Data: []byte(source)}})
		require.NoError(t, err)
		require.Len(t, found, want, name)
	}
	found, err := badNames(fstest.MapFS{"mock/a.go": {Data: []byte("package mock\n\nvar quiet int\n")}})
	require.NoError(t, err)
	require.Empty(t, found, "the quiet commands of the protocol")
}

// badNames lists the identifiers of Go files that have a word which is not used, each once in a file.
func badNames(fsys fs.FS) (found []string, err error) {
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || file != "." && d.Name()[0] == '.'):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(file, ".go"):
			return nil
		}
		source, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(file, -1, len(source)), source, nil, 0)
		for {
			_, tok, name := s.Scan()
			if tok == token.EOF {
				return nil
			}
			where := file + ": " + name
			if tok == token.IDENT && hasBadWord(file, name) && !slices.Contains(found, where) {
				found = append(found, where)
			}
		}
	})
	return found, err
}

func hasBadWord(file, name string) bool {
	return slices.ContainsFunc(parts.FindAllString(terms.ReplaceAllString(name, "_"), -1), func(word string) bool {
		word = strings.ToLower(word)
		return notUsed[word] && (word != "quiet" || !strings.HasPrefix(file, "mock/"))
	})
}
