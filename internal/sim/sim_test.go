package sim_test

import (
	"flag"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/internal/sim"
)

var seed = flag.Uint64("sim.seed", 0, "run this seed alone")

// TestSim is a small share of the simulation; the chaos command runs more.
func TestSim(t *testing.T) {
	if *seed != 0 {
		t.Log(run(t, sim.Options{Seed: *seed}))
		return
	}
	for s := range uint64(6) {
		run(t, sim.Options{Seed: s + 1, Ops: 1500})
	}
}

// run runs a seed that must hold.
func run(t *testing.T, o sim.Options) *sim.Report {
	t.Helper()
	r := sim.Run(t, o)
	for _, v := range r.Violations {
		t.Error(v)
	}
	return r
}

// Runs of one seed are the same to the byte. The system may take the processor away in the middle of an instant, and
// then what is ready there changes places: so it is a trace that comes twice that is asked for.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector makes the scheduler throw dice")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as the chaos command runs them
	for s := range uint64(4) {
		o := sim.Options{Seed: 100 + s, Ops: 800}
		first := sim.Run(t, o).Lines()
		require.Greater(t, len(first), 1500)
		same := false
		for seen := [][]string{first}; !same && len(seen) < 5; {
			next := sim.Run(t, o).Lines()
			for _, old := range seen {
				same = same || slices.Equal(old, next)
			}
			seen = append(seen, next)
		}
		require.True(t, same, "seed %d: five runs have given five traces", o.Seed)
	}
	require.NotEqual(t, sim.Run(t, sim.Options{Seed: 1, Ops: 100}).Trace, sim.Run(t, sim.Options{Seed: 2, Ops: 100}).Trace)
}

// A property that has never failed is not to be trusted.
func TestEveryPlantedDefectIsNoticed(t *testing.T) {
	for defect, property := range sim.Defects() {
		t.Run(string(defect), func(t *testing.T) {
			noticed := map[string]bool{}
			for s := range uint64(6) {
				for _, v := range sim.Run(t, sim.Options{Seed: 1 + s, Ops: 900, Break: defect}).Violations {
					noticed[v.Property] = true
				}
				if noticed[property] {
					return
				}
			}
			t.Errorf("not noticed by %s, but %v", property, noticed)
		})
	}
}
