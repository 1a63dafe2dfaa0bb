package main

import (
	"context"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The README's commands print what it says, and its programs are the files that it names.

const root = "../.."

// block is a fenced block of the README.
type block struct{ language, text string }

func readmeBlocks(t *testing.T) []block {
	t.Helper()
	text, err := os.ReadFile(root + "/README.md")
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
	require.False(t, inside, "a block without an end")
	return blocks
}

func TestReadmeProgramsAreTheExamples(t *testing.T) {
	found := map[string]bool{}
	for _, b := range readmeBlocks(t) {
		if b.language == "go" {
			found[b.text] = true
		}
	}
	for _, name := range []string{"basic", "override"} {
		file, err := os.ReadFile(root + "/examples/" + name + "/main.go")
		require.NoError(t, err)
		require.True(t, found[string(file)], "README.md does not have examples/%s/main.go as it is", name)
		delete(found, string(file))
	}
	require.Empty(t, found, "README.md has a program that is no example")
}

func TestReadmeCommandsPrintWhatItSays(t *testing.T) {
	blocks := readmeBlocks(t)
	commands := 0
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
	require.GreaterOrEqual(t, commands, 4)
}

// runReadme runs a command of the README: the examples as it says, couchcore without building it again.
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
