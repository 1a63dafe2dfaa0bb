package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

const commandsPage = "docs/commands.md"

// TestThePageOnCommandsShowsWhatTheyPrint runs the page's console blocks, in order, against one mock cluster.
func TestThePageOnCommandsShowsWhatTheyPrint(t *testing.T) {
	_, c := startMock(t, mock.Nodes(2), mock.VBuckets(1024))
	ran := 0
	for _, b := range blocksOf(t, commandsPage) {
		if b.language != "console" {
			continue
		}
		for i, part := range strings.Split("\n"+b.text, "\n$ couchcore ") {
			if i == 0 {
				require.Empty(t, part)
				continue
			}
			line, want, _ := strings.Cut(part, "\n")
			r := c.run(words(line)...)
			got := r.stdout + r.stderr
			if r.code != 0 {
				got += "exit " + string(rune('0'+r.code)) + "\n"
			}
			require.Equal(t, strings.TrimRight(steady(want), "\n"), strings.TrimRight(steady(got), "\n"), line)
			ran++
		}
	}
	require.Greater(t, ran, 10)
}

func TestThePageOnCommandsNamesAllOfThem(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(root, commandsPage))
	require.NoError(t, err)
	var rows []string // of its tables
	for _, l := range strings.Split(string(raw), "\n") {
		if strings.HasPrefix(l, "|") {
			rows = append(rows, l)
		}
	}
	text := strings.Join(rows, "\n")
	k, err := kong.New(&cli{}, helpVars)
	require.NoError(t, err)
	verbs := 0
	for _, n := range k.Model.Leaves(false) {
		if n.Parent.Name == "kv" {
			verbs++
			continue
		}
		require.Contains(t, text, "`"+n.Name+"`")
	}
	require.Contains(t, text, fmt.Sprintf("`kv` and %d verbs", verbs))
	for _, s := range doctorSteps {
		require.Contains(t, text, "\n| "+s.name+" | ")
	}
	flags, err := kong.New(&connectFlags{}, helpVars)
	require.NoError(t, err)
	for _, f := range flags.Model.Flags {
		if f.Name != "help" {
			require.Contains(t, text, map[bool]string{true: "`-v`", false: "`--" + f.Name + "`"}[f.Name == "verbose"])
		}
	}
}

// The command lines of pages whose commands take hours, or need modules of others, are ones that the command takes.
func TestCommandLinesOfThePagesAreKnown(t *testing.T) {
	lines := 0
	for _, page := range []string{"docs/chaos.md", "docs/gocb.md"} {
		for _, b := range blocksOf(t, page) {
			for line := range strings.Lines(b.text) {
				args := strings.Fields(line)
				if len(args) == 0 || args[0] != "couchcore" {
					continue
				}
				lines++
				k, err := kong.New(&cli{}, helpVars)
				require.NoError(t, err)
				_, err = k.Parse(args[1:])
				require.NoError(t, err, line)
			}
		}
	}
	require.Equal(t, 3, lines)
}
