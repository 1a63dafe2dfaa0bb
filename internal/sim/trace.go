package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/couchcore/couchcore/memd"
)

// event is one line of the trace.
type event struct {
	at   time.Duration
	text string
}

// String is the line of a history.
func (e event) String() string { return fmt.Sprintf("%14v %s", e.at, e.text) }

// trace is everything that happened, in order, that does not depend on how goroutines were scheduled: what happens at
// one instant is ordered by its text.
func (w *world) trace() []event {
	var es []event
	for _, e := range w.ledger {
		es = append(es,
			event{e.began, fmt.Sprintf("call %d %d %s %s %s", e.worker, e.number, e.verb, e.key, e.token)},
			event{e.ended, fmt.Sprintf("end %d %d %s %s %d %v", e.worker, e.number, e.outcome, e.got, e.retries,
				e.reasons)})
	}
	for addr, at := range w.facts.dials {
		for _, t := range at {
			es = append(es, event{t.Sub(w.began), "dial " + addr})
		}
	}
	for _, s := range w.statements {
		es = append(es, event{s.began, "statement " + s.token},
			event{s.ended, fmt.Sprintf("rows %s %d %t %t %d %v", s.token, s.got, s.err == nil, s.inDoubt, s.retries,
				s.reasons)})
	}
	for _, a := range w.looked {
		es = append(es, event{a.began, "look " + a.token},
			event{a.ended, fmt.Sprintf("rows %s %d %t %d %v", a.token, a.got, a.err == nil, a.retries, a.reasons)})
	}
	name := w.requestNames()
	for i, f := range w.facts.frames {
		es = append(es, event{f.At.Sub(w.began), fmt.Sprintf("request %d %d %v %d #%d %s", f.Node, f.Conn, f.Opcode,
			f.VBucket, name[i], f.Key)})
	}
	if w.Break == Unsteady {
		es = append(es, event{0, fmt.Sprint("the time is ", time.Now().UnixNano())})
	}
	slices.SortFunc(es, func(a, b event) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		if a.text < b.text {
			return -1
		}
		return 1
	})
	return es
}

// hash is the trace's hash.
func (w *world) hash() string {
	h := fnv.New128a()
	w.report.trace = w.trace()
	for _, e := range w.report.trace {
		w.virtual = max(w.virtual, e.at)
		_, _ = fmt.Fprintf(h, "%d %s\n", e.at, e.text) // a hash takes everything
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// requestNames gives each request its number on its connection; one whose opaque has come before has the number of that
// one, because it is the same request again. The opaque itself is no name: it is the place that was free, and that
// depends on which goroutine of one instant was first to give one back or to take one.
func (w *world) requestNames() []int {
	type opaque struct {
		conn  uint64
		ready bool // the handshake is over: it has opaques of its own
		o     uint32
	}
	names, count, ready, first := make([]int, len(w.facts.frames)), map[uint64]int{}, map[uint64]bool{},
		map[opaque]int{}
	for i, f := range w.facts.frames {
		count[f.Conn]++
		o := opaque{f.Conn, ready[f.Conn], f.Opaque}
		if first[o] == 0 {
			first[o] = count[f.Conn]
		}
		names[i] = first[o]
		ready[f.Conn] = ready[f.Conn] || f.Opcode == memd.OpGetClusterConfig // the last of a handshake
	}
	return names
}
