package couchcore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The lines around each hunk of a worked example are in its file, so the patch can be applied. That the examples work
// is what the gate's step "worked" shows.
func TestWorkedExamplesHaveTheirPlaces(t *testing.T) {
	patches, err := filepath.Glob("docs/worked/*.patch")
	require.NoError(t, err)
	require.Len(t, patches, 4)
	guide, err := os.ReadFile("CONTRIBUTING.md")
	require.NoError(t, err)
	for _, patch := range patches {
		require.Contains(t, string(guide), "docs/worked/"+filepath.Base(patch))
		text, err := os.ReadFile(patch)
		require.NoError(t, err)
		for _, file := range strings.Split(string(text), "\ndiff --git ") {
			hunks := strings.Split(file, "\n@@ ")
			name := strings.TrimPrefix(strings.Fields(strings.Split(hunks[0], "\n--- ")[1])[0], "a/")
			if name == "/dev/null" {
				continue
			}
			now, err := os.ReadFile(name)
			require.NoError(t, err, patch)
			for _, hunk := range hunks[1:] {
				var before strings.Builder
				for _, line := range strings.Split(strings.TrimSuffix(hunk, "\n"), "\n")[1:] {
					if kept, ok := strings.CutPrefix(line, " "); ok {
						before.WriteString(kept + "\n")
					}
					if gone, ok := strings.CutPrefix(line, "-"); ok {
						before.WriteString(gone + "\n")
					}
				}
				if !strings.Contains(string(now), before.String()) {
					t.Errorf("%s: %s does not have the lines\n%s", patch, name, before.String())
				}
			}
		}
	}
}
