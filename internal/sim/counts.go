package sim

import (
	"github.com/couchcore/couchcore/retry"
)

// What the client counts is held against the ends of its calls (P15): each says how often it was tried again.

// counted takes the client's counts over once no call is left.
func (w *world) counted() { w.counts = w.c.RetryStats() }

// checkCounts judges the counts of retries.
func (w *world) checkCounts() {
	want, hedged := map[string]int{}, false
	for _, e := range w.ledger {
		hedged = hedged || e.verb == readAny
		want[verbTable[e.verb].operation] += e.retries
	}
	for key, n := range w.counts.Operations {
		all, reasons := uint64(0), retry.Resends{}
		for _, in := range n.Histogram {
			all += in
		}
		for _, why := range n.Reasons {
			reasons.Retries, reasons.Transparent = reasons.Retries+why.Retries, reasons.Transparent+why.Transparent
		}
		if sum := n.Retries + n.Transparent; all != sum+n.Hedges || reasons.Retries+reasons.Transparent != sum {
			w.report.violate("P15", "%v: %d retries and %d hedges: %d by their numbers, and %v by reason", key, sum,
				n.Hedges, all, reasons)
		}
	}
	of := func(name string) uint64 {
		got := w.counts.Operations[retry.OperationKey{Service: retry.KV, Operation: name}]
		return got.Retries + got.Transparent
	}
	const read, copied = "get", "get-replica"
	for name, n := range want {
		sum, more := of(name), false
		if hedged && (name == read || name == copied) {
			// The read of a replica that has won is counted as one, and so are reads that have lost.
			n, sum = want[read]+want[copied], of(read)+of(copied)
			more = sum > uint64(n)
		}
		if sum != uint64(n) && !more {
			w.report.violate("P15", "%s: the client has counted %d retries, its calls %d", name, sum, n)
		}
	}
}
