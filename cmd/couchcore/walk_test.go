package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/mock"
)

// walks are the pages whose console blocks are typed one after the other, in a folder that is empty at first. A block
// of Go that names a file is that file.
var walks = []string{"docs/first-five-minutes.md", "docs/getting-started.md"}

func TestTheWalksGoAsThePagesSay(t *testing.T) {
	for _, page := range walks {
		t.Run(page, func(t *testing.T) {
			w := &walker{t: t, dir: t.TempDir()}
			for _, b := range blocksOf(t, page) {
				if file, ok := strings.CutPrefix(b.language, "go "); ok {
					require.NoError(t, os.WriteFile(filepath.Join(w.dir, file), []byte(b.text), 0o600))
				}
				if b.language != "console" {
					continue
				}
				for i, part := range strings.Split("\n"+b.text, "\n$ ") {
					if i > 0 {
						line, want, _ := strings.Cut(part, "\n")
						got := strings.TrimRight(w.do(line), "\n")
						require.Equal(t, walked(strings.TrimRight(want, "\n")), walked(got), line)
					}
				}
			}
			require.Greater(t, w.done, 3)
		})
	}
}

// walked is a text without what differs from run to run: what two nodes say alike stands there once, because the error
// of a call may come before the second has said it.
func walked(text string) string {
	text = strings.ReplaceAll(text, "\t", "  ")
	lines := strings.Split(steady(strings.ReplaceAll(text, "(cached)", "1.0s")), "\n")
	for i, line := range lines {
		if one, other, two := strings.Cut(line, "; "); two && strings.HasSuffix(one, other) {
			lines[i] = one
		}
	}
	return strings.Join(lines, "\n")
}

// walker is a shell that knows the few commands of the walks.
type walker struct {
	t    *testing.T
	dir  string
	cmd  cmd // with the environment that the page sets
	done int
}

// do types one line and gives what it prints.
func (w *walker) do(line string) (printed string) {
	w.done++
	for _, part := range strings.Split(line, " && ") {
		words := words(part)
		switch words[0] {
		case "mkdir":
			require.NoError(w.t, os.Mkdir(filepath.Join(w.dir, words[1]), 0o700))
		case "cd":
			w.dir = filepath.Join(w.dir, words[1])
		case "read", "export": // the environment is that of the mock
			require.NotNil(w.t, w.cmd.env, "no mock was started")
		case "couchcore":
			printed += w.couchcore(words[1:])
		case "go":
			printed += w.golang(words[1:])
		default:
			require.Fail(w.t, "a command that the test does not know", part)
		}
	}
	return printed
}

func (w *walker) couchcore(args []string) string {
	if args[0] == "mock" {
		require.Equal(w.t, []string{"--nodes", "2", "&"}, args[1:])
		_, w.cmd = startMock(w.t, mock.Nodes(2), mock.VBuckets(1024))
		return ""
	}
	r := w.cmd.run(args...)
	if r.code != exitOK {
		return r.stdout + r.stderr + "exit " + string(rune('0'+r.code))
	}
	return r.stdout + r.stderr
}

// golang runs Go. The module is this one. What it needs is on this machine already, but for go.mod files of versions
// that this module does not use itself.
func (w *walker) golang(args []string) string {
	if args[0] == "get" {
		require.Equal(w.t, []string{"get", "github.com/couchcore/couchcore@latest"}, args)
		here, err := filepath.Abs(root)
		require.NoError(w.t, err)
		args = []string{
			"mod", "edit", "-replace", "github.com/couchcore/couchcore=" + here,
			"-require", "github.com/couchcore/couchcore@v0.0.0",
		}
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 5*time.Minute) // it may have to compile
	defer cancel()
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = w.dir
	c.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOSUMDB=off", "GOWORK=off")
	var told strings.Builder
	c.Stderr = &told
	out, err := c.Output()
	require.NoError(w.t, err, "go %s\n%s%s", strings.Join(args, " "), out, told.String())
	return string(out)
}
