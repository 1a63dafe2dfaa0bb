package retry_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// guards are the lines that keep the package's promises, by the name in their trailing comment. One that disappears
// from the code or appears without a line here fails the gate.
var guards = []string{
	"always", "bounds", "cap", "capped", "claim only from local", "claimed", "closed", "closed before its strategy",
	"closed before the wake-up", "disabled", "done", "doubt", "end swap", "ended before its strategy",
	"ended while described", "epoch of answered", "epoch of lost", "epoch of succeeded", "epoch of unsent", "fail swap", "late answer",
	"late loss", "one free re-route", "park swap", "parking", "reset", "reset's number", "send only from local",
	"size", "still parked", "strategy's context", "timer's swap", "unlink at the end",
	"unlink what others ended", "unlinked", "unsafe reason", "wake", "wire",
}

// gateTests are the files that judge the mutants. They import nothing but the standard library and this package.
var gateTests = []string{"model_test.go", "modelworld_test.go", "guards_test.go"}

const (
	gateTimeout  = 60 * time.Second // a mutant that hangs has failed too
	gateParallel = 2
)

var guardLine = regexp.MustCompile(`^(\s*)(.*\S)\s*// guard: (.+)$`)

type mutant struct {
	file, guard string
	line        int
	source      []byte
}

// disarm makes a guard line do nothing: conditions are computed and then false, statements are gone.
func disarm(indent, code string) string {
	never := func(prefix, cond, suffix string) string {
		return indent + prefix + "(" + cond + ") && false" + suffix
	}
	switch {
	case strings.HasPrefix(code, "if ") && strings.HasSuffix(code, " {"):
		head, cond := "if ", strings.TrimSuffix(strings.TrimPrefix(code, "if "), " {")
		if init, rest, ok := strings.Cut(cond, "; "); ok {
			head, cond = head+init+"; ", rest
		}
		return never(head, cond, " {")
	case strings.HasPrefix(code, "case ") && strings.HasSuffix(code, ":"):
		return never("case ", strings.TrimSuffix(strings.TrimPrefix(code, "case "), ":"), ":")
	case strings.HasPrefix(code, "return "):
		return never("return ", strings.TrimPrefix(code, "return "), "")
	case strings.Contains(code, " := "):
		name, value, _ := strings.Cut(code, " := ")
		return never(name+" := ", value, "")
	}
	return indent
}

func mutants(t *testing.T, files map[string][]byte) []mutant {
	t.Helper()
	var ms []mutant
	for name, src := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		lines := strings.Split(string(src), "\n")
		for i, l := range lines {
			m := guardLine.FindStringSubmatch(l)
			if m == nil {
				continue
			}
			out := slices.Clone(lines)
			out[i] = disarm(m[1], m[2])
			ms = append(ms, mutant{name, m[3], i + 1, []byte(strings.Join(out, "\n"))})
		}
	}
	slices.SortFunc(ms, func(a, b mutant) int { return strings.Compare(a.guard, b.guard) })
	return ms
}

func gateFiles(t *testing.T) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files := map[string][]byte{}
	for _, n := range names {
		if strings.HasSuffix(n, "_test.go") && !slices.Contains(gateTests, n) {
			continue
		}
		src, err := os.ReadFile(n)
		require.NoError(t, err)
		files[n] = src
	}
	for _, n := range gateTests {
		require.Contains(t, files, n)
	}
	return files
}

// verdict is what the tests say of a copy of the package.
type verdict struct {
	compiled, passed bool
	output           string
}

// judge runs the quick tests over the package with one file exchanged, in a module of its own.
func judge(dir string, files map[string][]byte, m mutant) (verdict, error) {
	pkg := filepath.Join(dir, "retry")
	if err := os.MkdirAll(pkg, 0o755); err != nil {
		return verdict{}, err
	}
	mod := []byte("module github.com/couchcore/couchcore\n\ngo 1.26.0\n")
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), mod, 0o644); err != nil {
		return verdict{}, err
	}
	for name, src := range files {
		if name == m.file {
			src = m.source
		}
		if err := os.WriteFile(filepath.Join(pkg, name), src, 0o644); err != nil {
			return verdict{}, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*gateTimeout)
	defer cancel()
	run := func(name string, args ...string) (string, error) {
		var out bytes.Buffer
		c := exec.CommandContext(ctx, name, args...)
		c.Dir, c.Stdout, c.Stderr = pkg, &out, &out
		c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local", "GOMAXPROCS=2")
		err := c.Run()
		return out.String(), err
	}
	if out, err := run("go", "test", "-c", "-vet=off", "-ldflags=-w -s", "-o", "quick.test", "."); err != nil {
		return verdict{output: out}, nil
	}
	out, err := run(filepath.Join(pkg, "quick.test"), "-test.failfast", "-test.timeout", gateTimeout.String())
	return verdict{compiled: true, passed: err == nil, output: out}, nil
}

// TestMutationGate removes each guard in turn and expects a test to notice.
func TestMutationGate(t *testing.T) {
	files := gateFiles(t)
	ms := mutants(t, files)
	var names []string
	for _, m := range ms {
		names = append(names, m.guard)
	}
	require.Equal(t, guards, names, "every guard line has a name of its own, which is listed")
	if testing.Short() {
		t.Skip("builds the package once per guard")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build the mutants")
	}
	root := t.TempDir()
	type result struct {
		m   mutant
		v   verdict
		err error
	}
	results := make([]result, len(ms)+1)
	var wg sync.WaitGroup
	slots := make(chan struct{}, gateParallel)
	for i, m := range append(ms, mutant{guard: "none"}) {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			dir := filepath.Join(root, fmt.Sprint(i))
			v, err := judge(dir, files, m)
			results[i] = result{m, v, err}
			_ = os.RemoveAll(dir)
		})
	}
	wg.Wait()
	for _, r := range results {
		require.NoError(t, r.err)
		require.True(t, r.v.compiled, "without %q at %s:%d it does not build:\n%s", r.m.guard, r.m.file, r.m.line, r.v.output)
		if r.m.file == "" {
			require.True(t, r.v.passed, "the tests fail without a mutation:\n%s", r.v.output)
			continue
		}
		if r.v.passed {
			t.Errorf("no test notices that guard %q at %s:%d is gone", r.m.guard, r.m.file, r.m.line)
		}
	}
}
