package sim

import (
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// event is one line of the trace.
type event struct {
	at   time.Duration
	text string
}

// trace is everything that happened, in order, that does not depend on how goroutines were scheduled: what happens at
// one instant is ordered by its text.
func (w *world) trace() []event {
	var es []event
	for _, e := range w.ledger {
		es = append(es,
			event{e.began, fmt.Sprintf("call %d %d %s %s %s", e.worker, e.number, e.verb, e.key, e.token)},
			event{e.ended, fmt.Sprintf("end %d %d %s %s %d %v", e.worker, e.number, e.outcome, e.got, e.retries, e.reasons)})
	}
	for _, f := range w.facts.frames {
		es = append(es, event{f.At.Sub(w.began), fmt.Sprintf("request %d %d %v %d %08x %s", f.Node, f.Conn, f.Opcode, f.VBucket, f.Opaque, f.Key)})
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
