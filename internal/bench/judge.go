package bench

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// What a verdict on something timed needs.
const (
	leastRounds = 5    // clean ones
	nearness    = 0.05 // this near to its must a figure of a noisy machine is inconclusive
	noise       = 0.05 // rounds whose middle half is further apart than this part of their median are noisy
)

// verdict says whether a must is met. Inconclusive is not a pass, and no failure.
type verdict string

const (
	met          verdict = "met"
	notMet       verdict = "not met"
	inconclusive verdict = "inconclusive"
)

// limit is a row's number: the figure must be at least, or at most, this.
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

// margin is how far v is on the right side of the limit, as a part of the limit: below 0 is beyond it.
func (l limit) margin(v float64) float64 {
	d := l.Value - v
	if l.AtLeast {
		d = -d
	}
	if l.Value == 0 {
		return d
	}
	return d / math.Abs(l.Value)
}

func (l limit) String() string {
	if l.AtLeast {
		return ">= " + number(l.Value)
	}
	return "<= " + number(l.Value)
}

// sample is what is judged: a figure per clean round of what is timed, one figure of what is counted.
type sample struct {
	rounds []float64
	clean  int    // how many of all rounds were clean
	total  int    // all rounds
	where  string // which of several cells, when they have the worst figure
	timed  bool
	short  bool   // a quick look, less than what is to be judged
	unsure string // why there is no verdict although there is a figure
	err    error
}

// noisy says that the rounds do not agree, or that others used the machine during some.
func (s *sample) noisy() bool { return s.clean < s.total || spread(s.rounds) > noise }

// judged is a figure with its verdict.
type judged struct {
	Value   float64 `json:"value"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
	Rounds  int     `json:"rounds"`
	Clean   int     `json:"clean_rounds"`
	Verdict verdict `json:"verdict"`
	Reason  string  `json:"reason,omitempty"` // of what is inconclusive
}

// judge is the verdict on a sample: whether its median keeps the must.
func judge(must limit, s *sample) judged {
	j := judged{Verdict: inconclusive, Rounds: len(s.rounds), Clean: s.clean}
	switch {
	case s.err != nil:
		j.Reason = s.err.Error()
		return j
	case len(s.rounds) == 0:
		j.Reason = "not measured"
		return j
	}
	j.Value, j.Lowest, j.Highest = median(s.rounds), slices.Min(s.rounds), slices.Max(s.rounds)
	switch {
	case math.IsNaN(j.Value) || math.IsInf(j.Value, 0):
		j.Value, j.Lowest, j.Highest, j.Reason = 0, 0, 0, "no number"
	case s.unsure != "":
		j.Reason = s.unsure
	case s.short:
		j.Reason = "a quick look is not a verdict"
	case s.timed && s.clean < leastRounds:
		j.Reason = fmt.Sprintf("%d clean rounds, a verdict needs %d", s.clean, leastRounds)
	case s.timed && s.noisy() && math.Abs(must.margin(j.Value)) <= nearness:
		j.Reason = "within 5 percent of the must on a noisy machine"
	case must.holds(j.Value):
		j.Verdict = met
	default:
		j.Verdict = notMet
	}
	return j
}

// worse is how much worse than gocbcore a cell may be in any of what is compared.
const worse = 1.10

// comparison is what a cell's figure is over gocbcore's. Costs are as they are, throughput is turned round, so that
// more is worse.
type comparison struct {
	name string
	m    metric
	rate bool // more is better
	goal bool // only the goal asks for it
}

// comparisons are what a cell is compared in. What computes beside the client uses CPU time that cannot be told from
// the client's, and an open loop's throughput is what is offered.
func comparisons(c *cell) []comparison {
	out := []comparison{{name: "p50", m: mP50}, {name: "p99", m: mP99}, {name: "p99.9", m: mP999, goal: true}}
	if c.rate == 0 {
		out = append(out, comparison{name: "throughput", m: mThroughput, rate: true})
	}
	if c.busy == 0 {
		out = append(out, comparison{name: "CPU", m: mCPU})
	}
	return out
}

// compare is a cell's sample in one of them.
func (r *cellResult) compare(by comparison) *sample {
	s := &sample{timed: true, clean: r.clean(), total: len(r.Rounds)}
	ours, theirs := r.series(kindOurs, by.m), r.series(kindPeer, by.m)
	if by.rate {
		ours, theirs = theirs, ours
	}
	s.rounds = paired(ours, theirs)
	return s
}

// cellVerdict is what a cell of the matrix comes to: worse in these, or inconclusive for a reason.
type cellVerdict struct {
	Verdict verdict  `json:"verdict"`
	Worse   []string `json:"worse,omitempty"`      // more than 10 percent worse than gocbcore
	Tail    bool     `json:"worse_tail,omitempty"` // p99.9, which is the goal's
	Reason  string   `json:"reason,omitempty"`
}

// judgeCell compares a cell in everything.
func judgeCell(c *cell, r *cellResult) cellVerdict {
	switch {
	case r.Error != "":
		return cellVerdict{Verdict: inconclusive, Reason: r.Error}
	case r.clean() < leastRounds:
		return cellVerdict{Verdict: inconclusive, Reason: fmt.Sprintf("%d clean rounds", r.clean())}
	case c.rate > 0 && !carries(r, kindPeer, c.rate) && carries(r, kindOurs, c.rate):
		return cellVerdict{Verdict: met, Reason: "gocbcore does not carry the rate"}
	case c.rate > 0 && carries(r, kindPeer, c.rate) && !carries(r, kindOurs, c.rate):
		return cellVerdict{Verdict: notMet, Worse: []string{"the rate is not carried"}}
	}
	v := cellVerdict{Verdict: met}
	var doubts []string
	for _, by := range comparisons(c) {
		switch j := judge(atMost(worse), r.compare(by)); {
		case by.goal:
			v.Tail = j.Verdict == notMet
		case j.Verdict == notMet:
			v.Worse = append(v.Worse, by.name)
		case j.Verdict == inconclusive:
			doubts = append(doubts, by.name+": "+j.Reason)
		}
	}
	switch {
	case len(v.Worse) > 0:
		v.Verdict = notMet
	case len(doubts) > 0:
		v.Verdict, v.Reason = inconclusive, doubts[0]
	}
	return v
}

// carries says whether a client has done nearly all of what was offered.
func carries(r *cellResult, lane string, rate int) bool {
	return median(r.series(lane, mThroughput)) >= 0.95*float64(rate)
}

// worstOf takes the sample with the least margin of several. One that is missing makes all of them inconclusive, since
// it might be the worst.
func worstOf(must limit, samples []sample) sample {
	var out sample
	for _, s := range samples {
		switch {
		case errors.Is(s.err, errNotCarried):
			continue
		case s.err != nil:
			return s
		case len(s.rounds) == 0:
			return sample{err: errors.New("not measured: " + s.where)}
		}
		if len(out.rounds) == 0 || must.margin(median(s.rounds)) < must.margin(median(out.rounds)) {
			out = s
		}
	}
	return out
}

// errNotCarried says that a load is more than one of the clients carries.
var errNotCarried = errors.New("the load is not carried")

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
