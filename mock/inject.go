package mock

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/trigger"
)

// Match says which requests an injection or a count is for. Every field that is not empty must fit; the zero value
// matches every request, those of the bootstrap included.
type Match struct {
	Nodes      []int                   // numbers of nodes
	Opcodes    []memd.Opcode           // any of these
	Key        []byte                  // the document's key, without the collection's prefix
	Bucket     string                  // the bucket that the connection has selected
	KeyPattern *regexp.Regexp          // that the document's key matches
	Collection string                  // "scope.collection" of the request's collection id
	Func       func(*memd.Packet) bool // must not block, keep or change the packet; may run on several goroutines
	Skip       int                     // this many matching requests pass untouched first
	Times      int                     // the fault happens this often, 0 means always

	Probability float64 // of meeting a request that matches: 0, like 1, means every one
	Seed        uint64  // of the random numbers behind Probability: the same seed makes the same choices
}

func (m *Match) often() trigger.Often {
	return trigger.Often{Skip: m.Skip, Times: m.Times, Probability: m.Probability, Seed: m.Seed}
}

func (m *Match) clone() Match {
	out := *m
	out.Nodes, out.Opcodes, out.Key = slices.Clone(m.Nodes), slices.Clone(m.Opcodes), bytes.Clone(m.Key)
	return out
}

// String names what must fit, for messages.
func (m *Match) String() string {
	var parts []string
	add := func(set bool, format string, args ...any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(len(m.Nodes) > 0, "nodes %v", m.Nodes)
	add(len(m.Opcodes) > 0, "opcodes %v", m.Opcodes)
	add(m.Key != nil, "key %q", m.Key)
	add(m.KeyPattern != nil, "key pattern %v", m.KeyPattern)
	add(m.Bucket != "", "bucket %q", m.Bucket)
	add(m.Collection != "", "collection %q", m.Collection)
	add(m.Func != nil, "a function")
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, ", ")
}

// injection is a list of faults and the requests that they are for.
type injection struct {
	match  Match
	faults []Fault
}

// Inject puts faults in force until Remove: the first fault for the first request that matches, and so on; the last one
// is for all that follow. Of several injections that match a request the newest that is not used up acts, as with
// scripts.
func (c *Cluster) Inject(m Match, faults ...Fault) *Injection {
	if len(faults) == 0 {
		faults = []Fault{{}}
	}
	return c.injections.Add(injection{m.clone(), slices.Clone(faults)}, m.often())
}

// noFault is what happens to a request that no injection is for.
var noFault Fault

// injected is the fault that happens to a request, and what is closed when the requests that it holds are let go.
func (c *Cluster) injected(rq *request) (f *Fault, released <-chan struct{}) {
	for _, in := range slices.Backward(c.injections.All()) {
		if !in.What.match.fits(rq) {
			continue
		}
		if before, ok := in.Take(); ok {
			f = &in.What.faults[min(before, len(in.What.faults)-1)]
			c.tell("fault", "fault", f.String(), "node", rq.k.n.index, "opcode", rq.p.Opcode.String(),
				"key", string(rq.key))
			return f, in.Released()
		}
	}
	return &noFault, nil
}

func (m *Match) fits(rq *request) bool {
	switch {
	case len(m.Nodes) > 0 && !slices.Contains(m.Nodes, rq.k.n.index),
		len(m.Opcodes) > 0 && !slices.Contains(m.Opcodes, rq.p.Opcode),
		m.Key != nil && !bytes.Equal(m.Key, rq.key),
		m.KeyPattern != nil && !m.KeyPattern.Match(rq.key),
		m.Bucket != "" && (rq.b == nil || rq.b.name != m.Bucket),
		m.Collection != "" && rq.path() != m.Collection:
		return false
	}
	return m.Func == nil || m.Func(rq.p)
}

// Count counts the requests that match from now on, until Remove. It does not change them. Fired and WaitFired of the
// counter tell how many have come.
func (c *Cluster) Count(m Match) *Counter { return c.counts.Add(m.clone(), m.often()) }

// Expect fails the test at its end unless exactly n requests that match were received from now on.
func (c *Cluster) Expect(t TB, m Match, n int) *Counter {
	t.Helper()
	counter := c.Count(m)
	t.Cleanup(func() {
		t.Helper()
		counter.Remove()
		if got := counter.Fired(); got != n {
			t.Errorf("mock: received %d requests that match %s, want %d", got, m.String(), n)
		}
	})
	return counter
}

// count lets the counters see a request.
func (c *Cluster) count(rq *request) {
	for _, item := range c.counts.All() {
		if item.What.fits(rq) {
			item.Take()
		}
	}
}
