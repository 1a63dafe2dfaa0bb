package sim

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/couchcore/couchcore/retry"
)

// Totals are the reports of several seeds, added up.
type Totals struct {
	Seeds          int            `json:"seeds"`
	Ops            int            `json:"ops"`
	Frames         int            `json:"frames"`
	FaultsFired    map[string]int `json:"faults_fired"`
	Encrypted      map[string]int `json:"encrypted"` // those of them that runs with TLS have met
	ReasonsFired   map[string]int `json:"reasons_fired"`
	Outcomes       map[string]int `json:"outcomes"`
	Reached        map[string]int `json:"reached"`
	NotReached     []string       `json:"not_reached"`
	Replayed       int            `json:"replayed"` // seeds that have given the same trace again
	Lost           int            `json:"lost"`
	AppliedTwice   int            `json:"applied_twice"`
	Violations     int            `json:"violations"`
	GoroutinesLeft int            `json:"goroutines_left"`
	Failures       []Violation    `json:"failures"`

	slowest Violation // of the seed with the most histories that were not judged, if there are too many
	most    int
}

// NewTotals gives totals of nothing.
func NewTotals() *Totals {
	return &Totals{
		FaultsFired: map[string]int{}, ReasonsFired: map[string]int{}, Outcomes: map[string]int{},
		Reached: map[string]int{}, Encrypted: map[string]int{},
		NotReached: []string{}, Failures: []Violation{},
	}
}

// Add adds a report.
func (t *Totals) Add(r *Report) {
	t.Seeds++
	t.Ops += r.Ops
	t.Frames += r.Frames
	t.Lost += r.Lost
	t.AppliedTwice += r.AppliedTwice
	t.GoroutinesLeft += max(r.GoroutinesLeft, 0)
	t.Violations += len(r.Violations)
	if r.Replayed {
		t.Replayed++
	}
	for _, v := range r.Violations {
		v.Trace, v.Plan = r.Trace, r.Plan
		t.Failures = append(t.Failures, v)
	}
	if r.Encrypted {
		for name, n := range r.FaultsFired {
			t.Encrypted[name] += n
		}
	}
	for into, from := range map[*map[string]int]map[string]int{
		&t.FaultsFired: r.FaultsFired, &t.ReasonsFired: r.ReasonsFired, &t.Outcomes: r.Outcomes, &t.Reached: r.Reached,
	} {
		for name, n := range from {
			(*into)[name] += n
		}
	}
	if n := r.Reached[unjudged]; n > t.most {
		t.most, t.slowest = n, Violation{Seed: r.Seed, Property: "P5", Trace: r.Trace, Plan: r.Plan}
	}
	t.NotReached = t.missing()
}

// Histories are how many histories of documents were judged, and how many were not, because that would have taken too
// long.
func (t *Totals) Histories() (done, left int) { return t.Reached[judged], t.Reached[unjudged] }

// unjudgedMost is how many histories in a hundred may be left without a judgement.
const unjudgedMost = 3

// Finish judges the set as a whole, once all reports are added: whether its histories were judged at all (P5).
func (t *Totals) Finish() {
	done, left := t.Histories()
	if 100*left <= unjudgedMost*(done+left) {
		return
	}
	v := t.slowest
	v.Unjudged = true
	v.What = fmt.Sprintf("%d of %d histories were not judged in time, %d of them are this seed's", left, done+left,
		t.most)
	t.Failures = append(t.Failures, v)
	t.Violations++
}

// Noticed are the properties that the judges of runs found violated. It leaves out what Finish adds: how many
// histories are judged in time depends on the machine.
func (t *Totals) Noticed() map[string]bool {
	found := map[string]bool{}
	for _, v := range t.Failures {
		if !v.Unjudged {
			found[v.Property] = true
		}
	}
	return found
}

// unraised are the retry reasons that nothing in the simulation raises, and why.
var unraised = map[retry.Reason]string{
	retry.Unknown: "it stands for no reason",
}

// reasons are the retry reasons that a large set of seeds must raise.
func reasons() (out []retry.Reason) {
	for why := range retry.All() {
		if unraised[why] == "" {
			out = append(out, why)
		}
	}
	return out
}

// kindsNeed is how many calls a set has from which on every kind of error must have been returned, and rare events must
// have come.
const kindsNeed = 1_000_000

// missing names what no seed has met, although a large set of seeds must: a simulation that never comes to what is
// interesting passes for ever.
func (t *Totals) missing() []string {
	out := []string{}
	need := func(from map[string]int, names ...string) {
		for _, name := range names {
			if from[name] == 0 {
				out = append(out, name)
			}
		}
	}
	need(t.FaultsFired, injections()...)
	if t.Ops >= kindsNeed {
		out = append(out, t.oneSided()...)
	}
	for _, b := range branches() {
		need(t.Reached, string(b))
	}
	for _, why := range reasons() {
		need(t.ReasonsFired, why.String())
	}
	if t.Ops >= kindsNeed {
		need(t.Reached, errorKinds()...)
		need(t.Reached, lockJumped)
	}
	for v := range verbs {
		need(t.Reached, donePrefix+v.String())
	}
	for o := done; o <= doubtful; o++ {
		need(t.Outcomes, o.String())
	}
	need(t.Reached, "a wrong certificate was shown", shownToRequests, refusedPacked, "in doubt, applied 0 times",
		"in doubt, applied 1 times", ambiguousTimeout+"0", ambiguousTimeout+"1", "ended by Close", judged, queueFull,
		unknownOpaque, secondAnswer, unreadable, wholeScan, scanJudged, resent, resentRead, resentByMap, resentAsNamed,
		toldAtOnce, retriesCounted, askedAsSaid, rerouted, wokenByHealth, wokenByMap, wokenAtOnce,
		lateAttempt, missed, closedUnsent, closedInFlight, closedParked, canceledUnsent, canceledQueued,
		canceledInFlight, canceledParked, afterCancel, afterDeadline)
	for of := range services {
		need(t.Reached, servedInCalm(of))
	}
	for _, why := range noWays {
		need(t.Reached, refusedFor(why))
	}
	need(t.Reached, clearLogin, toldAnyNode, loginPrefix+inClear, loginPrefix+"SCRAM-SHA1", loginPrefix+"SCRAM-SHA256",
		loginPrefix+"SCRAM-SHA512")
	slices.Sort(out)
	return slices.Compact(out)
}

// oneSided names the faults that runs with TLS, or runs without, have not met.
func (t *Totals) oneSided() (out []string) {
	forTLS := map[string]bool{}
	for _, f := range faults() {
		forTLS[f.name] = f.tls
	}
	for _, name := range injections() {
		met := t.Encrypted[name]
		if met == 0 {
			out = append(out, name+", over TLS")
		}
		if met == t.FaultsFired[name] && !forTLS[name] {
			out = append(out, name+", without TLS")
		}
	}
	return out
}

// Main runs one seed in a process that is not a test's, and calls done with its report from inside the run. done ends
// the process; if it returned, package testing would, with a line of its own on standard output.
func Main(o Options, done func(*Report)) {
	flag.CommandLine = flag.NewFlagSet("", flag.ContinueOnError) // the process's own flags are not the test's
	testing.Init()
	_ = flag.CommandLine.Parse(nil) // nothing to parse
	o.abandon = done
	testing.Main(func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "Sim", F: func(t *testing.T) { done(Run(t, o)) }}}, nil, nil)
}

// Known reports whether a defect is one that can be planted.
func (d Defect) Known() bool {
	return d == "" || slices.Contains(slices.Collect(maps.Keys(Defects())), d)
}
