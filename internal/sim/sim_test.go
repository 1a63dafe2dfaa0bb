package sim_test

import (
	"flag"
	"runtime"
	"strings"
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
	for s := range uint64(8) {
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

// Runs of one seed are the same to the nanosecond, but for the few in which the client itself does two things at one
// instant.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // as the chaos command runs them
	const seeds = 6
	same := 0
	for s := range uint64(seeds) {
		o := sim.Options{Seed: 100 + s, Ops: 800}
		a, b := sim.Run(t, o), sim.Run(t, o)
		if a.Trace == b.Trace {
			same++
			continue
		}
		x, y := a.Lines(), b.Lines()
		for i := range min(len(x), len(y)) {
			if x[i] != y[i] {
				t.Logf("seed %d (%s) at line %d of %d:\n  %s\n\n  %s", o.Seed, a.Plan, i, len(x), excerpt(x, i), excerpt(y, i))
				break
			}
		}
	}
	require.GreaterOrEqual(t, same, seeds/2)
	require.NotEqual(t, sim.Run(t, sim.Options{Seed: 1, Ops: 100}).Trace, sim.Run(t, sim.Options{Seed: 2, Ops: 100}).Trace)
}

// excerpt are the lines around line i.
func excerpt(lines []string, i int) string {
	return strings.Join(lines[max(0, i-10):min(len(lines), i+3)], "\n  ")
}

// A property that has never failed is not to be trusted.
func TestEveryPlantedDefectIsNoticed(t *testing.T) {
	for defect, property := range sim.Defects() {
		t.Run(string(defect), func(t *testing.T) {
			noticed := map[string]bool{}
			for s := range uint64(6) {
				for _, v := range sim.Run(t, sim.Options{Seed: 1 + s, Ops: 1500, Break: defect}).Violations {
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
