package sim_test

import (
	"flag"
	"os"
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

// In these runs the judges were wrong about a client that was right: an expired certificate is good by a clock that is
// off as far, an answer that says when to come back may be lost with its connection, and a client whose map has no
// vbuckets yet may use another one without.
func TestTheJudgesAreFair(t *testing.T) {
	r := run(t, sim.Options{Seed: 100433, Ops: 39, Workers: 1, Nodes: 1, Without: []string{
		"private", "26 refused for any reason", "breaker", "topology", "clear", "chooses",
		"44a login refused from the start",
	}})
	require.NotZero(t, r.FaultsFired["47e certificate of the future"])
	run(t, sim.Options{Seed: 100716, Ops: 39, Workers: 1, Nodes: 1, Without: []string{
		"private", "26 refused for any reason", "asks", "names", "single", "4 closed at SASL_STEP",
		"7 half-open", "1 connection refused", "39 pushed: the map of another bucket", "clear", "chooses",
		"44a login refused from the start",
	}})
	if !raceEnabled {
		run(t, sim.Options{Seed: 102879, Ops: 5000, Without: []string{
			"private", "26 refused for any reason", "clear", "chooses", "44a login refused from the start",
		}})
	}
}

// A run of a few calls is judged as a long one is. The faults of these runs are over before the nodes have given all of
// their maps without vbuckets, before the client has a map with some, or at once.
func TestShortRunsAreJudgedAsLongOnes(t *testing.T) {
	for _, o := range []sim.Options{
		{Seed: 3, Ops: 10}, {Seed: 115, Ops: 10}, {Seed: 58, Ops: 10}, {Seed: 73, Ops: 30}, {Seed: 4067, Ops: 50},
	} {
		require.Contains(t, run(t, o).Plan, "calm true")
	}
}

// What a run is to be without is not met in it.
func TestARunCanDoWithoutMapsThatAreEmptyAtFirst(t *testing.T) {
	const name = "42 the first maps have no vbuckets"
	require.NotZero(t, run(t, sim.Options{Seed: 73, Ops: 100}).FaultsFired[name])
	require.Zero(t, run(t, sim.Options{Seed: 73, Ops: 100, Without: []string{name}}).FaultsFired[name])
}

// Ten runs of one seed are the same to the byte, whichever of the goroutines that are ready at one instant go first, on
// one processor as the chaos command runs them and on two. The race detector makes the scheduler choose at random, so
// under it this test sees more. What cryptography draws at random is not in the trace, but it is on the wire: it must
// have the same length each time.
func TestTheSameSeedGivesTheSameTrace(t *testing.T) {
	ops, seeds := 300, uint64(8)
	if raceEnabled {
		ops, seeds = 200, 6 // it takes ten times as long
	}
	if testing.Short() {
		seeds = 3
	}
	encrypted := 0
	for s := range seeds {
		if plan := tenTimes(t, sim.Options{Seed: 100 + s, Ops: ops}); strings.Contains(plan, "tls true") {
			encrypted++
		}
	}
	require.NotZero(t, encrypted, "none of the seeds has TLS")
	require.NotEqual(t, sim.Run(t, sim.Options{Seed: 1, Ops: 100}).Trace,
		sim.Run(t, sim.Options{Seed: 2, Ops: 100}).Trace)
}

// With small limits it must not depend on the scheduler which call finds a place. In the first of these seeds more
// calls fail at one instant than may wait for their retry; in the second one, scans meet full connections.
func TestTheSameSeedGivesTheSameTraceWithSmallLimits(t *testing.T) {
	for _, o := range []sim.Options{{Seed: 100_030, Ops: 300}, {Seed: 100_023, Ops: 600}} {
		require.Contains(t, tenTimes(t, o), "tight true")
		if testing.Short() {
			return
		}
	}
}

// tenTimes runs a seed ten times, in turn on one processor and on two, and gives its plan. The chaos command prints
// tests that call it.
func tenTimes(t *testing.T, o sim.Options) (plan string) {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	r := sim.Run(t, o)
	first := r.Lines()
	require.Greater(t, len(first), 2*o.Ops)
	for n := 1; n < 10; n++ {
		runtime.GOMAXPROCS(1 + n%2)
		requireSame(t, o.Seed, first, sim.Run(t, o).Lines())
	}
	return r.Plan
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

// A history that is not linearizable is drawn.
func TestAHistoryIsDrawn(t *testing.T) {
	for s := range uint64(6) {
		r := sim.Run(t, sim.Options{Seed: 1 + s, Ops: 900, Break: sim.StaleRead, Drawings: t.TempDir()})
		for _, v := range r.Violations {
			if _, path, ok := strings.Cut(v.What, "it is drawn in "); ok {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				require.Contains(t, string(text), "</html>")
				require.Contains(t, string(text), "upsert v-")
				return
			}
		}
	}
	t.Error("none was drawn")
}

// A property that has never failed is not to be trusted.
func TestEveryPlantedDefectIsNoticed(t *testing.T) {
	for defect, property := range sim.Defects() {
		t.Run(string(defect), func(t *testing.T) {
			noticed := map[string]bool{}
			for s := range uint64(6) {
				o := sim.Options{Seed: 1 + s, Ops: 900, Break: defect}
				r := sim.Run(t, o)
				for _, v := range r.Violations {
					noticed[v.Property] = true
				}
				if property == sim.Replay && sim.Run(t, o).Trace != r.Trace {
					noticed[property] = true
				}
				if noticed[property] {
					return
				}
			}
			t.Errorf("not noticed by %s, but %v", property, noticed)
		})
	}
}
