package chaos

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Report is what a run has shown.
type Report struct {
	Seed      uint64         `json:"seed"`
	Took      string         `json:"took"`
	Rounds    int            `json:"rounds"`
	Scenarios map[string]int `json:"scenarios"` // rounds of each; " over TLS" apart
	Calls     int            `json:"calls"`
	Mutations int            `json:"mutations"` // that were held against what the nodes have applied
	Faults    map[string]int `json:"faults_fired"`
	Verbs     map[string]int `json:"verbs"` // calls that have succeeded, by what they do
	Reached   map[string]int `json:"reached"`

	Lost            int `json:"lost"`
	AppliedTwice    int `json:"applied_twice"`
	EndedNotOnce    int `json:"ended_not_once"`
	PastDeadline    int `json:"past_deadline"`
	GoroutinesLeft  int `json:"goroutines_left"`
	DescriptorsLeft int `json:"descriptors_left"`
	Violations      int `json:"violations"`

	// LateWithProcess are calls that ended late in a process that was not run meanwhile, for WorstStall at most.
	LateWithProcess int    `json:"late_with_process"`
	WorstStall      string `json:"worst_stall"`

	// StrictRounds are those in which a call may end 50 ms past its deadline, by which PastDeadline is judged. In the
	// others it may be 2 s; LateByLess are the calls that were between the two there.
	StrictRounds int `json:"strict_rounds"`
	LateByLess   int `json:"late_by_less"`

	NotReached []string    `json:"not_reached"`
	Failures   []Violation `json:"failures"` // the first ones

	mu    sync.Mutex
	worst time.Duration
	round string // the present one
}

// Violation is a property that did not hold.
type Violation struct {
	Property string   `json:"property"` // "setup" when the run itself has failed
	Round    string   `json:"round"`
	What     string   `json:"what"`
	Detail   []string `json:"detail,omitempty"`
	Count    counter  `json:"count,omitempty"` // which number of the report it belongs to
	N        int      `json:"n,omitempty"`     // how many; 0 is 1
}

// counter names a number of the report.
type counter string

const (
	endedNotOnce    counter = "ended not once"
	pastDeadline    counter = "past deadline"
	lost            counter = "lost"
	appliedTwice    counter = "applied twice"
	goroutinesLeft  counter = "goroutines"
	descriptorsLeft counter = "descriptors"
)

// maxFailures is how many violations a report keeps.
const maxFailures = 20

func newReport(seed uint64) *Report {
	return &Report{
		Seed: seed, Scenarios: map[string]int{}, Faults: map[string]int{}, Verbs: map[string]int{},
		Reached: map[string]int{}, NotReached: []string{}, Failures: []Violation{},
	}
}

func (r *Report) violate(property, format string, args ...any) {
	r.add(Violation{Property: property, What: fmt.Sprintf(format, args...)})
}

// add enters a violation. The fields that counters of the caller's stand for are the caller's.
func (r *Report) add(v Violation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Violations++
	if into := map[counter]*int{
		endedNotOnce: &r.EndedNotOnce, pastDeadline: &r.PastDeadline, lost: &r.Lost,
		appliedTwice: &r.AppliedTwice, goroutinesLeft: &r.GoroutinesLeft, descriptorsLeft: &r.DescriptorsLeft,
	}[v.Count]; into != nil {
		*into += max(v.N, 1)
	}
	if v.Round = r.round; len(r.Failures) < maxFailures {
		r.Failures = append(r.Failures, v)
	}
}

// fired counts a fault that has been met so often.
func (r *Report) fired(name string, n int) {
	if n == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.Faults[name] += n
}

// count adds what a client process has counted.
func (r *Report) count(s *summary) {
	r.Calls += s.Calls
	r.LateWithProcess += s.Busy
	r.LateByLess += s.Between
	if s.Strict {
		r.StrictRounds++
	}
	r.worst = max(r.worst, time.Duration(s.WorstStall))
	for name, n := range s.Faults {
		r.fired(name, n)
	}
	for verb, n := range s.Verbs {
		r.Verbs[verb] += n
	}
}

// finish ends the report. Of a run that is to meet everything it says what it has not met.
func (r *Report) finish(took time.Duration, rounds int, all bool) {
	r.Rounds, r.Took = rounds, took.Round(time.Millisecond).String()
	r.WorstStall = r.worst.Round(time.Millisecond).String()
	if !all {
		return
	}
	need := func(met map[string]int, names ...string) {
		for _, name := range names {
			if met[name] == 0 {
				r.NotReached = append(r.NotReached, name)
			}
		}
	}
	met := map[string]int{}
	for name, n := range r.Scenarios {
		of, secure := strings.CutSuffix(name, overTLS)
		if met[of] += n; secure {
			met[roundsTLS] += n
		} else {
			met[roundsTCP] += n
		}
	}
	need(met, roundsTCP, roundsTLS)
	for _, s := range scenarios {
		if need(met, s.name); rounds >= 2*len(scenarios) {
			need(r.Scenarios, s.name, s.name+overTLS)
		}
	}
	need(r.Verbs, verbs()...)
	for _, f := range nodeFaults {
		need(r.Faults, f.name)
	}
	for _, f := range clusterFaults {
		need(r.Faults, f.name)
	}
	for _, c := range changes {
		need(r.Faults, c.name)
	}
	need(r.Faults, faultSlow, faultFull, faultMemory, faultNoDescriptor, faultCancelled, faultClosed)
	need(r.Reached, string(applied), string(refused), "in doubt, applied 0 times", "in doubt, applied 1 times")
	slices.Sort(r.NotReached)
	r.NotReached = slices.Compact(r.NotReached)
}

// What a run is to have, beside each scenario.
const (
	roundsTCP = "a round over TCP"
	roundsTLS = "a round over TLS"
)

// verbs are what calls do, each of which is to succeed once.
func verbs() []string {
	return []string{
		"get", "get-and-touch", "get-replica", "lookup-in", "upsert", "insert", "replace", "remove", "increment",
		"decrement", "append", "prepend", "mutate-in", "touch",
	}
}

// String has the property, the round and what was seen.
func (v Violation) String() string {
	s := fmt.Sprintf("%s violated in round %s: %s", v.Property, v.Round, v.What)
	for _, line := range v.Detail {
		s += "\n    " + line
	}
	return s
}
