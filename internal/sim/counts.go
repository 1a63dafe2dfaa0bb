package sim

import (
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// What the client counts is held against the ends of its calls (P15): each says how often it was tried again.

// counted takes the client's counts over once no call is left.
func (w *world) counted() { w.counts = w.c.RetryStats() }

// checkCounts judges the counts of retries.
func (w *world) checkCounts() {
	want, hedged := map[string]int{}, false
	for _, e := range w.ledger {
		hedged = hedged || verbTable[e.verb].parts
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
	w.checkServiceCounts()
	const read, copied, looked = "get", "get-replica", "lookup-in"
	for name, n := range want {
		sum, more := of(name), false
		if hedged && (name == read || name == copied) {
			// The read of a replica that has won is counted as one, and so are reads that have lost and those of all
			// copies.
			n, sum = want[read]+want[copied], of(read)+of(copied)
			more = sum > uint64(n)
		} else if hedged && name == looked {
			more = sum > uint64(n)
		}
		if sum != uint64(n) && !more {
			w.report.violate("P15", "%s: the client has counted %d retries, its calls %d", name, sum, n)
		}
	}
}

// askings are the requests to services.
func (w *world) askings() (as []*asking) {
	for _, s := range w.statements {
		as = append(as, &s.asking)
	}
	for i := range w.looked {
		as = append(as, &w.looked[i])
	}
	return as
}

// serviceNames are by what the client counts requests to services.
var serviceNames = map[mock.Service]string{
	mock.QueryService: "query", mock.AnalyticsService: "analytics", mock.SearchService: "search",
	mock.ViewsService: "views",
}

// askedAsSaid counts the requests that were judged so.
const askedAsSaid = "a service was asked as often as a request says"

// checkServiceCounts judges the counts of retries of requests to services, and what each says of its own by how often
// the service was asked.
func (w *world) checkServiceCounts() {
	want := map[string]int{}
	for _, a := range w.askings() {
		want[serviceNames[a.of]] += a.retries
		asked := w.asked[a.token] + len(w.driven["executing "+a.token])
		unheard := a.of == mock.ViewsService && w.rotate // a login with the password of before: it is not asked
		if asked > a.retries+1+w.again(a) || asked < a.retries+1 && a.err == nil && !a.prepared && !unheard &&
			servedAlone(a.reasons) {
			w.report.violate("P15", "%s: it says that it was tried again %d times, for %v, and its service was asked "+
				"%d times", a, a.retries, a.reasons, asked)
		}
		if a.err == nil && a.retries > 0 && asked == a.retries+1 {
			w.report.Reached[askedAsSaid]++
		}
	}
	// Requests of one statement share its preparation: a request that ends before that says nothing of its retries.
	got, shared := map[string]int{}, map[string]int{}
	for key, n := range w.counts.Operations {
		name, made := string(key.Service), int(n.Retries+n.Transparent)
		if key.Service != retry.KV {
			got[name] += made
		}
		if key.Operation == "prepare" {
			shared[name] += made
		}
	}
	for _, name := range serviceNames {
		if got[name] < want[name] || got[name]-shared[name] > want[name] {
			w.report.violate("P15", "%s: the client has counted %d retries, its requests %d", name, got[name],
				want[name])
		}
	}
}

// again is how often net/http may have sent a request again by itself: a GET, which the views alone have, over another
// connection when the one that it used ended before an answer began. The client takes that for one attempt.
func (w *world) again(a *asking) int {
	if a.of != mock.ViewsService {
		return 0
	}
	return w.hungUp[a.token] + w.brokenWithin(everywhere, w.began.Add(a.began), w.began.Add(a.ended))
}

// servedAlone reports whether a request was tried again for nothing but answers of its service.
func servedAlone(rs retry.Reasons) bool {
	for why := range rs.All() {
		switch why {
		case retry.ServiceResponseCodeIndicated, retry.AnalyticsTemporaryFailure, retry.QueryIndexNotFound,
			retry.SearchTooManyRequests, retry.ViewsTemporaryFailure:
		default:
			return false
		}
	}
	return true
}
