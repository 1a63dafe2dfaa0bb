package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

// init makes the test binary run a seed when the command under test has started it for that.
func init() {
	if os.Getenv(chaosEnv) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
}

func TestChaos(t *testing.T) {
	r := couchcore("chaos", "--json", "--seed", "7", "--seeds", "2", "--ops", "1000")
	require.Zero(t, r.code, r.stderr+r.stdout)
	got := r.object(t)
	require.EqualValues(t, 2, got["seeds"])
	require.Greater(t, got["ops"], 900.0)
	for _, none := range []string{"lost", "applied_twice", "violations", "goroutines_left"} {
		require.EqualValues(t, 0, got[none], none)
	}
	require.NotEmpty(t, got["faults_fired"])
	require.NotEmpty(t, got["reasons_fired"])

	r = couchcore("chaos", "--seed", "7", "--seeds", "1", "--ops", "500")
	require.Zero(t, r.code, r.stderr)
	require.Contains(t, r.stdout, "violations       0\nOK\n")
}

// The first five seeds are run again, or all of them, or none.
func TestChaosRunsSeedsAgain(t *testing.T) {
	for _, c := range []struct {
		args string
		want int
	}{
		{"--seeds 1", 1},
		{"--seeds 7", 5},
		{"--seeds 7 --replay", 7},
		{"--seeds 7 --no-replay", 0},
	} {
		r := couchcore(strings.Fields("chaos --json --ops 140 " + c.args)...)
		require.Zero(t, r.code, r.stderr+r.stdout)
		require.EqualValues(t, c.want, r.object(t)["replayed"], c.args)
	}
}

func TestChaosNamesTheSeed(t *testing.T) {
	r := couchcore("chaos", "--seed", "7", "--seeds", "1", "--ops", "1000", "--break", "leaked-socket", "--no-shrink")
	require.Equal(t, exitFailed, r.code)
	require.Contains(t, r.stderr, "P11 violated by seed 7")
	require.Contains(t, r.stdout, "again: couchcore chaos --seed 7 --seeds 1 --ops 1000")
}

// What the command prints, but for the numbers: those change with the client.
func TestChaosOutput(t *testing.T) {
	text := transcript(
		"chaos --seed 7 --seeds 1 --ops 300",
		"chaos --seed 7 --seeds 5 --ops 500",
		"chaos --seed 7 --seeds 1 --ops 300 --break leaked-socket --no-shrink",
		"chaos --seeds 0",
		"chaos --ops 3 --seeds 4",
	)
	for _, r := range []struct{ pattern, with string }{
		{`trace [0-9a-f]+`, "trace #"},
		{`in [0-9.]+ m?s\b`, "in #"},
		{`(?m)^([a-z ]+?)  +[0-9 ]+`, "$1  # "},
		{` +[0-9]+ of \d+ kinds`, " of # kinds"},
		{`of \d+ kinds`, "of # kinds"},
		{`[0-9 ]*[0-9] requests`, "# requests"},
		{`\d+\.\d+[^\d\s,]*s\b`, "#"},
		{` +\n`, "\n"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.with)
	}
	golden(t, "chaos", text)
}

func TestChaosRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{{"--seeds", "0"}, {"--ops", "3", "--seeds", "4"}, {"--break", "everything"}} {
		couchcore(append([]string{"chaos"}, args...)...).failsWith(t, exitUsage, "chaos")
	}
}

// A run that is interrupted says what the seeds have shown that had ended.
func TestChaosThatIsInterruptedSaysWhatItSaw(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be interrupted")
	}
	self, err := os.Executable()
	require.NoError(t, err)
	run := exec.CommandContext(t.Context(), self, "chaos", "--json", "--seeds", "2000", "--ops", "400000")
	run.Env = append(os.Environ(), chaosEnv+"=1")
	var out, errs bytes.Buffer
	run.Stdout, run.Stderr = &out, &errs
	require.NoError(t, run.Start())
	time.Sleep(2 * time.Second)
	require.NoError(t, run.Process.Signal(os.Interrupt))
	var ended *exec.ExitError
	require.ErrorAs(t, run.Wait(), &ended)
	require.Equal(t, exitFailed, ended.ExitCode(), errs.String())
	require.Contains(t, errs.String(), "chaos: interrupted")
	var totals sim.Totals
	require.NoError(t, json.Unmarshal(out.Bytes(), &totals), out.String())
	require.Less(t, totals.Seeds, 2000)
	require.Zero(t, totals.Violations)
}
