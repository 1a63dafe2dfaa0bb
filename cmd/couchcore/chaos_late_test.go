package main

import (
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// deafEnv makes the process of a seed one that ends only when it is killed.
const deafEnv = "COUCHCORE_CHAOS_DEAF"

// init runs before that of chaos_test.go: files are initialized in the order of their names.
func init() {
	if os.Getenv(deafEnv) != "" && os.Getenv(chaosEnv) != "" {
		signal.Ignore(syscall.SIGQUIT)
		time.Sleep(time.Minute)
		os.Exit(exitOK)
	}
}

// A seed that is out of time says so in words, with how far it came, what runs it again, and where its stacks are.
func TestChaosSaysThatASeedIsOutOfTime(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be asked for its stacks")
	}
	t.Setenv("TMPDIR", t.TempDir())
	r := couchcore("chaos", "--seeds", "1", "--ops", "1000000", "--limit", "8s")
	require.Equal(t, exitFailed, r.code, r.stderr)
	said := regexp.MustCompile(`late violated by seed 1: the seed did not end within its limit of 8s of real time: ` +
		`[1-9]\d* calls had begun, the last one \S+s into the run; all stacks of its goroutines are in (\S+)\n`).
		FindStringSubmatch(r.stdout)
	require.Len(t, said, 2, r.stdout)
	require.Contains(t, r.stdout, "\n  again: couchcore chaos --seed 1 --seeds 1 --ops 1000000\n")
	require.Contains(t, r.stderr, "the seed did not end within its limit of 8s")
	require.NotContains(t, r.stdout, "smaller:")
	stacks, err := os.ReadFile(said[1])
	require.NoError(t, err)
	require.Regexp(t, `^goroutine \d+ .*synctest bubble`, string(stacks), "those of the run are first")
	require.Contains(t, string(stacks), "sim.(*world).work(")
	require.NotContains(t, r.stdout, "killed")
}

// One whose process does not say it in time is killed.
func TestChaosEndsASeedThatSaysNothing(t *testing.T) {
	t.Setenv(deafEnv, "1")
	began := time.Now()
	r := couchcore("chaos", "--seeds", "1", "--ops", "500", "--limit", "100ms")
	require.Equal(t, exitFailed, r.code, r.stderr)
	require.Contains(t, r.stdout, "late violated by seed 1: the seed did not end within its limit of 100ms of real "+
		"time: its process did not say within 5s how far it was\n")
	require.Contains(t, r.stdout, "\n  again: couchcore chaos --seed 1 --seeds 1 --ops 500\n")
	require.Less(t, time.Since(began), 40*time.Second)
}
