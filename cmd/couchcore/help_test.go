package main

import (
	"io"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/stretchr/testify/require"
)

// words are the arguments of an example as a shell would pass them.
func words(line string) []string {
	var out []string
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

func TestEveryCommandHasAnExampleThatCanBeRead(t *testing.T) {
	k, err := kong.New(&cli{}, helpVars, kong.Name("couchcore"), kong.Writers(io.Discard, io.Discard))
	require.NoError(t, err)
	commands := map[string]bool{"kv": true}
	for _, n := range k.Model.Leaves(false) {
		path := commandOf(n)
		commands[path] = true
		line := exampleOf[path]
		require.True(t, strings.HasPrefix(line, "couchcore "+path), "%s: %q", path, line)
		ctx, err := k.Parse(words(line)[1:])
		require.NoError(t, err, line)
		require.Equal(t, n, ctx.Selected(), line)

		r := couchcore(append(strings.Fields(path), "--help")...)
		require.Zero(t, r.code)
		require.Empty(t, r.stderr)
		require.True(t, strings.HasPrefix(r.stdout, "For example:\n\n  "+line+"\n\nUsage: couchcore "+path), r.stdout)
	}
	for path := range exampleOf {
		require.True(t, commands[path], "%s is no command", path)
	}
}

func TestEveryFlagSaysWhatItDoesAndItsDefault(t *testing.T) {
	k, err := kong.New(&cli{}, helpVars)
	require.NoError(t, err)
	for _, n := range k.Model.Leaves(false) {
		require.NotEmpty(t, n.Help, n.Path())
		for _, f := range n.Flags {
			require.NotEmpty(t, f.Help, "%s --%s", n.Path(), f.Name)
			switch {
			case !f.HasDefault:
			case f.IsBool():
				require.Contains(t, f.Help, map[string]string{
					"true":  "default: yes",
					"false": "default: no",
				}[f.Default], "%s --%s", n.Path(), f.Name)
			default:
				require.Contains(t, f.Help, "default: "+f.Default, "%s --%s", n.Path(), f.Name)
			}
		}
	}
}

func TestHelpAndWrongUsage(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	golden(t, "help", transcript(
		"--help", "ping --help", "", "frob", "dmo", "ping --frob", "ping more", "kv", "kv frob k", "kv get",
		"kv get k --timeout 1",
		"kv get k --durability majority", "kv upsert k v --durability huge", "kv get k",
	))
}
