package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

const retryPage = "docs/retry.md"

// generated are the parts of docs/retry.md that come from the client's own tables. Each stands between two comments
// with its name.
var generated = map[string]func(t *testing.T) string{
	"reasons": reasonsOfTheGuide, "decisions": decisionsOfTheGuide, "idempotent": idempotentOfTheGuide,
	"kv codes":    kvCodesOfTheGuide,
	"query codes": codesOfTheGuide, "analytics codes": codesOfTheGuide, "search codes": codesOfTheGuide,
	"views codes": codesOfTheGuide,
	"http codes":  httpCodesOfTheGuide,
}

// TestTheTablesOfTheGuideAreThoseOfTheCode fails when a table of docs/retry.md is stale: `go test ./cmd/couchcore -run
// TheGuide -update` writes them.
func TestTheTablesOfTheGuideAreThoseOfTheCode(t *testing.T) { checkGenerated(t, retryPage, generated) }

// checkGenerated compares the generated parts of a page with what makes them, or writes them with -update.
func checkGenerated(t *testing.T, page string, parts map[string]func(t *testing.T) string) {
	t.Helper()
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	for name, part := range parts {
		t.Run(name, func(t *testing.T) {
			begin, end := "<!-- generated: "+name+" -->\n", "<!-- end: "+name+" -->\n"
			before, tail, ok := strings.Cut(string(text), begin)
			require.True(t, ok, "%s has no %q", page, begin)
			now, after, ok := strings.Cut(tail, end)
			require.True(t, ok, "%s has no %q", page, end)
			want := part(t)
			if *update {
				text = []byte(before + begin + want + end + after)
				return
			}
			require.Equal(t, want, now, "%s is stale: go test ./cmd/couchcore -run TheGuide -update", page)
		})
	}
	if *update {
		require.NoError(t, os.WriteFile(file, text, 0o600))
	}
}

// tableOf is a table in Markdown.
func tableOf(rows ...[]string) string {
	var b strings.Builder
	for i, r := range rows {
		b.WriteString("| " + strings.Join(r, " | ") + " |\n")
		if i == 0 {
			b.WriteString(strings.Repeat("|---", len(r)) + "|\n")
		}
	}
	return b.String()
}

func reasonsOfTheGuide(t *testing.T) string {
	t.Helper()
	rows := [][]string{{"reason", "means", "is set when", "is cleared when", "what to do"}}
	for r := range retry.All() {
		text, ok := reasonTexts[r]
		require.True(t, ok, "%v has no text", r)
		require.NotContains(t, []string{text.means, text.set, text.cleared, text.do}, "", r)
		var marks []string
		for mark, has := range map[string]bool{
			"always retried": r.AlwaysRetry(), "terminal": r.Terminal(), "idempotent only": !r.AllowsNonIdempotent(),
			"transparent": r.Unseen(),
		} {
			if has {
				marks = append(marks, mark)
			}
		}
		slices.Sort(marks)
		name := "`" + r.String() + "`"
		if len(marks) > 0 {
			name += " (" + strings.Join(marks, ", ") + ")"
		}
		rows = append(rows, []string{name, text.means, text.set, text.cleared, text.do})
	}
	require.Len(t, reasonTexts, len(rows)-1)
	return tableOf(rows...)
}

func idempotentOfTheGuide(t *testing.T) string {
	t.Helper()
	var names [2][]string
	for op := range 256 {
		if s := call.SpecOf(memd.Opcode(op)); s != nil {
			i := 1
			if s.Has(call.Idempotent) {
				i = 0
			}
			names[i] = append(names[i], "`"+s.Name+"`")
		}
	}
	slices.Sort(names[0])
	slices.Sort(names[1])
	return tableOf([]string{"key-value operations", ""}, []string{"idempotent", strings.Join(names[0], ", ")},
		[]string{"not idempotent", strings.Join(names[1], ", ")})
}

// kvCodesOfTheGuide has the statuses with a reason of their own, and those that the error map decides about.
func kvCodesOfTheGuide(t *testing.T) string {
	t.Helper()
	rows := [][]string{{"status", "error", "becomes"}}
	for st := range 1 << 16 {
		st := memd.Status(st)
		d := call.Classify(memd.OpSet, st, false)
		if !st.Known() || d.Class != call.ClassRetry && d.Class != call.ClassAskMap {
			continue
		}
		becomes := "what the node's error map says: `KV_ERROR_MAP_RETRY_INDICATED`, or a failure"
		if d.Class == call.ClassRetry {
			becomes = "`" + d.Reason.String() + "`"
		}
		if except := finalFor(st); d.Class == call.ClassRetry && len(except) > 0 {
			becomes += "; a failure for " + strings.Join(except, ", ")
		}
		rows = append(rows, []string{statusText(st) + " " + st.String(), "`" + d.Kind.Name() + "`", becomes})
	}
	rows = append(rows, []string{"without a name", "`couchbase`", "what the node's error map says: " +
		"`KV_ERROR_MAP_RETRY_INDICATED`, or a failure"},
		[]string{"any other", "see [protocol.md](protocol.md)", "a result or a failure"})
	return tableOf(rows...)
}

// finalFor are the operations for which a status with a reason is a failure.
func finalFor(st memd.Status) (names []string) {
	for op := range 256 {
		s := call.SpecOf(memd.Opcode(op))
		if s != nil && call.Classify(s.Opcode, st, true).Class == call.ClassFail && !s.Has(call.NoRetry) {
			names = append(names, "`"+s.Name+"`")
		}
	}
	return names
}

func codesOfTheGuide(t *testing.T) string {
	t.Helper()
	service, _, _ := strings.Cut(filepath.Base(t.Name()), "_")
	rows := [][]string{{"answer", "error", "becomes"}}
	executed := service == "query" || service == "analytics"
	if executed {
		rows[0] = append(rows[0], "executed before")
	}
	for _, s := range serviceCodes {
		if s.service != service {
			continue
		}
		for _, row := range s.rows() {
			becomes := "a failure"
			if row.Reason != retry.Unknown {
				becomes = "`" + row.Reason.String() + "`"
			}
			answer := row.String()
			if s.code == "HTTP" {
				answer = "HTTP " + answer
			}
			cells := []string{answer, "`" + row.Kind.Name() + "`", becomes}
			if executed {
				cells = append(cells, row.Effect.String())
			}
			rows = append(rows, cells)
		}
	}
	require.Greater(t, len(rows), 5, service)
	return tableOf(rows...)
}

// becomesOf asks the command what becomes of an attempt, and says it in a few words.
func becomesOf(t *testing.T, args ...string) string {
	t.Helper()
	r := couchcore(append(append([]string{"explain"}, args...), "--json")...)
	require.Zero(t, r.code, "%v: %s", args, r.stderr)
	var e explained
	require.NoError(t, json.Unmarshal([]byte(r.stdout), &e))
	text := couchcore(append([]string{"explain"}, args...)...).stdout
	switch {
	case e.Decision == "succeed": // no typed request: the answer is its caller's, whatever it is
		return "the caller's answer"
	case e.Decision == "retry" && !e.Consulted:
		return "always retried"
	case e.Decision == "retry":
		return "the strategy decides"
	case e.Consulted:
		return "the strategy decides; the default fails at once"
	case strings.Contains(text, "gets the answer"):
		return "the caller's answer"
	case strings.Contains(text, "may have been applied"):
		return "fails, in doubt"
	}
	return "fails"
}

// Classes of operations, and of what an attempt meets: rows and columns of the decision tables.
var (
	kvClasses = [][2]string{
		{"idempotent: `get`", "get"},
		{"a write: `upsert`", "upsert"},
		{"reads and changes: `get-and-lock`", "get-and-lock"},
		{"`unlock`", "unlock"},
		{"never retried: `range-scan-continue`", "range-scan-continue"},
	}
	kvMeets = [][]string{
		{"not sent: no connection", "--reason", "SOCKET_NOT_AVAILABLE"},
		{"not sent: a terminal reason", "--reason", "AUTHENTICATION_ERROR"},
		{"lost in flight", "--lost-socket"},
		{"sent elsewhere: 0x07, 0x88", "--status", "0x07"},
		{"busy: 0x86", "--status", "0x86"},
		{"busy item: 0x09", "--status", "0x09"},
		{"0xa2, 0xa4", "--status", "0xa2"},
		{"0x85, and no error map", "--status", "0x85"},
		{"0x85, and the error map says retry-now", "--status", "0x85", "--error-map", "testdata/errormap_busy.json"},
		{"the outcome: 0x01, 0x02, 0x03 ...", "--status", "0x01"},
		{"the server failed: 0x84", "--status", "0x84"},
		{"the server does not know: 0xa3", "--status", "0xa3"},
	}
	httpClasses = [][2]string{
		{"query, `Readonly`", "query query --readonly"},
		{"query", "query query"},
		{"analytics, `Readonly`", "analytics query --readonly"},
		{"analytics", "analytics query"},
		{"search", "search query"},
		{"view", "views query"},
		{"GET", "management GET"},
		{"POST", "management POST"},
	}
	httpMeets = [][]string{
		{"not sent: no node", "--reason", "SERVICE_NOT_AVAILABLE"},
		{"not sent: no connection", "--reason", "SOCKET_NOT_AVAILABLE"},
		{"lost in flight", "--lost-socket"},
		{"429", "--http", "429"},
		{"503 with `Retry-After`", "--http", "503", "--retry-after", "1"},
		{"503", "--http", "503"},
		{"504", "--http", "504"},
		{"500", "--http", "500"},
		{"404", "--http", "404"},
		{"302", "--http", "302"},
	}
)

func decisionsOf(t *testing.T, classes [][2]string, meets [][]string, of func(class string) []string) string {
	t.Helper()
	head := []string{"an attempt met"}
	for _, c := range classes {
		head = append(head, c[0])
	}
	rows := [][]string{head}
	for _, m := range meets {
		row := []string{m[0]}
		for _, c := range classes {
			row = append(row, becomesOf(t, append(of(c[1]), m[1:]...)...))
		}
		rows = append(rows, row)
	}
	return tableOf(rows...)
}

func decisionsOfTheGuide(t *testing.T) string {
	t.Helper()
	return decisionsOf(t, kvClasses, kvMeets, func(op string) []string {
		return []string{
			"--service", "kv", "--op",
			op,
		}
	})
}

func httpCodesOfTheGuide(t *testing.T) string {
	t.Helper()
	return decisionsOf(t, httpClasses, httpMeets, func(class string) []string {
		words := strings.Fields(class)
		return append([]string{"--service", words[0], "--op", words[1]}, words[2:]...)
	})
}

func TestReasonsNameOne(t *testing.T) {
	for r := range retry.All() {
		text := reasonTexts[r]
		out := couchcore("reasons", strings.ToLower(r.String()))
		require.Zero(t, out.code, out.stderr)
		for _, part := range []string{r.String(), text.means, text.set, text.cleared, text.do} {
			require.Contains(t, out.stdout, part)
		}
		o := couchcore("reasons", r.String(), "--json").object(t)
		require.Equal(t, text.set, o["set"])
		require.Equal(t, text.cleared, o["cleared"])
		require.Equal(t, text.do, o["do"])
	}
	require.Contains(t, couchcore("reasons", "KV_LOCKED").stdout, fmt.Sprintf("%-11s %s", "answer", "kv 0x09 "))
	couchcore("reasons", "NO_SUCH").failsWith(t, exitUsage, `"NO_SUCH" is not a retry reason`)
}
