package bench

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func repeated(n int, v float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = v
	}
	return out
}

// steady is a sample of clean rounds, five if one figure says all.
func steady(figures ...float64) sample {
	if len(figures) == 1 {
		figures = repeated(leastRounds, figures[0])
	}
	return sample{rounds: figures, clean: len(figures), total: len(figures), timed: true}
}

// unsteady has some rounds more that were not clean.
func unsteady(more int, figure float64) sample {
	s := steady(figure)
	s.total += more
	return s
}

func TestJudge(t *testing.T) {
	apart := []float64{4.4, 4.6, 5.1, 5.6, 5.8}
	for name, c := range map[string]struct {
		must    limit
		s       sample
		verdict verdict
		value   float64
	}{
		"met":                      {atLeast(5), steady(6), met, 6},
		"not met":                  {atLeast(5), steady(4), notMet, 4},
		"exactly":                  {atLeast(5), steady(5), met, 5},
		"at most":                  {atMost(1), steady(0.5), met, 0.5},
		"above":                    {atMost(1), steady(1.2), notMet, 1.2},
		"near, quiet":              {atLeast(5), steady(4.9), notMet, 4.9},
		"near, rounds disagree":    {atLeast(5), steady(apart...), inconclusive, 5.1},
		"near, others were there":  {atLeast(5), unsteady(2, 5.1), inconclusive, 5.1},
		"far, others were there":   {atLeast(5), unsteady(3, 9), met, 9},
		"far below, a noisy one":   {atLeast(9), steady(apart...), notMet, 5.1},
		"too few clean rounds":     {atLeast(5), steady(9, 9, 9, 9), inconclusive, 9},
		"a count needs no rounds":  {atMost(0), sample{rounds: []float64{0}}, met, 0},
		"a count that is too much": {atMost(0), sample{rounds: []float64{1}}, notMet, 1},
		"a quick look":             {atMost(2), sample{rounds: []float64{1}, short: true}, inconclusive, 1},
		"in doubt":                 {atMost(0), sample{rounds: []float64{0}, unsure: "cells"}, inconclusive, 0},
		"failed":                   {atMost(2), sample{rounds: []float64{1}, err: errSASLPlainOnly}, inconclusive, 0},
		"not measured":             {atMost(2), sample{}, inconclusive, 0},
		"no number":                {atMost(2), sample{rounds: []float64{math.NaN()}}, inconclusive, 0},
	} {
		j := judge(c.must, &c.s)
		require.Equal(t, c.verdict, j.Verdict, name)
		require.InDelta(t, c.value, j.Value, 1e-9, name)
		require.Equal(t, c.verdict == inconclusive, j.Reason != "", name)
	}
}

func TestMargins(t *testing.T) {
	require.InDelta(t, 0.2, atLeast(5).margin(6), 1e-9)
	require.InDelta(t, -0.2, atLeast(5).margin(4), 1e-9)
	require.InDelta(t, 0.5, atMost(2).margin(1), 1e-9)
	require.InDelta(t, -1, atMost(0).margin(1), 1e-9)
	require.Equal(t, ">= 4", atLeast(4).String())
	require.Equal(t, "<= 0.150", atMost(0.15).String())
}

func TestTheWorstCellCounts(t *testing.T) {
	good := sample{rounds: repeated(5, 9), where: "good", timed: true}
	bad := sample{rounds: repeated(5, 6), where: "bad", timed: true}
	require.Equal(t, "bad", worstOf(atLeast(5), []sample{good, bad}).where)
	require.Equal(t, "good", worstOf(atMost(5), []sample{good, bad}).where,
		"where less is better the largest is the worst")
	require.EqualError(t, worstOf(atLeast(5), []sample{good, {where: "c"}}).err, "not measured: c")
	require.EqualError(t, worstOf(atLeast(5), []sample{{err: errSASLPlainOnly}, good}).err, errSASLPlainOnly.Error())
	require.Equal(t, "good", worstOf(atLeast(5), []sample{{err: errNotCarried}, good}).where)
	require.Empty(t, worstOf(atLeast(5), []sample{{err: errNotCarried}}).rounds)
}

// made is a cell's result in which gocbcore does 1,000 operations a second, of 10 us each in every respect.
func made(c cell, rounds int, ours slice) *cellResult {
	r := &cellResult{Name: c.name(), Lanes: []string{kindPeer, kindOurs}}
	for range rounds {
		theirs := slice{
			Ops: 1000, Elapsed: time.Second, CPU: 10 * time.Millisecond, P50: 10, P99: 10, P999: 10,
			Ticker: 10, Echo: 10,
		}
		r.Rounds, r.Clean = append(r.Rounds, []slice{theirs, ours}), append(r.Clean, true)
	}
	return r
}

// ran is a slice of a second: operations, milliseconds of CPU, latencies in microseconds.
func ran(ops, cpu int64, p50, p99, p999 float64) slice {
	took := time.Duration(cpu) * time.Millisecond
	return slice{Ops: ops, Elapsed: time.Second, CPU: took, P50: p50, P99: p99, P999: p999}
}

func TestCellsAreJudged(t *testing.T) {
	closed, open, crowded := cell{callers: 16}, cell{callers: 1024, rate: 1000}, cell{callers: 16, busy: 2}
	for name, c := range map[string]struct {
		cell    cell
		rounds  int
		ours    slice
		verdict verdict
		worse   []string
		tail    bool
	}{
		"better":         {closed, 5, ran(5000, 9, 2, 3, 4), met, nil, false},
		"a tenth worse":  {closed, 5, ran(950, 10, 10.9, 10.9, 10), met, nil, false},
		"slower":         {closed, 5, ran(800, 4, 9, 9, 9), notMet, []string{"throughput"}, false},
		"costlier":       {closed, 5, ran(1000, 12, 9, 9, 9), notMet, []string{"CPU"}, false},
		"later":          {closed, 5, ran(2000, 9, 12, 30, 4), notMet, []string{"p50", "p99"}, false},
		"its tail alone": {closed, 5, ran(2000, 9, 5, 5, 50), met, nil, true},
		"busy":           {crowded, 5, ran(1000, 2000, 5, 5, 5), met, nil, false},
		"open":           {open, 5, ran(960, 5, 5, 5, 5), met, nil, false},
		"not carried":    {open, 5, ran(700, 5, 5, 5, 5), notMet, []string{"the rate is not carried"}, false},
		"two rounds":     {closed, 2, ran(100, 50, 50, 50, 50), inconclusive, nil, false},
	} {
		v := judgeCell(&c.cell, made(c.cell, c.rounds, c.ours))
		require.Equal(t, c.verdict, v.Verdict, name)
		require.Equal(t, c.worse, v.Worse, name)
		require.Equal(t, c.tail, v.Tail, name)
	}
	failed := made(closed, 5, ran(5000, 1, 1, 1, 1))
	failed.Error = "couchcore: 3 operations failed"
	require.Equal(t, cellVerdict{Verdict: inconclusive, Reason: failed.Error}, judgeCell(&closed, failed))
	open.rate = 5000
	v := judgeCell(&open, made(open, 5, ran(5000, 1000, 500, 500, 500)))
	require.Equal(t, met, v.Verdict, "gocbcore does not carry it")
}

// all is a result in which every cell has been measured and everything is as good as these say.
func all(rounds int, ours slice) *results {
	r := &results{cells: map[string]*cellResult{}, probes: map[string]*probeResult{}}
	for _, c := range allCells() {
		res := made(c, rounds, ours)
		theirs := res.Rounds[0][0]
		res.Lanes = nil
		for _, l := range c.all() {
			res.Lanes = append(res.Lanes, l.label())
		}
		for i := range res.Rounds {
			res.Rounds[i] = nil
			for _, l := range res.Lanes {
				s := theirs
				if l == kindOurs || l == kindBulk {
					s = ours
				}
				res.Rounds[i] = append(res.Rounds[i], s)
			}
		}
		r.cells[c.name()] = res
	}
	return r
}

func TestRows(t *testing.T) {
	good := slice{Ops: 50_000, Elapsed: time.Second, CPU: time.Millisecond, P50: 1, P99: 1, P999: 1, Ticker: 1, Echo: 1}
	r := all(5, good)
	rows := map[string]outcome{}
	for _, o := range judgeRows(r) {
		_, twice := rows[o.Name]
		require.False(t, twice, o.Name)
		rows[o.Name] = o
	}
	require.Equal(t, met, rows["cells"].Verdict)
	require.True(t, rows["cells"].GoalMet)
	require.InDelta(t, 50, rows["plain-128"].Value, 1e-9)
	require.Equal(t, met, rows["host-ticker"].Verdict)
	require.Equal(t, "not measured", rows["idle"].Reason)
	require.ErrorIs(t, gateError(judgeRows(r)), ErrInconclusive)

	bad := cell{callers: 16, procs: 4}
	r.cells[bad.name()] = made(bad, 5, slice{Ops: 500, Elapsed: time.Second})
	tail := good
	tail.P999 = 20
	other := cell{callers: 16, procs: 1}
	r.cells[other.name()] = made(other, 5, tail)
	for _, o := range judgeRows(r) {
		if o.Name == "cells" {
			require.Equal(t, notMet, o.Verdict)
			require.InDelta(t, 1, o.Value, 1e-9)
			require.False(t, o.GoalMet)
		}
	}
	require.ErrorIs(t, gateError(judgeRows(r)), ErrNotMet)
	require.NoError(t, gateError([]outcome{{judged: judged{Verdict: met}}}))

	r.cells[bad.name()].Error = "no luck"
	delete(r.cells, other.name())
	for _, o := range judgeRows(r) {
		if o.Name == "cells" {
			require.Contains(t, o.Reason, "2 of 94 cells are inconclusive")
		}
	}
}

// TestEveryRowIsFed finds rows whose cells or lanes do not exist.
func TestEveryRowIsFed(t *testing.T) {
	r := all(5, slice{
		Ops: 60_000, Elapsed: time.Second, CPU: time.Millisecond, Mallocs: 1, P50: 1, P99: 1, P999: 1,
		Ticker: 1, Echo: 1,
	})
	probes := map[string]bool{probeNameMicro: true}
	for _, p := range probeRuns(false) {
		probes[p.name] = true
	}
	for _, w := range allRows() {
		if w.probe != "" {
			require.True(t, probes[w.probe], w.name)
			continue
		}
		if w.name == "goroutines" || w.name == "open-p99" { // the latter is below
			continue
		}
		s := w.sample(r)
		require.NoError(t, s.err, w.name)
		require.NotEmpty(t, s.rounds, w.name)
	}
	for _, c := range openCells() {
		res := made(c, 5, slice{Ops: int64(c.rate), Elapsed: time.Second, P99: 4})
		_, err := openTail(&c, res)
		require.ErrorIs(t, err, errNotCarried, c.name())
		for i := range res.Rounds {
			res.Rounds[i][0].Ops = int64(c.rate)
		}
		ratios, err := openTail(&c, res)
		require.NoError(t, err)
		require.InDelta(t, 0.4, median(ratios), 1e-9)
	}
	r.probes[probeNameIdle] = &probeResult{
		rounds: []map[string]float64{{"goroutines": 104, "connections": 100}},
		clean:  []bool{true},
	}
	r.probes[probeNameFewer] = &probeResult{
		rounds: []map[string]float64{{"goroutines": 24, "connections": 20}},
		clean:  []bool{true},
	}
	require.Equal(t, []float64{1}, goroutines(r).rounds)
}
