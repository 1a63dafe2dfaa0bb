package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// complete asks bash what it would complete a line to.
func complete(t *testing.T, script string, line ...string) []string {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	program := script + `
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _couchcore; printf '%s\n' "${COMPREPLY[@]}"`
	args := append([]string{"--norc", "-c", program, "bash"}, line...)
	out, err := exec.CommandContext(t.Context(), bash, args...).CombinedOutput()
	require.NoError(t, err, string(out))
	return strings.Fields(string(out))
}

func TestBashCompletesCommandsAndFlags(t *testing.T) {
	r := couchcore("completion", "bash")
	require.Zero(t, r.code, r.stderr)
	require.Equal(t, []string{"doctor"}, complete(t, r.stdout, "couchcore", "doc"))
	require.Subset(t, complete(t, r.stdout, "couchcore", ""), []string{"demo", "kv", "errors", "--json", "--version"})
	require.Equal(t, []string{"get-and-touch", "get-and-lock"}, complete(t, r.stdout, "couchcore", "kv", "get-and"))
	require.Equal(t, []string{"--durability"}, complete(t, r.stdout, "couchcore", "kv", "upsert", "k", "v", "--dur"))
	require.Equal(t, []string{"--connect"}, complete(t, r.stdout, "couchcore", "ping", "--json", "--con"))
	require.Empty(t, complete(t, r.stdout, "couchcore", "ping", "--sco"))
}

func TestEveryShellKnowsEveryCommandAndFlag(t *testing.T) {
	a := newApp(strings.NewReader(""), &strings.Builder{}, &strings.Builder{}, func(string) string { return "" })
	require.Zero(t, a.run([]string{"connstr", "h"}))
	for _, shell := range []string{"bash", "zsh", "fish"} {
		text := couchcore("completion", shell).stdout
		require.NotContains(t, text, "%!", shell)
		for _, c := range grammarOf(a.grammar) {
			for _, n := range c.commands {
				require.Contains(t, text, n.Name, shell)
			}
			for _, f := range c.flags {
				require.Contains(t, text, f.Name, shell)
			}
		}
	}
	couchcore("completion", "tcsh").failsWith(t, exitUsage, "must be one of")
}
