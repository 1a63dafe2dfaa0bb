package sim_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

// unreturned are the kinds that the code of operations on documents names and that no call of the simulation has to
// return, and why.
var unreturned = map[string]string{
	"Timeout":             "a timeout says whether the call may have been applied, by one of two kinds of its own",
	"EncodingFailure":     "an operation whose own code panics: no argument leads to it",
	"ServiceNotAvailable": "a wait for readiness says so, and requests to services, not a call for a document",
	"XattrNoAccess":       "of one path: no node of the mock refuses a path alone",
}

// The kinds of errors that a large set of seeds must have returned are those that the code of operations names.
func TestAllKindsOfErrorsAreRequired(t *testing.T) {
	required := map[string]bool{}
	for _, k := range sim.ErrorKinds() {
		required[k] = true
	}
	text, err := os.ReadFile("../../cberr/cberr.go")
	require.NoError(t, err)
	names, declared := map[string]string{}, regexp.MustCompile(`(?s)(\w+)\s+= &Kind\{\s*name:\s+"(\w+)"`)
	for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
		names[m[1]] = m[2]
	}
	require.Greater(t, len(names), 80)
	used := map[string]bool{}
	for _, dir := range []string{"../../kv", "../call", "../dispatch"} {
		files, err := filepath.Glob(dir + "/*.go")
		require.NoError(t, err)
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			text, err := os.ReadFile(f)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile(`cberr\.(\w+)`).FindAllStringSubmatch(string(text), -1) {
				if name, kind := names[m[1]]; kind {
					used[m[1]] = true
					require.NotEqual(t, required[name], unreturned[m[1]] != "", "%s, in %s", m[1], f)
				}
			}
		}
	}
	for kind := range unreturned {
		require.True(t, used[kind], "%s is named nowhere", kind)
	}
}
