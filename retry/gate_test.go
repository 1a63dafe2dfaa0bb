package retry_test

import (
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
	"always", "bounds", "cap", "capped", "claim only from local", "claimed", "closed",
	"closed before its strategy",
	"closed before the wake-up", "disabled", "done", "doubt", "end swap", "ended before its delay",
	"ended before its strategy",
	"ended while described", "epoch of answered", "epoch of lost", "epoch of succeeded", "epoch of unsent",
	"executed in part", "fail swap", "floor",
	"floor of a strategy", "floor of a wake", "late answer",
	"late loss", "missed wake", "no doubt", "one free re-route", "one transparent loss", "park swap", "parking",
	"pushed back",
	"reset", "reset's number", "send only from local",
	"size", "still parked", "strategy's context", "timer's swap", "unlink at the end",
	"unlink what others ended", "unlinked", "unsafe reason", "wake", "wire",
}

// gateTests are the files that judge the mutants. They import nothing but the standard library and this package.
var gateTests = []string{"model_test.go", "modelworld_test.go", "guards_test.go", "guards_delay_test.go"}

const (
	gateTimeout  = 60 * time.Second // a mutant that hangs has failed too
	gateParallel = 2
)

// gateSwitch lets one build be every mutant: the environment names the guard that does nothing, or the one that always
// acts.
const gateSwitch = `package retry

import "os"

var disarmed, stuck = os.Getenv("COUCHCORE_DISARMED"), os.Getenv("COUCHCORE_STUCK")

func armed(guard string) bool { return guard != disarmed }

func acts(guard string, cond bool) bool { return cond && armed(guard) || guard == stuck }
`

var guardLine = regexp.MustCompile(`^(\s*)(.*\S)\s*// guard: (.+)$`)

// disarmable gives a guard line a switch: when it is off, conditions are computed and then false, and statements are
// left out. Only a condition can be stuck, which is then true.
func disarmable(indent, code, guard string) (line string, sticks bool) {
	and := func(prefix, cond, suffix string) (string, bool) {
		return fmt.Sprintf("%s%sacts(%q, %s)%s", indent, prefix, guard, cond, suffix), true
	}
	switch {
	case strings.HasPrefix(code, "if ") && strings.HasSuffix(code, " {"):
		head, cond := "if ", strings.TrimSuffix(strings.TrimPrefix(code, "if "), " {")
		if init, tail, ok := strings.Cut(cond, "; "); ok {
			head, cond = head+init+"; ", tail
		}
		return and(head, cond, " {")
	case strings.HasPrefix(code, "case ") && strings.HasSuffix(code, ":"):
		return and("case ", strings.TrimSuffix(strings.TrimPrefix(code, "case "), ":"), ":")
	case strings.HasPrefix(code, "return "):
		return and("return ", strings.TrimPrefix(code, "return "), "")
	case strings.Contains(code, " := "):
		name, value, _ := strings.Cut(code, " := ")
		return and(name+" := ", value, "")
	}
	return fmt.Sprintf("%sif armed(%q) { %s }", indent, guard, code), false
}

// gateFiles are the package's files and the tests that judge, every guard with its switch, and the guards' names, of
// which some can be stuck.
func gateFiles(t *testing.T) (files map[string]string, found, stick []string) {
	t.Helper()
	names, err := filepath.Glob("*.go")
	require.NoError(t, err)
	files = map[string]string{"gate_switch.go": gateSwitch}
	for _, n := range names {
		test := strings.HasSuffix(n, "_test.go")
		if test && !slices.Contains(gateTests, n) {
			continue
		}
		src, err := os.ReadFile(n)
		require.NoError(t, err)
		lines := strings.Split(string(src), "\n")
		for i, l := range lines {
			if m := guardLine.FindStringSubmatch(l); m != nil && !test {
				line, sticks := disarmable(m[1], m[2], m[3])
				lines[i], found = line, append(found, m[3])
				if sticks {
					stick = append(stick, m[3])
				}
			}
		}
		files[n] = strings.Join(lines, "\n")
	}
	for _, n := range gateTests {
		require.Contains(t, files, n)
	}
	slices.Sort(found)
	return files, found, stick
}

// gateBuild builds the tests that judge, in a module of their own.
func gateBuild(t *testing.T, files map[string]string) (binary string) {
	t.Helper()
	pkg := filepath.Join(t.TempDir(), "retry")
	require.NoError(t, os.MkdirAll(pkg, 0o755))
	files["../go.mod"] = "module github.com/couchcore/couchcore\n\ngo 1.26.0\n"
	for name, src := range files {
		require.NoError(t, os.WriteFile(filepath.Join(pkg, name), []byte(src), 0o644))
	}
	c := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", "quick.test", ".")
	c.Dir = pkg
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "GOPROXY=off", "GOTOOLCHAIN=local")
	out, err := c.CombinedOutput()
	require.NoError(t, err, string(out))
	return filepath.Join(pkg, "quick.test")
}

// TestMutationGate disarms each guard in turn, and then lets each always act, and expects a test to notice: so both
// branches of each are taken, and matter.
func TestMutationGate(t *testing.T) {
	files, found, stick := gateFiles(t)
	require.Equal(t, guards, found, "every guard line has a name of its own, which is listed")
	if testing.Short() {
		t.Skip("runs the package's tests once per guard")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command to build the mutants")
	}
	binary := gateBuild(t, files)
	judge := func(mutation string) (passed bool, output string) {
		c := exec.CommandContext(t.Context(), binary, "-test.failfast", "-test.timeout", gateTimeout.String())
		c.Dir, c.Env = filepath.Dir(binary), append(os.Environ(), mutation, "GOMAXPROCS=2")
		out, err := c.CombinedOutput()
		return err == nil, string(out)
	}
	passed, output := judge("COUCHCORE_DISARMED=")
	require.True(t, passed, "the tests fail without a mutation:\n%s", output)
	var wg sync.WaitGroup
	slots := make(chan struct{}, gateParallel)
	for name, mutated := range map[string][]string{"COUCHCORE_DISARMED": guards, "COUCHCORE_STUCK": stick} {
		for _, guard := range mutated {
			wg.Go(func() {
				slots <- struct{}{}
				defer func() { <-slots }()
				if passed, _ := judge(name + "=" + guard); passed {
					t.Errorf("no test notices %s=%q", name, guard)
				}
			})
		}
	}
	wg.Wait()
}
