package bench

import (
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made is a result of a cell with two lanes whose figures are ops per second.
func made(name string, clean int, a, b []float64) *cellResult {
	r := &cellResult{Name: name, Lanes: []string{"a", "b"}}
	for i := range a {
		one := func(v float64) slice { return slice{Ops: int64(v), Elapsed: time.Second} }
		r.Rounds = append(r.Rounds, []slice{one(a[i]), one(b[i])})
		r.Clean = append(r.Clean, i < clean)
	}
	return r
}

func repeated(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

func judgeOne(c *cellResult, must, goal limit) outcome {
	r := newResults()
	r.cells[c.Name] = c
	ck := check{name: "x", must: must, goal: goal, find: ratio(c.Name, "a", "b", mThroughput)}
	return ck.judge(r)
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		cell        *cellResult
		verdict     verdict
		provisional verdict
		goalMet     bool
	}{
		"met":             {made("c", 11, repeated(11, 600), repeated(11, 100)), met, met, false},
		"goal met":        {made("c", 11, repeated(11, 800), repeated(11, 100)), met, met, true},
		"not met":         {made("c", 11, repeated(11, 400), repeated(11, 100)), notMet, notMet, false},
		"exactly":         {made("c", 11, repeated(11, 500), repeated(11, 100)), met, met, false},
		"too few rounds":  {made("c", 10, repeated(10, 600), repeated(10, 100)), inconclusive, met, false},
		"not quiet":       {made("c", 10, repeated(16, 600), repeated(16, 100)), inconclusive, met, false},
		"quiet in time":   {made("c", 11, repeated(16, 600), repeated(16, 100)), met, met, false},
		"never quiet":     {made("c", 0, repeated(16, 400), repeated(16, 100)), inconclusive, notMet, false},
		"nothing divided": {made("c", 11, repeated(11, 600), repeated(11, 0)), inconclusive, inconclusive, false},
	} {
		o := judgeOne(c.cell, atLeast(5), atLeast(7))
		require.Equal(t, c.verdict, o.Verdict, name)
		require.Equal(t, c.provisional, o.Provisional, name)
		require.Equal(t, c.goalMet, o.GoalMet, name)
	}
}

// TestOnlyCleanRoundsCount has figures that would be met with the rounds in which others used the machine.
func TestOnlyCleanRoundsCount(t *testing.T) {
	a := append(repeated(11, 100), repeated(5, 9000)...)
	o := judgeOne(made("c", 11, a, repeated(16, 100)), atLeast(5), atLeast(7))
	require.Equal(t, notMet, o.Verdict)
	require.InDelta(t, 1, o.Value, 1e-9)
	require.Equal(t, 11, o.Rounds)
}

func TestFailedOperationsAreNoResult(t *testing.T) {
	c := made("c", 11, repeated(11, 900), repeated(11, 100))
	c.Error = "a: 3 operations failed"
	o := judgeOne(c, atLeast(5), atLeast(7))
	require.Equal(t, inconclusive, o.Verdict)
	require.Contains(t, o.Reason, "3 operations failed")
}

func TestWhatWasNotMeasuredIsNoPass(t *testing.T) {
	r := newResults()
	out := judged(r)
	require.Len(t, blocked(out), len(out))
	require.Error(t, gateError(out))
	for i := range out {
		out[i].Verdict = met
	}
	require.NoError(t, gateError(out))
}

func TestCountsNeedNoRounds(t *testing.T) {
	r := newResults()
	ck := check{must: atMost(2), goal: atMost(1), find: found("p", "n")}
	require.Equal(t, inconclusive, ck.judge(r).Verdict)
	r.probes["p"] = &probeResult{rounds: []map[string]float64{{"n": 2}}, clean: []bool{false}}
	o := ck.judge(r)
	require.Equal(t, met, o.Verdict)
	require.InDelta(t, 0.5, o.GoalNear, 1e-9)
	r.probes["p"].short = true
	require.Equal(t, inconclusive, ck.judge(r).Verdict, "a quick look is no verdict")
	r.probes["p"] = &probeResult{err: errors.New("no luck")}
	require.Equal(t, "no luck", ck.judge(r).Reason)
	r.probes["p"] = &probeResult{rounds: []map[string]float64{{"n": 2}}, clean: []bool{true}, timed: true}
	require.Equal(t, inconclusive, ck.judge(r).Verdict, "what is timed needs rounds")
}

func TestTheWorstCounts(t *testing.T) {
	r := newResults()
	r.cells["good"] = made("good", 11, repeated(11, 95), repeated(11, 100))
	r.cells["bad"] = made("bad", 11, repeated(11, 70), repeated(11, 100))
	finds := map[string]func(*results) figure{
		"good": ratio("good", "a", "b", mThroughput), "bad": ratio("bad", "a", "b", mThroughput),
	}
	ck := check{must: atLeast(0.8), goal: atLeast(0.9), find: worst(atLeast(0.8), finds)}
	o := ck.judge(r)
	require.Equal(t, notMet, o.Verdict)
	require.Equal(t, "the worst: bad", o.Reason)
	require.InDelta(t, 0.7, o.Value, 1e-9)

	delete(r.cells, "good")
	require.Equal(t, inconclusive, ck.judge(r).Verdict, "a part that is missing might be the worst")

	low := check{must: atMost(1.1), goal: atMost(1), find: worst(atMost(1.1), finds)}
	r.cells["good"] = made("good", 11, repeated(11, 95), repeated(11, 100))
	require.InDelta(t, 0.95, low.judge(r).Value, 1e-9, "where less is better the largest is the worst")
}

func TestNearness(t *testing.T) {
	require.InDelta(t, 0.5, atLeast(4).near(2), 1e-9)
	require.InDelta(t, 2, atLeast(4).near(8), 1e-9)
	require.InDelta(t, 0.5, atMost(4).near(8), 1e-9)
	require.InDelta(t, 1, atMost(0).near(0), 0)
	require.Zero(t, atMost(0).near(3))
	require.Equal(t, ">= 4", atLeast(4).String())
	require.Equal(t, "<= 0.150", atMost(0.15).String())
}

// TestEveryTargetIsMeasured finds checks that nothing feeds, and lanes that do not exist.
func TestEveryTargetIsMeasured(t *testing.T) {
	names := map[string]bool{}
	for _, c := range allChecks() {
		require.False(t, names[c.name], "%s is there twice", c.name)
		names[c.name] = true
		deps := dependencies(&c)
		require.NotEmpty(t, deps, c.name)
		r := newResults()
		for _, cl := range allCells() {
			res := &cellResult{Name: cl.name, Clean: []bool{true}, Rounds: make([][]slice, 1)}
			for _, l := range cl.lanes {
				res.Lanes = append(res.Lanes, l.label())
				res.Rounds[0] = append(res.Rounds[0], slice{Ops: 10, Elapsed: 1, CPU: 1000, P50: 1, P99: 1})
			}
			r.cells[cl.name] = res
		}
		if f := c.find(r); f.timed {
			require.NotEmpty(t, f.rounds, "%s: no such lane", c.name)
		}
		for _, d := range deps {
			for _, cl := range allCells() {
				require.True(t, cl.name != d || cl.gate, "%s is judged by %s, which has too few rounds", c.name, d)
			}
		}
	}
}

func TestOnlyTakesWhatATargetNeeds(t *testing.T) {
	cells, probes := needed(settings{only: regexp.MustCompile("^(linear-nodes|idle-goroutines)$")})
	for name, wanted := range cells {
		require.Equal(t, wanted, name == cellNodes, name)
	}
	for name, wanted := range probes {
		require.Equal(t, wanted, name == probeNameIdle || name == probeNameFewer, name)
	}
}

// TestTheMatrixIsWhole has every operation with every size, concurrency and number of nodes measured beside gocbcore and the client by hand.
func TestTheMatrixIsWhole(t *testing.T) {
	cells := map[string]cell{}
	for _, c := range allCells() {
		cells[c.name] = c
	}
	for _, nodes := range []int{1, 3, 20} {
		for _, size := range []int{16, 256, 4 << 10, 64 << 10} {
			for _, workers := range []int{1, 16, 128, 1024} {
				for _, op := range []operation{opGet, opUpsert} {
					name := cellPlain(op, size, workers, nodes)
					c, ok := cells[name]
					require.True(t, ok, name)
					require.Equal(t, []any{op, size, workers, nodes, modePlain}, []any{c.op, c.size, c.workers, c.nodes, c.mode}, name)
					for _, kind := range []string{kindPeer, kindOurs, kindBoundTaxed} {
						require.True(t, slices.ContainsFunc(c.lanes, func(l lane) bool { return l.kind == kind }), "%s: %s", name, kind)
					}
				}
			}
		}
	}
}

func TestCellsAreSound(t *testing.T) {
	names := map[string]bool{}
	for _, c := range allCells() {
		require.False(t, names[c.name], "%s is there twice", c.name)
		names[c.name] = true
		require.GreaterOrEqual(t, classOf(c.size), 0, c.name)
		labels := map[string]bool{}
		for _, l := range c.lanes {
			_, known := kindNamed(l.kind)
			require.True(t, known, "%s: %s", c.name, l.kind)
			require.False(t, labels[l.label()], "%s: %s is there twice", c.name, l.label())
			labels[l.label()] = true
		}
	}
}
