package telemetry

import (
	"cmp"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// mostCounters bounds the memory that a meter takes, whatever addresses cluster maps name. Attempts beyond are not
// counted.
const mostCounters = 4096

// Labels name a node in a report.
type Labels struct {
	Node    string // its host in the cluster map
	AltNode string // its host on the network that it is reached on, where that is another one
	UUID    string
}

// Meter has the counters of one client. A nil Meter counts nothing.
type Meter struct {
	on    atomic.Bool // a report is wanted: a connection to give it over has been made
	agent string
	// node finds a node in the newest cluster map; false when it is in none.
	node func(Where) (Labels, bool)

	mu sync.Mutex
	m  map[Where]*entry
}

type entry struct {
	*Counters
	labels Labels // that the last report had
}

// NewMeter makes a meter of the client that is called agent, which counts nothing yet. node finds the node at an
// address in the newest cluster map; it must not block.
func NewMeter(agent string, node func(Where) (Labels, bool)) *Meter {
	return &Meter{agent: agent, node: node, m: map[Where]*entry{}}
}

// On reports whether anything is counted now.
func (m *Meter) On() bool { return m != nil && m.on.Load() }

// Of gives the counters of a node's service, which the caller holds until it calls their Release.
func (m *Meter) Of(w Where) *Counters {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.m[w]; e != nil {
		e.held++
		return e.Counters
	}
	if len(m.m) >= mostCounters {
		return nil
	}
	e := &entry{Counters: &Counters{m: m, of: w, held: 1}}
	m.m[w] = e
	return e.Counters
}

// report is what the cluster gets. Nothing is taken off the counters before sent.
type report struct {
	text  []byte // in the text format of Prometheus, a line for each value
	parts []part
}

type part struct {
	c *Counters
	v values
}

// sent takes what the report has off the counters.
func (r *report) sent() {
	for i := range r.parts {
		r.parts[i].c.subtract(&r.parts[i].v)
	}
}

// report gathers what there is to report. It forgets nodes that have left, once there is nothing to tell of them and no
// connection counts for them.
func (m *Meter) report() *report {
	m.mu.Lock()
	all := make([]*entry, 0, len(m.m))
	for _, e := range m.m {
		all = append(all, e)
	}
	m.mu.Unlock()
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.of.Service, b.of.Service), cmp.Compare(a.of.Addr, b.of.Addr),
			cmp.Compare(a.of.Bucket, b.of.Bucket))
	})
	r := &report{}
	for _, e := range all {
		v := e.values()
		labels, known := m.node(e.of)
		switch {
		case known:
			e.labels = labels // one report is made at a time
		case v.empty():
			m.forget(e.of)
			continue
		case e.labels == Labels{}:
			e.labels.Node, _, _ = net.SplitHostPort(e.of.Addr)
		}
		if !v.empty() {
			r.parts = append(r.parts, part{e.Counters, v})
			r.text = v.appendTo(r.text, e.of.Service, m.common(e))
		}
	}
	return r
}

// forget forgets counters that are not held. Before the first map no node is in one, and a connection's counters are
// those that the next reports have.
func (m *Meter) forget(w Where) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := m.m[w]; e != nil && e.held == 0 {
		if v := e.values(); v.empty() {
			delete(m.m, w)
		}
	}
}

// common are the labels of all lines about a node. One that is not known is left out.
func (m *Meter) common(e *entry) string {
	var b strings.Builder
	for _, l := range [...]struct{ name, value string }{
		{"agent", m.agent},
		{"node", e.labels.Node},
		{"alt_node", e.labels.AltNode},
		{"node_uuid", e.labels.UUID},
		{"bucket", e.of.Bucket},
	} {
		if l.value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(l.name + `="` + strings.Map(acceptable, l.value) + `"`)
	}
	return b.String()
}

// acceptable replaces what the server's parser does not take inside a label, escaped or not (ns_server,
// app_telemetry_scraper.erl: it cuts lines at braces and labels at commas).
func acceptable(r rune) rune {
	if r < ' ' || r == 0x7f || strings.ContainsRune(`"\,{}`, r) {
		return '_'
	}
	return r
}

// appendTo appends the lines of one service of a node. Counters that are zero, and histograms without a value, have no
// line; the buckets of a histogram all have one.
func (v *values) appendTo(b []byte, s Service, common string) []byte {
	for _, c := range [...]struct {
		name string
		n    int64
	}{{"total", v.total}, {"timedout", v.timedOut}, {"canceled", v.canceled}} {
		if c.n > 0 {
			b = line(b, "sdk_"+serviceNames[s]+"_r_"+c.name, common, c.n)
		}
	}
	for k, h := range shapes[s] {
		t := &v.took[k]
		if t.in == [boundCount]int64{} {
			continue
		}
		name, count := "sdk_"+h.name+"_duration_milliseconds", int64(0)
		for i := range len(h.bounds) + 1 {
			count += t.in[i]
			le := "+Inf"
			if i < len(h.bounds) {
				le = strconv.FormatInt(h.bounds[i].Milliseconds(), 10)
			}
			b = line(b, name+"_bucket", `le="`+le+`",`+common, count)
		}
		b = line(b, name+"_sum", common, t.micros/1000)
		b = line(b, name+"_count", common, count)
	}
	return b
}

func line(b []byte, name, labels string, n int64) []byte {
	b = append(append(append(append(b, name...), '{'), labels...), "} "...)
	return append(strconv.AppendInt(b, n, 10), '\n')
}
