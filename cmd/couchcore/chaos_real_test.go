package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/chaos"
)

// Both forms of the command that use real sockets start this binary again for their processes.
func TestChaosOnSockets(t *testing.T) {
	if err := chaos.Supported(); err != nil {
		t.Skip(err)
	}
	if testing.Short() {
		t.Skip("starts processes and takes seconds")
	}
	r := couchcore("chaos", "--real", "--duration", "1s", "--seed", "3", "--json")
	require.Zero(t, r.code, r.stderr+r.stdout)
	got := r.object(t)
	require.EqualValues(t, 1, got["rounds"])
	require.Greater(t, got["mutations"], 50.0)
	for _, none := range []string{
		"lost", "applied_twice", "ended_not_once", "past_deadline", "goroutines_left", "descriptors_left", "violations",
	} {
		require.EqualValues(t, 0, got[none], none)
	}
	require.NotEmpty(t, got["faults_fired"])

	r = couchcore("chaos", "--real", "--duration", "1s", "--plant", "lost")
	require.Equal(t, exitFailed, r.code, r.stderr+r.stdout)
	require.Contains(t, r.stderr, "P3 violated")
	require.Contains(t, r.stdout, "P3 violated in round 0 (load)")

	r = couchcore("chaos", "--soak", "--duration", "5s", "--plant", "goroutine")
	require.Equal(t, exitFailed, r.code, r.stderr+r.stdout)
	require.Contains(t, r.stderr, "the soak has failed")
	require.Regexp(t, `goroutines, growth +[\d.]+ , limit 2.00 +TOO MUCH`, r.stdout)
}

func TestChaosOnSocketsRefusesNonsense(t *testing.T) {
	for _, args := range [][]string{
		{"--real", "--soak"}, {"--real", "--duration", "-1s"}, {"--soak", "--plant", "everything"},
	} {
		couchcore(append([]string{"chaos"}, args...)...).failsWith(t, exitUsage, "chaos")
	}
}
