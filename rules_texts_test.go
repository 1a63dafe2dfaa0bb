package couchcore_test

import (
	"go/scanner"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// hardTexts are forms that a reader has to turn around: "x is no service" for "x is not a service", and words for a
// person where a text names the actor or the thing.
var (
	hardTexts  = regexp.MustCompile(`(?i)\b(?:(?:is|are) (?:no [a-z]|none\b)|nobody\b|whoever\b|somebody\b|someone\b)`)
	clearTexts = regexp.MustCompile(`(?i)\bthere (?:is|are) no\b|\b(?:is|are) no (?:longer|worse|more|fewer)\b`)
)

func TestTextsAreEasyToRead(t *testing.T) {
	found, err := badTexts(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryTextThatIsHardToReadIsFound(t *testing.T) {
	for text, want := range map[string]int{
		"x is no service": 1, "paths are none": 1, "is no more valid": 0, "there is no map": 0, "There are no nodes": 0,
		"x is not a service": 0, "is no longer valid": 0, "nobody answers": 1, "node": 0, "is nonempty": 0,
	} {
		source := "package kv\n\nvar e = \"" + text + "\" // it is no text\n"
		found, err := badTexts(fstest.MapFS{"kv/a.go": {Data: []byte(source)}, "kv/a_test.go": {Data: []byte(source)}})
		require.NoError(t, err)
		require.Len(t, found, want, text)
	}
}

// badTexts lists the texts of product code that are hard to read.
func badTexts(fsys fs.FS) (found []string, err error) {
	err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || file != "." && d.Name()[0] == '.'),
			d.IsDir() && (file == "examples" || file == "internal/testkit"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go"):
			return nil
		}
		source, err := fs.ReadFile(fsys, file)
		if err != nil {
			return err
		}
		var s scanner.Scanner
		s.Init(token.NewFileSet().AddFile(file, -1, len(source)), source, nil, 0)
		for {
			_, tok, text := s.Scan()
			if tok == token.EOF {
				return nil
			}
			if tok == token.STRING && hardTexts.MatchString(clearTexts.ReplaceAllString(text, "_")) {
				found = append(found, file+": "+text)
			}
		}
	})
	return found, err
}
