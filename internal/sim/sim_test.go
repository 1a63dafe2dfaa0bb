package sim_test

import (
	"flag"
	"runtime"
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

// Runs of one seed are the same to the byte, whichever of the goroutines that are ready at one instant go first. The
// race detector makes the scheduler choose at random, so under it this test sees more.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as the chaos command runs them
	ops := 500
	if raceEnabled {
		ops = 300 // it takes ten times as long
	}
	for s := range uint64(8) {
		o := sim.Options{Seed: 100 + s, Ops: ops}
		first := sim.Run(t, o).Lines()
		require.Greater(t, len(first), 2*ops)
		for range 2 {
			requireSame(t, o.Seed, first, sim.Run(t, o).Lines())
		}
	}
	require.NotEqual(t, sim.Run(t, sim.Options{Seed: 1, Ops: 100}).Trace,
		sim.Run(t, sim.Options{Seed: 2, Ops: 100}).Trace)
}

// requireSame shows where two traces part.
func requireSame(t *testing.T, seed uint64, a, b []string) {
	t.Helper()
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	part := func(ls []string) []string { return ls[max(0, n-5):min(len(ls), n+5)] }
	require.Equal(t, part(a), part(b), "seed %d, line %d", seed, n)
	require.Len(t, b, len(a))
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
