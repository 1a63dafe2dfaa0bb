package sim

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Report is what a run has shown.
type Report struct {
	Seed uint64 `json:"seed"`
	Ops  int    `json:"ops"`
	// Trace is a hash over every call and every request that a node has received, with their instants: the same seed
	// gives the same one.
	Trace          string         `json:"trace"`
	Virtual        string         `json:"virtual"`
	Plan           string         `json:"plan"`
	Encrypted      bool           `json:"encrypted"` // all connections were over TLS
	Outcomes       map[string]int `json:"outcomes"`
	FaultsFired    map[string]int `json:"faults_fired"`
	ReasonsFired   map[string]int `json:"reasons_fired"`
	Reached        map[string]int `json:"reached"`
	Frames         int            `json:"frames"`
	Lost           int            `json:"lost"`
	AppliedTwice   int            `json:"applied_twice"`
	GoroutinesLeft int            `json:"goroutines_left"`
	Violations     []Violation    `json:"violations"`
	// Replayed says that another run of the seed has given the same trace. Who runs it again sets it.
	Replayed bool `json:"replayed"`

	trace []event
	mu    sync.Mutex
}

// Violation is a property that did not hold.
type Violation struct {
	Seed     uint64   `json:"seed"`
	Property string   `json:"property"` // "P1" to "P16", or one of Died, Late, Replay and "setup": the run itself failed
	What     string   `json:"what"`
	History  []string `json:"history,omitempty"` // of the document or the call, short
	// Of the run: to see whether another run of the seed is the same, and what the seed has drawn.
	Trace string `json:"trace,omitempty"`
	Plan  string `json:"plan,omitempty"`
	// Unjudged says that histories were not judged in time. The machine was too slow for that, not the client.
	Unjudged bool `json:"unjudged,omitempty"`

	at time.Duration // of the run; 0: not one instant
}

// Properties beside the programme's.
const (
	Died   = "died"   // the process of the run has ended before its report
	Late   = "late"   // that process has not ended in time
	Replay = "replay" // another run of the seed has another trace
)

// String has the property, the seed that shows it again, and the history.
func (v Violation) String() string {
	s := fmt.Sprintf("%s violated by seed %d: %s", v.Property, v.Seed, v.What)
	for _, line := range v.History {
		s += "\n    " + line
	}
	if v.Plan != "" {
		s += "\n  trace " + v.Trace + " of " + v.Plan
	}
	return s
}

// maxViolations is how many a report keeps: what goes wrong once usually does so often.
const maxViolations = 20

func newReport(o Options) *Report {
	return &Report{
		Seed: o.Seed, Outcomes: map[string]int{}, FaultsFired: map[string]int{}, ReasonsFired: map[string]int{},
		Reached:    map[string]int{},
		Violations: []Violation{},
	}
}

// violate notes a violation.
func (r *Report) violate(property, format string, args ...any) {
	r.violateWith(property, nil, format, args...)
}

func (r *Report) violateWith(property string, history func() []string, format string, args ...any) {
	r.add(Violation{Property: property, What: fmt.Sprintf(format, args...)}, history)
}

// violateAt notes a violation of that instant of the run, which is shown with the events before it.
func (r *Report) violateAt(at time.Duration, property, format string, args ...any) {
	r.add(Violation{Property: property, What: fmt.Sprintf(format, args...), at: at}, nil)
}

func (r *Report) add(v Violation, history func() []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.Violations) >= maxViolations {
		return
	}
	if v.Seed = r.Seed; history != nil {
		v.History = history()
	}
	r.Violations = append(r.Violations, v)
}

// showEvents gives the violations of one instant the last events of the trace until then.
func (r *Report) showEvents() {
	for i := range r.Violations {
		v := &r.Violations[i]
		if v.at == 0 {
			continue
		}
		n, _ := slices.BinarySearchFunc(r.trace, v.at+1, func(e event, at time.Duration) int {
			return cmp.Compare(e.at, at)
		})
		for _, e := range r.trace[max(0, n-maxHistory):n] {
			v.History = append(v.History, e.String())
		}
	}
}
