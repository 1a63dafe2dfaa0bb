package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
)

// The commands of the pages for users print what they say, and their programs are parts of programs that are tested.

const root = "../.."

// pages are the ones for users.
var pages = []string{
	"README.md", "docs/retry.md", "docs/migrating-from-gocbcore.md", "docs/getting-started.md",
	"docs/building-an-sdk.md", "docs/operations.md", "docs/faq.md", commandsPage, errorsPage,
}

// block is a fenced block of a page.
type block struct{ language, text string }

func blocksOf(t *testing.T, page string) []block {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	require.NoError(t, err)
	var blocks []block
	inside := false
	for _, line := range strings.SplitAfter(string(text), "\n") {
		switch {
		case strings.HasPrefix(line, "```") && !inside:
			blocks = append(blocks, block{language: strings.TrimSpace(line[3:])})
			inside = true
		case strings.HasPrefix(line, "```"):
			inside = false
		case inside:
			blocks[len(blocks)-1].text += line
		}
	}
	require.False(t, inside, "%s: a block without an end", page)
	return blocks
}

func TestReadmeHasTheFirstExample(t *testing.T) {
	found := map[string]bool{}
	for _, b := range blocksOf(t, "README.md") {
		found[b.text] = true
	}
	file, err := os.ReadFile(root + "/examples/basic/main.go")
	require.NoError(t, err)
	require.True(t, found[string(file)], "README.md does not have examples/basic/main.go as it is")
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	require.LessOrEqual(t, strings.Count(string(text), "\n"), 250, "what is more belongs into docs")
}

func TestTheReadmeLinksEveryPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(root + "/docs/*.md")
	require.NoError(t, err)
	require.Greater(t, len(files), 14)
	for _, f := range files {
		linked := strings.Contains(string(text), "](docs/"+filepath.Base(f)+")")
		require.True(t, linked || strings.HasPrefix(filepath.Base(f), "design-"), f)
	}
}

func TestProgramsOfThePagesAreTested(t *testing.T) {
	files, err := filepath.Glob(root + "/examples/*/*.go")
	require.NoError(t, err)
	var sources []string
	for _, f := range files {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		sources = append(sources, string(source))
	}
	for _, page := range pages {
		for _, b := range blocksOf(t, page) {
			if b.language == "go" {
				require.True(t, partOf(sources, b.text), "%s: this is no part of an example:\n%s", page, b.text)
			}
		}
	}
}

// TestTheReadmeShowsEachSystemOfRetryingInEightLines: one block for each of the five, of at most eight lines, in an
// Example that runs.
func TestTheReadmeShowsEachSystemOfRetryingInEightLines(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Retrying\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	source, err := os.ReadFile(root + "/examples/retrying/systems_test.go")
	require.NoError(t, err)
	var run []string // the Examples that are run: those with an output
	for _, f := range strings.Split(string(source), "\nfunc Example")[1:] {
		if body, _, ok := strings.Cut(f, "\n\t// Output: "); ok {
			run = append(run, "func Example"+body)
		}
	}
	blocks := strings.Split(section, "```go\n")[1:]
	require.Len(t, blocks, 5)
	for _, b := range blocks {
		b, _, _ = strings.Cut(b, "```")
		require.LessOrEqual(t, strings.Count(b, "\n"), 8, b)
		require.True(t, partOf(run, b), "no Example has:\n%s", b)
	}
}

// partOf reports whether lines stand in one of the sources as they are, or deeper inside.
func partOf(sources []string, lines string) bool {
	for range 4 {
		for _, s := range sources {
			if strings.Contains("\n"+s, "\n"+lines) {
				return true
			}
		}
		lines = "\t" + strings.TrimSuffix(strings.ReplaceAll(lines, "\n", "\n\t"), "\t")
	}
	return false
}

func TestPartsOfPrograms(t *testing.T) {
	sources := []string{"func f() {\n\tif x {\n\t\treturn\n\t}\n}\n"}
	require.True(t, partOf(sources, "func f() {\n"))
	require.True(t, partOf(sources, "if x {\n\treturn\n}\n"))
	require.True(t, partOf(sources, "return\n"))
	require.False(t, partOf(sources, "if y {\n"))
	require.False(t, partOf(sources, "x {\n"), "a part of a line")
}

func TestPoliciesOfThePagesAreRead(t *testing.T) {
	n := 0
	for _, page := range pages {
		for _, b := range blocksOf(t, page) {
			if b.language == "json" {
				n++
				_, err := core.ParsePolicy([]byte(b.text))
				require.NoError(t, err, page)
			}
		}
	}
	require.Positive(t, n)
}

func TestThePageOnRetryingHasEveryKeyOfAPolicyFile(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/retry.md")
	require.NoError(t, err)
	for _, key := range []string{
		"operationConfig", "methodConfig", "name", "service", "operation", "method", "timeout", "retryPolicy",
		"hedgingPolicy",
		"maxAttempts", "initialBackoff", "maxBackoff", "backoffMultiplier", "retryableReasons", "retryableStatusCodes",
		"jitter",
		"softLimit", "hardLimit", "pinned", "hedgingDelay", "nonFatalReasons", "nonFatalStatusCodes", "retryThrottling",
		"maxTokens",
		"tokenRatio", "delays", "fit", "drop", "stretch", "truncate", "overflow", "cap", "giveUp", "tokenBucket",
		"capacity",
		"refill", "costs", "server", "client", "throttling", "none", "full", "equal", "additive", "proportional",
		"decorrelated",
	} {
		require.Contains(t, string(text), "`"+key+"`")
	}
}

func TestCommandsOfThePagesPrintWhatTheySay(t *testing.T) {
	commands := 0
	for _, page := range pages {
		blocks := blocksOf(t, page)
		for i, b := range blocks {
			if b.language != "sh" {
				continue
			}
			commands++
			line := strings.TrimSuffix(b.text, "\n")
			require.NotContains(t, line, "\n", "one command a block")
			if line == "go test ./..." { // which is what runs this
				continue
			}
			require.Less(t, i+1, len(blocks), line)
			require.Equal(t, "text", blocks[i+1].language, "%s: what it prints follows it", line)
			want, got := blocks[i+1].text, runReadme(t, line)
			if strings.HasSuffix(line, " demo") {
				want, got = shape(want), shape(got)
			}
			require.Equal(t, want, got, line)
		}
	}
	require.GreaterOrEqual(t, commands, 10)
}

// runReadme runs a command of a page: the examples as it says, couchcore without building it again.
func runReadme(t *testing.T, line string) string {
	t.Helper()
	if args, ok := strings.CutPrefix(line, "go run ./cmd/couchcore "); ok {
		if args == "demo" {
			args = "demo --duration 1s" // as it is, but shorter
		}
		r := couchcore(strings.Fields(args)...)
		require.Zero(t, r.code, r.stderr)
		return r.stdout
	}
	require.Regexp(t, `^go run \./examples/[a-z]+$`, line)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // it may have to compile
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", strings.Fields(line)[1:]...)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	return string(out)
}

// volatile is what differs from run to run, and what stands for it.
var volatile = []struct {
	pattern *regexp.Regexp
	with    string
}{
	{regexp.MustCompile(`(?m)^ +(met|failed with) .*\n`), ""},
	{regexp.MustCompile(`(127\.0\.0\.1:\d+,?)+`), "ADDRESSES"},
	{regexp.MustCompile(`cas [0-9a-f]{16}`), "cas CAS"},
	{regexp.MustCompile(`[\x{2581}-\x{2588}]+`), "BARS"},
	{regexp.MustCompile(`load .{9}`), "load"},
	{regexp.MustCompile(`\d[\d ]*(\.\d+)? m?s\b`), "TIME"},
	{regexp.MustCompile(`\d[\d ]*(\.\d+)?( ops|k/s| acknowledged)`), "COUNT$2"},
	{regexp.MustCompile(`(retries|in doubt|errors) \d[\d ]*`), "$1 COUNT"},
}

// shape is a text without what differs from run to run.
func shape(text string) string {
	for _, v := range volatile {
		text = v.pattern.ReplaceAllString(text, v.with)
	}
	return text
}

func TestShapeKeepsWhatMatters(t *testing.T) {
	require.Equal(t, "checked        COUNT acknowledged writes   lost 0   applied twice 0   goroutines left 0",
		shape("checked        103 077 acknowledged writes   lost 0   applied twice 0   goroutines left 0"))
	require.NotEqual(t, shape("lost 0"), shape("lost 1"))
	require.NotEqual(t, shape("ok after 2 retries"), shape("ok after 3 retries"))
}
