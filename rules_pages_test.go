package couchcore_test

import (
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryPageIsLinkedFromTheReadme: a page that nothing leads to is not read.
func TestEveryPageIsLinkedFromTheReadme(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	pages := 0
	require.NoError(t, fs.WalkDir(os.DirFS("."), "docs", func(file string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(file, ".md") {
			pages++
			require.Contains(t, string(readme), "]("+file+")")
		}
		return err
	}))
	require.Greater(t, pages, 15)
}
