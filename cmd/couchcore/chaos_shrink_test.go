package main

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

// crashEnv has the process of a seed panic, unless it leaves out the fault that the variable names.
const crashEnv = "COUCHCORE_CHAOS_CRASH"

// init runs before that of chaos_test.go: files are initialized in the order of their names.
func init() {
	fault := os.Getenv(crashEnv)
	if fault != "" && os.Getenv(chaosEnv) != "" && !slices.Contains(os.Args, "--without="+fault) {
		panic("planted: " + fault)
	}
}

// TestChaosFindsASmallerRun: a failure is shown with fewer calls, workers, nodes and faults, as a command and a test.
func TestChaosFindsASmallerRun(t *testing.T) {
	drawings := t.TempDir()
	t.Setenv("TMPDIR", drawings)
	var r result
	seed := ""
	for n := 1; r.code != exitFailed; n++ { // in some seeds the node that lies is not asked for what it keeps back
		require.Less(t, n, 9)
		seed = strconv.Itoa(n)
		r = couchcore("chaos", "--seed", seed, "--seeds", "1", "--ops", "1000", "--break", "stale-read")
	}
	again, test := smallerRun(t, r.stdout)
	require.Contains(t, test, "func TestSeed"+seed+"(t *testing.T) {\n\trun(t, sim.Options{Seed: "+seed+", Ops: ")
	require.Contains(t, again, "--workers=1")
	require.Contains(t, again, "--nodes=1")
	require.NotContains(t, again, "--replay", "one run shows it")
	r = couchcore(append(again, "--break=stale-read")...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "P5 violated by seed "+seed)
	require.Contains(t, r.stderr, "it is drawn in "+drawings)
	require.NotEmpty(t, leftOut(again))
	require.Subset(t, slices.Concat(sim.Parts(), sim.Faults()), leftOut(again), "no other name leaves anything out")
}

// A seed that does not replay is made smaller as any other failure is: each smaller run is run twice. So are those of
// the command and of the test that show it again.
func TestChaosFindsASmallerRunOfASeedThatDoesNotReplay(t *testing.T) {
	r := couchcore("chaos", "--seed", "7", "--seeds", "5", "--ops", "500", "--break", "unsteady")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "replay violated by seed 7: another run of the seed has the trace ")
	require.Contains(t, r.stdout, "\n  again: couchcore chaos --seed 7 --seeds 1 --ops 100 --replay\n")
	again, test := smallerRun(t, r.stdout)
	require.Subset(t, again, []string{"--seeds=1", "--ops=25", "--workers=1", "--nodes=1", "--replay"})
	require.Contains(t, test, "func TestSeed7(t *testing.T) {\n\ttenTimes(t, sim.Options{Seed: 7, Ops: 25, ")
	r = couchcore(append(again, "--break=unsteady")...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "replay violated by seed 7: another run of the seed has the trace ")
}

// A process that dies has not said what it has met. All that a run can do without is left out of it, but for the fault
// by which it dies.
func TestChaosFindsASmallerRunOfASeedThatDies(t *testing.T) {
	const fault = "26 refused for any reason"
	t.Setenv(crashEnv, fault)
	r := couchcore("chaos", "--seed", "7", "--seeds", "1", "--ops", "500")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "died violated by seed 7: the process ended: ")
	require.Contains(t, r.stdout, "panic: planted: "+fault)
	again, test := smallerRun(t, r.stdout)
	require.Subset(t, again, []string{"--seeds=1", "--ops=31", "--workers=1", "--nodes=1"})
	require.Contains(t, test, "func TestSeed7(t *testing.T) {\n\trun(t, sim.Options{Seed: 7, Ops: 31, ")

	without := leftOut(again)
	plan := sim.Plan(sim.Options{Seed: 7, Without: without})
	for _, part := range sim.Parts() {
		require.NotContains(t, plan, part+" true")
	}
	left := slices.DeleteFunc(sim.Faults(), func(name string) bool { return name == fault })
	require.Subset(t, without, left)
	require.NotContains(t, without, fault)
	r = couchcore(again...)
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "died violated by seed 7: ")
}

// smallerRun is what the command has printed of a smaller run: its arguments, and its Go test.
func smallerRun(t *testing.T, stdout string) (again []string, test string) {
	t.Helper()
	_, line, ok := strings.Cut(stdout, "\nsmaller: couchcore chaos --")
	require.True(t, ok, stdout)
	line, test, _ = strings.Cut(line, "\n")
	again = []string{"chaos", "--no-shrink"}
	for flag := range strings.SplitSeq(line, " --") {
		name, value, valued := strings.Cut(flag, " ")
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		if valued {
			name += "=" + value
		}
		again = append(again, "--"+name)
	}
	return again, test
}

// leftOut are the names that the arguments leave out.
func leftOut(args []string) (names []string) {
	for _, arg := range args {
		if name, ok := strings.CutPrefix(arg, "--without="); ok {
			names = append(names, name)
		}
	}
	return names
}
