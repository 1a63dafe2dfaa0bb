package sim

import (
	"slices"
	"time"

	"github.com/couchcore/couchcore/retry"
)

// A call that waits for a way to its document goes on as soon as there is one (P6): a map that names another node, or a
// connection. So it is for its first attempt and for retries. It is seen from the requests: when a call that began
// later has sent one for the same vbucket and collection, there is a way, and a call that had waited before has been
// woken. The request has to be answered: the way may be gone in the instant in which it came, when a write fails.

// parking is a wait of a call for its retry, as the client has told the program's observer.
type parking struct {
	at, delay time.Duration
	why       retry.Reason
}

// waits is the observer of the runs: it notes the waits of calls, and does what the other one does.
type waits struct{ observer }

// Retry implements retry.Observer.
func (o waits) Retry(rq *retry.Request, why retry.Reason, delay time.Duration) {
	if e, ok := rq.Context.Value(callKey{}).(*entry); ok {
		o.w.mu.Lock()
		e.parkings = append(e.parkings, parking{o.w.since(), delay, why})
		o.w.mu.Unlock()
	}
	o.observer.Retry(rq, why, delay)
}

// awaitsWay reports whether a call that waits for the reason waits for a way. Room on a connection comes for one call
// at a time, behind a breaker one call goes before all, and nodes have answers that say that the bucket is not ready,
// or that there is no such scope or collection.
func awaitsWay(why retry.Reason) bool {
	out := []retry.Reason{
		retry.EndpointNotWritable, retry.CircuitBreakerOpen, retry.CollectionMapRefreshInProgress, retry.BucketNotReady,
		retry.ScopeNotFound, retry.CollectionNotFound,
	}
	return why.Unseen() && !why.AlwaysRetry() && !slices.Contains(out, why)
}

// wokenAtOnce counts the waits that ended long before their delay was over.
const wokenAtOnce = "a call of the client's own strategies that waited went on as soon as there was a way"

// target is what calls need one way to.
type target struct {
	vbucket uint16
	cid     uint32
}

// checkWakes judges the waits of calls with a strategy of the client's own. With small limits or several connections
// another call may have a place that this one has not.
func (w *world) checkWakes() {
	if w.tight || w.connections > 1 {
		return
	}
	doubted := w.doubted()
	began, of, to, places := w.requestsByCall()
	for _, e := range w.ledger {
		id, alone := e.identity()
		// the waits of a batch are not known
		if !alone || !e.polite || verbTable[e.verb].copies || e.batch && e.retries > 0 {
			continue
		}
		at, known := places[request{e.verb.op(), e.key}]
		if !known {
			continue
		}
		// before its first attempt it may wait for a connection, of which nothing is told, or for a collection's id
		all := slices.Concat([]parking{{at: e.began - 1, why: retry.SocketNotAvailable}}, e.parkings)
		for i, p := range all {
			if p.why == retry.KVCollectionOutdated { // from now on it waits for the collection's id, too
				break
			}
			if !awaitsWay(p.why) || e.named && i == 0 && e.ended >= doubted {
				continue
			}
			end := e.ended
			if i+1 < len(all) {
				end = min(end, all[i+1].at)
			}
			for _, s := range of[id] {
				if left := s.at.Sub(w.began); left > p.at {
					end = min(end, left)
				}
			}
			w.checkWake(e, p, end, to[at], began)
		}
	}
}

// checkWake judges one wait, which ended at that instant, by the requests to its place.
func (w *world) checkWake(e *entry, p parking, end time.Duration, all []*sent, began map[identity]time.Duration) {
	first, _ := slices.BinarySearchFunc(all, w.began.Add(p.at), func(s *sent, at time.Time) int {
		return s.at.Compare(at)
	})
	if end < e.ended && end-p.at < p.delay-callbackSlack {
		w.report.Reached[wokenAtOnce]++
	}
	for _, s := range all[first:] {
		left := s.at.Sub(w.began)
		if left >= end {
			return
		}
		if from, alone := began[s.same]; !alone || from <= p.at+time.Millisecond || s.answered.IsZero() {
			continue
		}
		if end-left > callbackSlack {
			w.report.violateWith("P6", func() []string { return w.history(e.key) }, "%s: it waited from %v on for %v, "+
				"because of %v, and went on or ended at %v; at %v a call that had begun later had a way", e, p.at,
				p.delay, p.why, end, left)
		}
		return
	}
}

// requestsByCall gives when the calls whose requests can be told from others' began, their requests, those to each
// place in the order in which they left, and the places of the keys.
func (w *world) requestsByCall() (began map[identity]time.Duration, of map[identity][]*sent, to map[target][]*sent,
	places map[request]target,
) {
	began, of = map[identity]time.Duration{}, map[identity][]*sent{}
	to, places = map[target][]*sent{}, map[request]target{}
	for _, e := range w.ledger {
		if id, alone := e.identity(); alone {
			began[id] = e.began
		}
	}
	for _, s := range w.facts.traffic {
		if s.copy {
			continue
		}
		at := target{s.vbucket, s.cid}
		of[s.same] = append(of[s.same], s)
		to[at] = append(to[at], s)
		places[request{s.same.op, s.same.key}] = at
	}
	for _, all := range to {
		slices.SortStableFunc(all, func(a, b *sent) int { return a.at.Compare(b.at) })
	}
	return began, of, to, places
}
