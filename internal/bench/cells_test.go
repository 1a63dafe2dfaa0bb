package bench

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCellsAreSound(t *testing.T) {
	names := map[string]bool{}
	matrix := 0
	seen := map[string]bool{}
	for _, c := range allCells() {
		require.False(t, names[c.name()], "%s is there twice", c.name())
		names[c.name()] = true
		labels := map[string]bool{}
		for _, l := range c.all() {
			k, known := kindNamed(l.kind)
			require.True(t, known, "%s: %s", c.name(), l.kind)
			require.False(t, labels[l.label()], "%s: %s is there twice", c.name(), l.label())
			labels[l.label()] = true
			require.False(t, c.tls && k.name != kindPeer && k.name != kindOurs, "%s: %s speaks no TLS", c.name(),
				k.name)
		}
		if c.purpose != forMatrix {
			continue
		}
		matrix++
		seen[string(c.operation())] = true
		for axis, value := range map[string]any{
			"callers": c.callers, "nodes": max(c.nodes, 1), "hold": c.hold, "tls": c.tls, "contexts": c.fresh,
			"busy":  c.busy,
			"procs": c.procs, "rate": c.rate,
		} {
			seen[fmt.Sprintf("%s %v", axis, value)] = true
		}
	}
	require.GreaterOrEqual(t, matrix, leastCells)
	for _, want := range []string{
		"Get", "Upsert", "callers 1", "callers 16", "callers 128", "callers 1024", "nodes 1", "nodes 3", "nodes 20",
		"hold 0s", "hold 200\u00b5s",
		"hold 1ms", "tls true", "tls false", "contexts true", "contexts false", "busy 0", "busy 1", "busy 2",
		"procs 1", "procs 0", "procs 4",
		"rate 0", "rate 5000", "rate 20000", "rate 50000", "rate 100000",
	} {
		require.True(t, seen[want], want)
	}
	for name := range judgedCells() {
		require.True(t, names[name], "a row is judged by %s, which is no cell", name)
	}
}

// TestARunFitsItsTime adds up what the slices of a whole run take if no round is repeated.
func TestARunFitsItsTime(t *testing.T) {
	planned := func(args ...string) (total time.Duration) {
		s, err := parse(args, t.Output())
		require.NoError(t, err)
		judged := judgedCells()
		for _, c := range allCells() {
			rounds := s.plan.rounds
			if judged[c.name()] {
				rounds = s.plan.judged
			}
			const overhead = 15 * time.Millisecond
			total += time.Duration(rounds*len(c.all())) * (s.plan.length(&c)*6/5 + overhead)
			total += time.Duration(len(c.places())) * 100 * time.Millisecond
		}
		for _, p := range probeRuns(s.quick) {
			rounds := 1
			if p.timed {
				rounds = s.plan.rounds
			}
			total += time.Duration(rounds) * p.how.Time * 3 / 2
		}
		return total
	}
	whole := planned("--matrix", "--gate")
	t.Log(whole, planned("--quick"))
	require.Less(t, whole+repeatLimit, 24*time.Minute, "go test of the observed costs needs the last minute")
	require.Less(t, planned("--quick"), 2*time.Minute)
}
