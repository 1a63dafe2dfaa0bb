package telemetry

import (
	"sync/atomic"
	"time"
)

// Service is a service whose attempts are counted.
type Service uint8

// The services (RFC 84). Views and backup are not among them.
const (
	KV Service = iota
	Query
	Search
	Analytics
	Management
	Eventing
	serviceCount
)

var serviceNames = [serviceCount]string{
	KV: "kv", Query: "query", Search: "search", Analytics: "analytics", Management: "management", Eventing: "eventing",
}

// Kind is which of a service's histograms an answered attempt is in. Services other than key-value have the first only.
type Kind uint8

// The kinds of key-value attempts.
const (
	Retrieval Kind = iota
	Mutation
	DurableMutation
	kindCount
)

// boundCount is how many buckets a histogram has at most; the last one has no bound.
const boundCount = 7

// shape is the name of a histogram and the upper bounds of its buckets, the last one apart.
type shape struct {
	name   string
	bounds []time.Duration
}

const ms = time.Millisecond

var (
	kvBounds      = []time.Duration{1 * ms, 10 * ms, 100 * ms, 500 * ms, 1000 * ms, 2500 * ms}
	durableBounds = []time.Duration{10 * ms, 100 * ms, 500 * ms, 1000 * ms, 2000 * ms, 10000 * ms}
	httpBounds    = []time.Duration{100 * ms, 1000 * ms, 10000 * ms, 30000 * ms, 75000 * ms}
)

// shapes are the histograms of each service (RFC 84, "Histograms").
var shapes = [serviceCount][]shape{
	KV: {
		Retrieval: {"kv_retrieval", kvBounds}, Mutation: {"kv_mutation_nondurable", kvBounds},
		DurableMutation: {"kv_mutation_durable", durableBounds},
	},
	Query:      {{"query", httpBounds}},
	Search:     {{"search", httpBounds}},
	Analytics:  {{"analytics", httpBounds}},
	Management: {{"management", httpBounds}},
	Eventing:   {{"eventing", httpBounds}},
}

// Where is what attempts are counted by.
type Where struct {
	Service Service
	Addr    string // of the service, "host:port"
	Bucket  string // "" where attempts are of none
}

// Counters count the attempts of one service of a node, for one bucket. Their methods may be called by several
// goroutines at once and do not block. Those of a nil Counters do nothing.
type Counters struct {
	m    *Meter
	of   Where
	held int // by how many; the meter's mutex guards it

	total, timedOut, canceled atomic.Int64
	took                      [kindCount]histogram
}

// histogram counts durations; a duration is in one bucket.
type histogram struct {
	in     [boundCount]atomic.Int64
	micros atomic.Int64 // all of them together
}

// On reports whether anything is counted now.
func (c *Counters) On() bool { return c != nil && c.m.on.Load() }

// Release says that the holder counts nothing more. The meter forgets no counters that are held.
func (c *Counters) Release() {
	if c != nil {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		c.held--
	}
}

// Answered counts an attempt that was answered after took.
func (c *Counters) Answered(k Kind, took time.Duration) {
	if c.On() {
		c.total.Add(1)
		c.add(k, took)
	}
}

// Late notes that an attempt which was counted as Unanswered has been answered after took.
func (c *Counters) Late(k Kind, took time.Duration) {
	if c.On() {
		c.add(k, took)
	}
}

// Unanswered counts an attempt whose call has ended before the answer: timed out, or canceled, which a lost connection
// does too.
func (c *Counters) Unanswered(timedOut bool) {
	if c.On() {
		c.total.Add(1)
		c.gaveUp(timedOut)
	}
}

// Unwanted notes that an attempt which was counted as Answered was one of a call that had ended.
func (c *Counters) Unwanted(timedOut bool) {
	if c.On() {
		c.gaveUp(timedOut)
	}
}

func (c *Counters) gaveUp(timedOut bool) {
	if timedOut {
		c.timedOut.Add(1)
	} else {
		c.canceled.Add(1)
	}
}

func (c *Counters) add(k Kind, took time.Duration) {
	h, bounds := &c.took[k], shapes[c.of.Service][k].bounds
	i := 0
	for i < len(bounds) && took > bounds[i] {
		i++
	}
	h.in[i].Add(1)
	h.micros.Add(max(took.Microseconds(), 0))
}

// values are what Counters have counted at one moment.
type values struct {
	total, timedOut, canceled int64
	took                      [kindCount]taken
}

type taken struct {
	in     [boundCount]int64
	micros int64
}

func (c *Counters) values() (v values) {
	v.total, v.timedOut, v.canceled = c.total.Load(), c.timedOut.Load(), c.canceled.Load()
	for k := range c.took {
		for i := range c.took[k].in {
			v.took[k].in[i] = c.took[k].in[i].Load()
		}
		v.took[k].micros = c.took[k].micros.Load()
	}
	return v
}

// subtract takes off what was reported. What was counted meanwhile stays, and so does the part of a millisecond that
// no report has had.
func (c *Counters) subtract(v *values) {
	c.total.Add(-v.total)
	c.timedOut.Add(-v.timedOut)
	c.canceled.Add(-v.canceled)
	for k := range c.took {
		for i := range c.took[k].in {
			c.took[k].in[i].Add(-v.took[k].in[i])
		}
		c.took[k].micros.Add(-v.took[k].micros / 1000 * 1000)
	}
}

// empty reports whether there is nothing to report.
func (v *values) empty() bool {
	if v.total != 0 || v.timedOut != 0 || v.canceled != 0 {
		return false
	}
	for k := range v.took {
		if v.took[k].in != [boundCount]int64{} {
			return false
		}
	}
	return true
}
