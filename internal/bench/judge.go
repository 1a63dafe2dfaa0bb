package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// judgeRounds is how many clean rounds a verdict on something timed needs.
const judgeRounds = 11

// verdict says whether a target is met. Inconclusive is not a pass.
type verdict string

const (
	met          verdict = "met"
	notMet       verdict = "not met"
	inconclusive verdict = "inconclusive"
)

// limit is a target's number: the value must be at least, or at most, this.
type limit struct {
	AtLeast bool    `json:"at_least"`
	Value   float64 `json:"value"`
}

func atLeast(v float64) limit { return limit{true, v} }
func atMost(v float64) limit  { return limit{false, v} }

func (l limit) holds(v float64) bool {
	if l.AtLeast {
		return v >= l.Value
	}
	return v <= l.Value
}

// near is how near v is to the limit: 1 and more is there.
func (l limit) near(v float64) float64 {
	a, b := v, l.Value
	if !l.AtLeast {
		a, b = b, a
	}
	switch {
	case l.holds(v) && b == 0:
		return 1
	case b == 0:
		return 0
	}
	return a / b
}

func (l limit) String() string {
	if l.AtLeast {
		return ">= " + number(l.Value)
	}
	return "<= " + number(l.Value)
}

// figure is what a check found: a value per clean round for what is timed, one value for what is counted.
type figure struct {
	rounds []float64
	clean  int // how many of them are clean; the rest is only shown
	timed  bool
	short  bool // a quick look, less than what is to be judged
	note   string
	err    error
}

// check is one target.
type check struct {
	name, what, unit string
	must, goal       limit
	find             func(r *results) figure
}

// outcome is a check with its verdict.
type outcome struct {
	Name    string  `json:"name"`
	What    string  `json:"what"`
	Unit    string  `json:"unit"`
	Value   float64 `json:"value"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	Rounds  int     `json:"rounds"`
	Must    limit   `json:"must"`
	Verdict verdict `json:"verdict"`
	// Provisional is what the verdict would be without the demands on rounds and on the machine's quiet.
	Provisional verdict `json:"provisional"`
	Goal        limit   `json:"goal"`
	GoalMet     bool    `json:"goal_met"`
	GoalNear    float64 `json:"goal_near"` // 1 and more is there
	Reason      string  `json:"reason,omitempty"`
}

// judge gives a check's outcome. What is timed needs enough clean rounds; a count does not.
func (c *check) judge(r *results) outcome {
	o := outcome{Name: c.name, What: c.what, Unit: c.unit, Must: c.must, Goal: c.goal, Verdict: inconclusive, Provisional: inconclusive}
	f := c.find(r)
	o.Rounds, o.Reason = len(f.rounds), f.note
	switch {
	case f.err != nil:
		o.Reason = f.err.Error()
		return o
	case len(f.rounds) == 0:
		o.Reason = "not measured"
		return o
	}
	o.Value, o.Lowest, o.Highest = median(f.rounds), slices.Min(f.rounds), slices.Max(f.rounds)
	if math.IsNaN(o.Value) || math.IsInf(o.Value, 0) {
		o.Value, o.Lowest, o.Highest, o.Reason = 0, 0, 0, "no number"
		return o
	}
	o.Provisional = notMet
	if c.must.holds(o.Value) {
		o.Provisional = met
	}
	o.GoalMet, o.GoalNear = c.goal.holds(o.Value), c.goal.near(o.Value)
	switch {
	case f.short:
		o.Reason = "a quick look, which is no verdict"
		return o
	case f.timed && f.clean < judgeRounds:
		o.Reason = fmt.Sprintf("%d clean rounds, a verdict needs %d", f.clean, judgeRounds)
		return o
	}
	o.Verdict = o.Provisional
	return o
}

// results is all that was measured.
type results struct {
	cells  map[string]*cellResult
	probes map[string]*probeResult
	asked  map[string]bool // what checks have asked for; nil keeps no record
}

// probe gives a probe's result; nil when there is none.
func (r *results) probe(name string) *probeResult {
	if r.asked != nil {
		r.asked[name] = true
	}
	return r.probes[name]
}

// probeResult is what a probe has found, once or in rounds.
type probeResult struct {
	rounds []map[string]float64
	clean  []bool
	timed  bool
	short  bool
	err    error
}

func newResults() *results {
	return &results{cells: map[string]*cellResult{}, probes: map[string]*probeResult{}}
}

// timed is a figure of a cell's clean rounds. A cell with failed operations has none that could be judged.
func (r *results) timed(cell string, of func(c *cellResult) []float64) figure {
	if r.asked != nil {
		r.asked[cell] = true
	}
	c := r.cells[cell]
	if c == nil {
		return figure{}
	}
	if c.Error != "" {
		return figure{err: fmt.Errorf("%s", c.Error)}
	}
	return figure{rounds: of(c), clean: c.clean(), timed: true}
}

// figure is one field of what a probe has found, in its clean rounds or, when none is clean, in all.
func (p *probeResult) figure(field string) figure {
	if p == nil {
		return figure{}
	}
	f := figure{timed: p.timed, short: p.short, err: p.err}
	var all []float64
	for i, values := range p.rounds {
		v, ok := values[field]
		if !ok {
			continue
		}
		all = append(all, v)
		if p.clean[i] {
			f.clean++
			f.rounds = append(f.rounds, v)
		}
	}
	if f.clean == 0 || !p.timed {
		f.rounds = all
	}
	return f
}

// medians are a probe's findings, for the tables.
func (p *probeResult) medians() map[string]float64 {
	out := map[string]float64{}
	if p == nil || len(p.rounds) == 0 {
		return out
	}
	for field := range p.rounds[0] {
		out[field] = finite(median(p.figure(field).rounds))
	}
	return out
}

// ratio pairs a figure of two lanes of one cell.
func ratio(cell, a, b string, m metric) func(*results) figure {
	return func(r *results) figure {
		return r.timed(cell, func(c *cellResult) []float64 { return paired(c.series(a, m), c.series(b, m)) })
	}
}

// worst takes the figure with the worst median of several; one that is missing makes it inconclusive.
func worst(lim limit, finds map[string]func(*results) figure) func(*results) figure {
	return func(r *results) figure {
		var out, missing figure
		for _, name := range slices.Sorted(keysOf(finds)) { // all of them are asked for
			f := finds[name](r)
			if f.err != nil || len(f.rounds) == 0 {
				missing = figure{err: fmt.Errorf("not measured: %s", name)}
				if f.err != nil {
					missing.err = f.err
				}
				continue
			}
			if len(out.rounds) == 0 || lim.near(median(f.rounds)) < lim.near(median(out.rounds)) {
				out = f
				out.note = strings.TrimPrefix(out.note+"; the worst: "+name, "; ")
			}
		}
		if missing.err != nil {
			return missing
		}
		return out
	}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// found takes one field of a probe.
func found(probe, field string) func(*results) figure {
	return func(r *results) figure { return r.probe(probe).figure(field) }
}
