package bench

import (
	"fmt"
	"slices"
	"time"
)

// leastCells is how many cells of the matrix have to be compared.
const leastCells = 60

// inFlightLimit is the client's default: calls in flight on one connection.
const inFlightLimit = 32768

// results is all that was measured.
type results struct {
	cells  map[string]*cellResult
	probes map[string]*probeResult
}

// row is one target. Its figure is that of the worst of its cells, or what a probe has found.
type row struct {
	name, what, unit string
	must, goal       limit
	cells            []cell
	figure           func(c *cell, r *cellResult) ([]float64, error) // one per clean round
	probe, field     string
	find             func(r *results) sample // instead of these
}

// sample is what there is to judge.
func (w *row) sample(r *results) sample {
	switch {
	case w.find != nil:
		return w.find(r)
	case w.probe != "":
		return r.probes[w.probe].sample(w.field)
	}
	var all []sample
	for i := range w.cells {
		c := &w.cells[i]
		s := sample{timed: true, where: c.name()}
		if res := r.cells[c.name()]; res != nil {
			s.clean, s.total = res.clean(), len(res.Rounds)
			if s.rounds, s.err = w.figure(c, res); res.Error != "" {
				s.err = fmt.Errorf("%s: %s", c.name(), res.Error)
			}
		}
		all = append(all, s)
	}
	return worstOf(w.must, all)
}

// gets and both are cells of a family with these callers.
func gets(like cell, callers ...int) (out []cell) {
	for _, n := range callers {
		out = append(out, member(like, opGet, n))
	}
	return out
}

func both(like cell, callers ...int) []cell {
	out := gets(like, callers...)
	for _, n := range callers {
		out = append(out, member(like, opUpsert, n))
	}
	return out
}

// ratio pairs a figure of two lanes.
func ratio(a, b string, m metric) func(*cell, *cellResult) ([]float64, error) {
	return func(_ *cell, r *cellResult) ([]float64, error) { return paired(r.series(a, m), r.series(b, m)), nil }
}

// allRows is the table of targets, in the order of the document that sets them.
func allRows() []row {
	secure, three := cell{tls: true}, cell{nodes: 3}
	out := []row{{
		name: "cells", what: "cells of the matrix in which throughput, p50, p99 or CPU per operation is more than " +
			"10 % worse than gocbcore's",
		must: atMost(0), goal: atMost(0), find: worseCells,
	}}
	times := ratio(kindOurs, kindPeer, mThroughput)
	for _, w := range []row{
		{name: "plain-128", what: "128 callers", must: atLeast(5), goal: atLeast(7), cells: both(cell{}, 128)},
		{name: "tls-128", what: "128 callers, TLS", must: atLeast(6), goal: atLeast(9), cells: both(secure, 128)},
		{name: "plain-1024", what: "1,024 callers", must: atLeast(7), goal: atLeast(11), cells: both(cell{}, 1024)},
		{name: "tls-1024", what: "1,024 callers, TLS", must: atLeast(8), goal: atLeast(11), cells: both(secure, 1024)},
		{name: "plain-16", what: "16 callers", must: atLeast(1.6), goal: atLeast(2.5), cells: both(cell{}, 16)},
		{name: "tls-16", what: "16 callers, TLS", must: atLeast(2.5), goal: atLeast(3.5), cells: both(secure, 16)},
		{name: "nodes-3", what: "128 callers, 3 nodes", must: atLeast(4), goal: atLeast(6), cells: both(three, 128)},
	} {
		w.what = "throughput over gocbcore, the worse of Get and Upsert, " + w.what
		w.unit, w.figure = "x", times
		out = append(out, w)
	}
	out = append(out, comparedRows()...)
	out = append(out, hostRows()...)
	return append(out, countedRows()...)
}

// comparedRows are those over something else than gocbcore's throughput.
func comparedRows() []row {
	held := append(gets(cell{hold: shortHold}, 16), gets(cell{hold: longHold}, 16)...)
	for _, hold := range []time.Duration{shortHold, longHold} {
		for _, n := range heldCallers {
			held = append(held, heldCell(hold, n))
		}
	}
	return []row{
		{
			name: "rtt-cpu", what: "round trip 1 ms, 16 callers: CPU per operation over the hand-written bound's",
			unit: "x", must: atMost(1.3), goal: atMost(1.1),
			cells: gets(cell{hold: longHold}, 16), figure: ratio(kindOurs, kindBound, mCPU),
		},
		{
			name: "rtt-p50", what: "round trip 0.2 and 1 ms: p50 over the round trip, 2 to 16 callers",
			unit: "x", must: atMost(1.15), goal: atMost(1.05),
			cells: held, figure: ratio(kindOurs, laneRTT, mP50),
		},
		{
			name: "contexts", what: "fresh deadline context per call, 128 callers, over the same client without",
			unit: "x", must: atLeast(0.75), goal: atLeast(0.9),
			cells: gets(cell{fresh: true}, 128), figure: ratio(kindOurs, laneWithout, mThroughput),
		},
		{
			name: "bound", what: "share of the hand-written bound, worst of Get and Upsert with 16, 128, 1,024 callers",
			unit: "x", must: atLeast(0.8), goal: atLeast(1),
			cells: both(cell{}, 16, 128, 1024), figure: ratio(kindOurs, kindBound, mThroughput),
		},
		{
			name: "open-p99", what: "open loop, every rate that both carry: p99 over gocbcore's",
			unit: "x", must: atMost(1), goal: atMost(0.5),
			cells: openCells(), figure: openTail,
		},
		{
			name: "bulk", what: "bulk get, keys per second over gocbcore's single gets, 128 callers",
			unit: "x", must: atLeast(15), goal: atLeast(25),
			cells: gets(cell{}, 128), figure: ratio(kindBulk, kindPeer, mThroughput),
		},
		{
			name: "moved-cpu", what: "duplicate NOT_MY_VBUCKET, CPU",
			unit: "us", must: atMost(5), goal: atMost(2),
			cells: []cell{movedCell()}, figure: moved(mCPU),
		},
		{
			name: "moved-allocs", what: "duplicate NOT_MY_VBUCKET, allocations",
			must: atMost(2), goal: atMost(1),
			cells: []cell{movedCell()}, figure: moved(mAllocs),
		},
		{
			name: "query", what: "rows of a query, CPU over gocbcore's reader",
			unit: "x", must: atMost(0.33), goal: atMost(0.25),
			cells: []cell{queryCell()}, figure: ratio(kindOurs, kindPeer, mCPU),
		},
	}
}

func openCells() []cell {
	var out []cell
	for _, c := range allCells() {
		if c.purpose == forMatrix && c.rate > 0 {
			out = append(out, c)
		}
	}
	return out
}

func openTail(c *cell, r *cellResult) ([]float64, error) {
	if !carries(r, kindOurs, c.rate) || !carries(r, kindPeer, c.rate) {
		return nil, errNotCarried
	}
	return ratio(kindOurs, kindPeer, mP99)(c, r)
}

// moved is what one such answer costs beyond the two requests that it takes.
func moved(m metric) func(*cell, *cellResult) ([]float64, error) {
	return func(_ *cell, r *cellResult) ([]float64, error) {
		return minus(r.series(kindOurs, m), times(r.series(laneCleartext, m), 2)), nil
	}
}

// hostRows are the host application's. A client that does less work than gocbcore has no figure.
func hostRows() []row {
	late := func(m metric) func(*cell, *cellResult) ([]float64, error) {
		return func(c *cell, r *cellResult) ([]float64, error) {
			if median(paired(r.series(kindOurs, mThroughput), r.series(kindPeer, mThroughput))) < 0.9 {
				return nil, fmt.Errorf("%s: couchcore carries less of the load than gocbcore", c.name())
			}
			return ratio(kindOurs, kindPeer, m)(c, r)
		}
	}
	return []row{
		{
			name: "host-ticker", what: "host application: p99 lateness of a 1 ms ticker, over the same beside gocbcore",
			unit: "x", must: atMost(1), goal: atMost(0.7),
			cells: hostCells(), figure: late(mTicker),
		},
		{
			name: "host-echo", what: "host application: p99 of an echo pair, over the same beside gocbcore",
			unit: "x", must: atMost(1), goal: atMost(0.7),
			cells: hostCells(), figure: late(mEcho),
		},
	}
}

// countedRows are what probes find.
func countedRows() []row {
	found := func(name, what, unit string, must, goal limit, probe, field string) row {
		return row{name: name, what: what, unit: unit, must: must, goal: goal, probe: probe, field: field}
	}
	const allocs, flight, idle = probeNameAllocs, probeNameFlight, probeNameIdle
	const micro, load = probeNameMicro, probeNameLoad
	const twice = "twice the capacity offered: "
	none, mostWaiting := atMost(0), atMost(1.25*inFlightLimit)
	return []row{
		found("allocs-get", "allocations per Get", "", atMost(1), atMost(1), allocs, "get"),
		found("allocs-into", "allocations per Get into a buffer", "", none, none, allocs, "get_into"),
		found("allocs-upsert", "allocations per Upsert", "", none, none, allocs, "upsert"),
		found("flight", "memory of a call in flight", "B", atMost(768), atMost(384), flight, "bytes"),
		found("idle", "memory of an idle connection", "B", atMost(64<<10), atMost(37<<10), idle, "bytes"),
		{name: "goroutines", what: "goroutines per connection", must: atMost(2), goal: atMost(1), find: goroutines},
		found("off", "tracing and metrics off", "ns", atMost(20), atMost(10), micro, "off_ns"),
		found("off-allocs", "tracing and metrics off, allocations", "", none, none, micro, "off_allocs"),
		found("metrics", "metrics on", "ns", atMost(600), atMost(200), micro, "metrics_ns"),
		found("metrics-allocs", "metrics on, allocations", "", none, none, micro, "metrics_allocs"),
		found("load", twice+"throughput over the peak", "x", atLeast(0.95), atLeast(0.95), load, "share"),
		found("load-p99", twice+"p99 of accepted calls over its bound", "x", atMost(1), atMost(1), load, "p99_share"),
		found("load-queue", twice+"most calls waiting", "", mostWaiting, mostWaiting, load, "waiting_peak"),
		found("load-refusals", twice+"failures other than ENDPOINT_NOT_WRITABLE", "", none, none, load, "wrong"),
	}
}

// worseCells counts the cells of the matrix that are worse. None may be in doubt.
func worseCells(r *results) sample {
	bad, doubtful, compared := 0, 0, 0
	for _, c := range allCells() {
		if c.purpose != forMatrix {
			continue
		}
		res := r.cells[c.name()]
		if res == nil {
			doubtful++
			continue
		}
		switch judgeCell(&c, res).Verdict {
		case notMet:
			bad, compared = bad+1, compared+1
		case met:
			compared++
		case inconclusive:
			doubtful++
		}
	}
	s := sample{rounds: []float64{float64(bad)}}
	switch {
	case compared+doubtful < leastCells:
		s.err = fmt.Errorf("%d cells, at least %d are to be compared", compared+doubtful, leastCells)
	case bad == 0 && doubtful > 0:
		s.unsure = fmt.Sprintf("%d of %d cells are inconclusive, the others are no worse", doubtful, compared+doubtful)
	}
	return s
}

// goroutines are those that a connection adds: the client's own are in both counts.
func goroutines(r *results) sample {
	many, fewer := r.probes[probeNameIdle], r.probes[probeNameFewer]
	for _, p := range []*probeResult{many, fewer} {
		if p == nil || p.err != nil || len(p.rounds) == 0 {
			return p.sample("goroutines")
		}
	}
	m, f := many.rounds[0], fewer.rounds[0]
	more := m["connections"] - f["connections"]
	if more <= 0 {
		return sample{}
	}
	return sample{rounds: []float64{(m["goroutines"] - f["goroutines"]) / more}, short: many.short}
}

// judgedCells are the cells by which single rows are judged: they get more rounds.
func judgedCells() map[string]bool {
	out := map[string]bool{}
	for _, w := range allRows() {
		for i := range w.cells {
			out[w.cells[i].name()] = true
		}
	}
	return out
}

// outcome is a row with its verdict.
type outcome struct {
	Name  string `json:"name"`
	What  string `json:"what"`
	Unit  string `json:"unit,omitempty"`
	Must  limit  `json:"must"`
	Goal  limit  `json:"goal"`
	Where string `json:"where,omitempty"` // the worst cell
	judged
	GoalMet bool `json:"goal_met"`
}

// judgeRows judges every row.
func judgeRows(r *results) []outcome {
	var out []outcome
	for _, w := range allRows() {
		s := w.sample(r)
		o := outcome{
			Name: w.name, What: w.what, Unit: w.unit, Must: w.must, Goal: w.goal, Where: s.where,
			judged: judge(w.must, &s),
		}
		o.GoalMet = o.Rounds > 0 && w.goal.holds(o.Value)
		if w.name == "cells" && (s.unsure != "" || slices.Contains(tails(r), true)) {
			o.GoalMet = false
		}
		if len(w.cells) < 2 {
			o.Where = ""
		}
		out = append(out, o)
	}
	return out
}

// tails says of each cell of the matrix whether its p99.9 is worse.
func tails(r *results) []bool {
	var out []bool
	for _, c := range allCells() {
		if c.purpose == forMatrix {
			if res := r.cells[c.name()]; res != nil {
				out = append(out, judgeCell(&c, res).Tail)
			}
		}
	}
	return out
}
