package couchcore_test

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// Names of tests carry numbers of what they prove. schemes says by the letters of a number where its explanation is:
// a row of a table, or a line of a list, that begins with it.
var schemes = []struct{ letters, file, begins string }{
	{"D", "testdata/defects.txt", "D%s: "},
	{"CB", "retry/REQUIREMENTS.md", "| CB-%s |"},
	{"SM", "retry/REQUIREMENTS.md", "| SM-%s |"},
	{"ADR", "retry/REQUIREMENTS.md", "| ADR-%s |"},
	{"GR", "retry/REQUIREMENTS.md", "| GR-%s |"},
	{"GA6", "retry/REQUIREMENTS.md", "| GA6-%s |"},
	{"S", "SECURITY.md", "| S%s |"},
	{"B", numbersFile, "B%s: "},
	{"C", numbersFile, "C%s: "},
	{"G", numbersFile, "G%s: "},
	{"K", numbersFile, "K%s: "},
	{"P", numbersFile, "P%s: "},
	{"T", numbersFile, "T%s: "},
}

const numbersFile = "testdata/numbers.txt"

func TestEveryNumberThatATestCarriesIsExplained(t *testing.T) {
	found, err := checkNumbers(os.DirFS("."))
	require.NoError(t, err)
	require.Empty(t, found, "%s", strings.Join(found, "\n"))
}

func TestEveryFlawInTheExplanationsIsFound(t *testing.T) {
	files := func(list, tests string) fstest.MapFS {
		fsys := fstest.MapFS{"a/x_test.go": {Data: []byte("package a\n" + tests)}}
		for _, s := range schemes {
			fsys[s.file] = &fstest.MapFile{Data: []byte("| S4 | it is safe |\n| GA6-33 | it is bounded |\nD7: It is " +
				"slow.\n")}
		}
		fsys[numbersFile] = &fstest.MapFile{Data: []byte(list)}
		return fsys
	}
	const one, unlisted = "B3: It holds.\n", "func TestX_B3(t *testing.T) {}\n"
	for name, c := range map[string]struct{ list, tests, want string }{
		"good":        {one, unlisted, ""},
		"all schemes": {one, unlisted + "func TestS4GA633_D7(t *testing.T) {}\n", ""},
		"no scheme":   {one, unlisted + "func TestTLS12In200HTTP2(t *testing.T) {}\n", ""},
		"unexplained": {
			one, unlisted + "func TestY_B3_K30(t *testing.T) {}\n",
			"TestY_B3_K30: testdata/numbers.txt does not explain K30",
		},
		"no row": {
			one, unlisted + "func TestGR7Is(t *testing.T) {}\n",
			"TestGR7Is: retry/REQUIREMENTS.md does not explain GR7",
		},
		"stale": {one + "B4: It holds.\n", unlisted, "B4: no test carries it"},
		"no full stop": {
			"B3: It holds\n", unlisted,
			"B3: It holds: a line is a number, a colon and a sentence with a " +
				"full stop",
		},
		"no such shape": {
			one + "It holds.\n", unlisted,
			"It holds.: a line is a number, a colon and a sentence with a " +
				"full stop",
		},
		"twice": {one + one, unlisted, "B3: It holds.: it is there twice"},
	} {
		t.Run(name, func(t *testing.T) {
			found, err := checkNumbers(files(c.list, c.tests))
			require.NoError(t, err)
			if c.want == "" {
				require.Empty(t, found)
				return
			}
			require.Contains(t, found, c.want)
		})
	}
}

// carried are the numbers in a test's name: letters of a scheme and digits, behind "Test", an underscore, a digit or a
// small letter. An article before a number, as in "InA200", is no scheme.
var carried = regexp.MustCompile(`(?:^Test|[a-z0-9_])(GA6|ADR|CB|SM|GR|[BCDGKPST])(\d+)`)

func numbersIn(name string) (all [][2]string) {
	for at := 0; ; {
		m := carried.FindStringSubmatchIndex(name[at:])
		if m == nil {
			return all
		}
		all = append(all, [2]string{name[at+m[2] : at+m[3]], name[at+m[4] : at+m[5]]})
		at += m[5] - 1 // the last digit may stand before the next number
	}
}

// checkNumbers says which numbers of tests are explained nowhere, and what is wrong with the list of explanations.
func checkNumbers(files fs.FS) (found []string, err error) {
	tests, err := allTests(files)
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, s := range schemes {
		b, err := fs.ReadFile(files, s.file)
		if err != nil {
			return nil, err
		}
		texts[s.file] = "\n" + string(b)
	}
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		name = name[strings.LastIndexByte(name, '.')+1:]
		for _, n := range numbersIn(name) {
			used[n[0]+n[1]] = true
			for _, s := range schemes {
				if s.letters == n[0] && !strings.Contains(texts[s.file], "\n"+fmt.Sprintf(s.begins, n[1])) {
					found = append(found, fmt.Sprintf("%s: %s does not explain %s%s", name, s.file, n[0], n[1]))
				}
			}
		}
	}
	seen := map[string]bool{}
	for line := range strings.Lines(texts[numbersFile][1:]) {
		line = strings.TrimSpace(line)
		number, text, ok := strings.Cut(line, ": ")
		switch {
		case !ok || strings.Contains(number, " ") || !strings.HasSuffix(text, "."):
			found = append(found, line+": a line is a number, a colon and a sentence with a full stop")
		case seen[number]:
			found = append(found, line+": it is there twice")
		case !used[number]:
			found = append(found, number+": no test carries it")
		}
		seen[number] = true
	}
	return found, nil
}
