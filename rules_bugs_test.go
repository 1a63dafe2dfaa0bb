package couchcore_test

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const bugsFile, kindsFile = "docs/bugs.md", "testdata/kinds.txt"

// bugsHead stands above the tables of docs/bugs.md.
const bugsHead = `# Bugs

Every bug that was found, by its kind. The numbers up to %d are defects of other clients of this protocol, as their
users reported them: this client was built so that it does not have them. Later numbers are bugs of this project. When a
bug is found, its kind is looked for everywhere, and a test is left that fails without the mend:
` + "`go test ./PACKAGE -run NAME`" + ` runs it. [CONTRIBUTING.md](../CONTRIBUTING.md) says how a number is added.

Numbers that are missing belong to no bug. They were given to suspicions that turned out to be no faults of couchcore,
or to be the fault of another number, so there is nothing to look for. D179 was taken back: the error of a request to a
service can name its end twice, as in "unambiguous timeout ..., because: operation timed out". That is so still, and is
meant: a promise of retrying wants the second text for every end (retry/promises: TestAnErrorSaysItsCauseOnce).

No column names the layer that should have caught a bug, because that was not written down when the bugs were found, and
would be a guess now. Which layer catches it since is the package of its tests: a package at fault has unit tests, core
and core/field test the whole client through its public API. What the simulation has to notice is in
internal/sim/twins_test.go, and what chaos over real sockets has to, in internal/chaos/plant.go.

This page is written by ` + "`go test . -run TestTheBugsPageIsTrue -update`" + ` from testdata/defects.txt and
testdata/kinds.txt.
`

// TestTheBugsPageIsTrue compares docs/bugs.md with the tables that it is made of.
func TestTheBugsPageIsTrue(t *testing.T) {
	defectTable, err := os.ReadFile("testdata/defects.txt")
	require.NoError(t, err)
	kinds, err := os.ReadFile(kindsFile)
	require.NoError(t, err)
	want, err := bugsPage(string(defectTable), string(kinds))
	require.NoError(t, err)
	if *updateAPI {
		require.NoError(t, os.WriteFile(bugsFile, []byte(want), 0o600))
	}
	page, err := os.ReadFile(bugsFile)
	require.NoError(t, err)
	require.Equal(t, want, string(page), "go test . -run TestTheBugsPageIsTrue -update")
}

func TestEveryFlawInTheKindsOfBugsIsFound(t *testing.T) {
	const table = "D1: It is slow.\nD1 a TestX_D1\nD2: It is wrong.\nD2 b TestY_D2\n"
	page, err := bugsPage(table, "It is a pity.: 1 2\n")
	require.NoError(t, err)
	require.Contains(t, page, "## It is a pity\n")
	require.Contains(t, page, "| D2 | It is wrong. | b: TestY_D2 |\n")
	for kinds, want := range map[string]string{
		"It is a pity.: 1\n":                      "D2 has no kind: add its number to a line of " + kindsFile,
		"It is a pity.: 1 2 3\n":                  "D3 has a kind and no sentence",
		"It is a pity.: 1 2\nIt is another.: 2\n": "D2 has two kinds",
		"It is a pity: 1 2\n":                     "It is a pity: 1 2: a line is a sentence, a colon and numbers",
		"It is a pity.: 1 two\n":                  "It is a pity.: 1 two: a line is a sentence, a colon and numbers",
	} {
		_, err := bugsPage(table, kinds)
		require.EqualError(t, err, want)
	}
}

// bugsPage is the page's text.
func bugsPage(table, kinds string) (string, error) {
	sentences, tests := map[int]string{}, map[int][]string{}
	for row := range strings.Lines(table) {
		row = strings.TrimSpace(row)
		if id, text, ok := strings.Cut(row, ": "); ok && !strings.Contains(id, " ") {
			n, _ := strconv.Atoi(strings.TrimPrefix(id, "D"))
			sentences[n] = text
			continue
		}
		if words := strings.Fields(row); len(words) == 3 {
			n, _ := strconv.Atoi(strings.TrimPrefix(words[0], "D"))
			tests[n] = append(tests[n], words[1]+": "+words[2])
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, bugsHead, defects)
	line := regexp.MustCompile(`^(.+)\.: ((?:\d+ ?)+)$`)
	kindOf := map[int]bool{}
	for row := range strings.Lines(kinds) {
		row = strings.TrimSpace(row)
		m := line.FindStringSubmatch(row)
		if m == nil {
			return "", fmt.Errorf("%s: a line is a sentence, a colon and numbers", row)
		}
		fmt.Fprintf(&b, "\n## %s\n| number | what was wrong | tests |\n|---|---|---|\n", m[1])
		for _, word := range strings.Fields(m[2]) {
			n, _ := strconv.Atoi(word)
			switch {
			case kindOf[n]:
				return "", fmt.Errorf("D%d has two kinds", n)
			case sentences[n] == "":
				return "", fmt.Errorf("D%d has a kind and no sentence", n)
			}
			kindOf[n] = true
			fmt.Fprintf(&b, "| D%d | %s | %s |\n", n, strings.ReplaceAll(sentences[n], "|", `\|`),
				strings.Join(tests[n], "<br>"))
		}
	}
	for _, n := range slices.Sorted(maps.Keys(sentences)) {
		if !kindOf[n] {
			return "", fmt.Errorf("D%d has no kind: add its number to a line of %s", n, kindsFile)
		}
	}
	return b.String(), nil
}
