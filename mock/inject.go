package mock

import (
	"bytes"
	"slices"

	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/internal/trigger"
)

// Match says which requests an injection is for. Every field that is not empty must fit; the zero value matches every
// request, those of the bootstrap included.
type Match struct {
	Nodes      []int                   // numbers of nodes
	Opcodes    []memd.Opcode           // any of these
	Key        []byte                  // the document's key, without the collection's prefix
	Bucket     string                  // the bucket that the connection has selected
	Collection string                  // "scope.collection" of the request's collection id
	Func       func(*memd.Packet) bool // must not block, keep or change the packet; may run on several goroutines
	Skip       int                     // this many matching requests pass untouched first
	Times      int                     // the fault happens this often, 0 means always
}

// injection is a fault and the requests that it is for.
type injection struct {
	match Match
	fault Fault
}

// Inject puts a fault in force until Remove. Of several injections that match a request the oldest that is not used up
// acts.
func (c *Cluster) Inject(m Match, f Fault) *Injection {
	m.Nodes, m.Opcodes, m.Key = slices.Clone(m.Nodes), slices.Clone(m.Opcodes), bytes.Clone(m.Key)
	return c.injections.Add(injection{m, f}, m.Skip, m.Times)
}

// noInjection is what acts on a request that no injection is for.
var noInjection = &trigger.Item[injection]{}

// injected is the injection that acts on a request.
func (c *Cluster) injected(rq *request) *trigger.Item[injection] {
	for _, in := range c.injections.All() {
		if in.What.match.fits(rq) {
			if _, ok := in.Take(); ok {
				return in
			}
		}
	}
	return noInjection
}

func (m *Match) fits(rq *request) bool {
	switch {
	case len(m.Nodes) > 0 && !slices.Contains(m.Nodes, rq.k.n.index),
		len(m.Opcodes) > 0 && !slices.Contains(m.Opcodes, rq.p.Opcode),
		m.Key != nil && !bytes.Equal(m.Key, rq.key),
		m.Bucket != "" && (rq.b == nil || rq.b.name != m.Bucket),
		m.Collection != "" && rq.path() != m.Collection:
		return false
	}
	return m.Func == nil || m.Func(rq.p)
}
