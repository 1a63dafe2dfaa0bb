package sim

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every fault of the programme is injected here or tested by a test that exists, and every injection has its fault.
func TestTheProgrammeIsComplete(t *testing.T) {
	table := programme()
	require.Len(t, table, 48)
	left := map[string]bool{}
	for _, name := range injections() {
		require.False(t, left[name], "%s is there twice", name)
		left[name] = true
	}
	known := map[string]bool{string(afterItsCall): true}
	for name := range left {
		known[name] = true
	}
	for i, row := range table {
		require.Equal(t, i+1, row.number)
		count := len(row.injections) + len(row.elsewhere)
		numbered := regexp.MustCompile(fmt.Sprintf("^%d[a-h]? ", row.number))
		for name := range left {
			if numbered.MatchString(name) {
				delete(left, name)
				count++
			}
		}
		for _, letter := range row.letters {
			variant := regexp.MustCompile(fmt.Sprintf("(^|: )%d%c ", row.number, letter))
			require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(known)), variant.MatchString),
				"%d%c %s is not injected", row.number, letter, row.name)
		}
		for _, name := range row.injections {
			require.True(t, known[name], "%d: %s", row.number, name)
		}
		require.NotZero(t, count, "%d %s is not injected", row.number, row.name)
		for _, test := range row.elsewhere {
			dir, name, _ := strings.Cut(test, " ")
			require.True(t, hasTest(t, dir, name), "%s has no %s", dir, name)
		}
	}
	for name := range left { // these are beside the programme
		require.Regexp(t, "^(loops|callbacks|clock jumps): ", name)
	}
}

// hasTest reports whether a folder of the module has a test.
func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		src, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(src), "func "+name+"(") {
			return true
		}
	}
	return false
}
