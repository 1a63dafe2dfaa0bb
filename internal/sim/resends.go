package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// What follows an answer that has the client send its request again (P6). The request is not sent before its delay is
// over, and then it is sent: the call does not end with the answer, and no call that begins later finds the way that
// this one waits for. The delay is what the call's strategy has said, or what docs/retry.md says of the client's own
// strategies and of "not my vbucket". Judged are calls whose requests can be told from others', see entry.identity.

// These count the requests that were judged so.
const (
	resent        = "a request was sent again when its delay was over"
	resentRead    = "a read was sent again when its delay was over"
	resentByMap   = "a request was sent again because the error map says so"
	resentAsNamed = "a request was sent again because the program says so"
)

// callbackSlack is how much longer a delay may be because callbacks block: the log's handler does, several times on one
// way.
const callbackSlack = 10 * longestLog

// The longest delay of the client's own strategies, with what the simulation's strategy takes to ask them.
const bestEffortMost = 500*time.Millisecond + 500*time.Microsecond

// answersAlone reports whether a call has failed for nothing but answers of nodes: then it has always had a way.
func answersAlone(rs retry.Reasons) bool {
	for why := range rs.All() {
		if why != retry.KVNotMyVBucket && !answeredReason(why) {
			return false
		}
	}
	return true
}

// asksAgain is the reason for which an answer has its request sent again; Unknown for any other answer. The error map
// decides about a status that the client leaves to it. known is false when the client may be without the node's map:
// the connection has taken none, or the node has left, perhaps a moment ago, so that the answer may have come over the
// connection of before.
func (w *world) asksAgain(s *sent) (why retry.Reason, known bool) {
	m := meaningOf(s.same.op, s.status, s.cas)
	switch {
	case s.named.why != retry.Unknown:
		return s.named.why, true
	case !m.asks:
		return m.why, true
	case !s.over.mapped.Load(), !w.isMember(s.over.addr, s.answered.Sub(w.began)), w.hasLeft(s.over.addr, s.answered):
		return retry.Unknown, false
	}
	e := w.errorMap[s.status]
	if !e.again || m.changed && e.changed && !onlyReads(s.same.op) { // what changes must not be executed twice
		return retry.Unknown, true
	}
	return retry.KVErrorMapRetryIndicated, true
}

// judged is when the client has judged an answer: at once, unless the program had to name the reason.
func (s *sent) judged() time.Time {
	if s.named.why != retry.Unknown {
		return s.named.at
	}
	return s.answered
}

// resending is a call on its way from one request to the next.
type resending struct {
	w     *world
	e     *entry
	later map[uint16][]*sent       // requests that can be told apart, by their vbuckets
	asked map[uint32]time.Duration // when a node first did not know a collection, by its id: see overtaken
	steps int                      // of the backoff, or one more than those
	moved bool                     // a node was not that of the vbucket: one retry may have come at once, and was no step then
	free  bool                     // that retry has been seen
}

// checkResends judges all calls.
func (w *world) checkResends() {
	of, later := map[identity][]*sent{}, map[uint16][]*sent{}
	began, asked := map[identity]time.Duration{}, map[uint32]time.Duration{}
	for _, e := range w.ledger {
		if id, alone := e.identity(); alone {
			began[id] = e.began
		}
	}
	for _, s := range w.facts.traffic {
		if at, known := asked[s.cid]; s.status == memd.StatusUnknownCollection && (!known || s.at.Sub(w.began) < at) {
			asked[s.cid] = s.at.Sub(w.began)
		}
		if at, alone := began[s.same]; alone {
			s.began = at
			of[s.same] = append(of[s.same], s)
			later[s.vbucket] = append(later[s.vbucket], s)
		}
	}
	for _, e := range w.ledger {
		if id, alone := e.identity(); alone && e.ends.Load() == 1 {
			(&resending{w: w, e: e, later: later, asked: asked}).check(of[id])
		}
	}
}

// check judges what followed each answer.
func (r *resending) check(of []*sent) {
	for i, s := range of {
		answered, next := s.judged().Sub(r.w.began), r.e.ended
		last := i+1 == len(of)
		why, sure := r.w.asksAgain(s)
		if why == retry.KVCollectionOutdated && r.e.idAlone() {
			why = retry.Unknown
		}
		if !last {
			next = of[i+1].at.Sub(r.w.began)
		}
		if s.answered.IsZero() || s.distrusted && verbTable[r.e.verb].reads || answered > next {
			r.steps++ // it was lost, or its answer was not heeded, or came too late
			continue
		}
		least, most, known := r.delay(why, answered, next)
		switch gap := next - answered; {
		case !last && sure && why == retry.Unknown:
			r.bad("it was sent again", s)
		case last && r.gaveUp(s, why, answered):
			r.bad("it ended with an answer for which it is sent again", s)
		case !last && gap < least && r.moved && !r.free && sentElsewhere(why):
			r.free = true
			continue
		case !last && gap < least:
			r.bad("it was sent again too soon", s)
		case !last && s.named.why != retry.Unknown && !r.e.reasons.Has(why):
			r.bad("it was not sent again for "+why.String(), s)
		case known && gap > most && r.overtaken(s, answered+most, next):
			r.bad("it was not sent again in time, and calls that began later were", s)
		case known && !last:
			r.w.report.Reached[resent]++
			if verbTable[r.e.verb].reads {
				r.w.report.Reached[resentRead]++
			}
			if why == retry.KVErrorMapRetryIndicated {
				r.w.report.Reached[resentByMap]++
			}
			if s.named.why != retry.Unknown {
				r.w.report.Reached[resentAsNamed]++
			}
		}
		r.steps++
	}
}

func (r *resending) bad(what string, s *sent) {
	r.w.report.violateWith("P6", func() []string { return r.w.history(r.e.key) }, "%s: %s, after the answer %v at %v",
		r.e, what, s.status, s.answered.Sub(r.w.began))
}

// delay is how long the call waits after an answer. known says that the longest delay is.
func (r *resending) delay(why retry.Reason, answered, next time.Duration) (least, most time.Duration, known bool) {
	alone := answersAlone(r.e.reasons)
	switch {
	case sentElsewhere(why):
		r.moved = r.moved || why == retry.KVNotMyVBucket
		least = elsewhereWait(r.steps)
		// where vbuckets move, the next node may be another one
		return least, least + callbackSlack, alone && why == retry.KVNotMyVBucket && !r.w.topology && !r.w.loses()
	case !answeredReason(why):
		return 0, 0, false
	case r.e.polite:
		return max(politeLeast(r.steps, r.moved), time.Millisecond), bestEffortMost + callbackSlack, alone
	}
	i := slices.IndexFunc(r.e.answers, func(a answer) bool { return a.at >= answered && a.at < next && a.why == why })
	if i < 0 {
		return 0, 0, false
	}
	said, again := r.e.answers[i].of.Delay()
	return 0, r.e.answers[i].at - answered + max(said, time.Millisecond) + callbackSlack, again && alone
}

// politeLeast is the shortest delay of the client's own strategies: half of what doubles from a millisecond on.
func politeLeast(steps int, moved bool) time.Duration {
	if moved {
		steps-- // one may have been none
	}
	return min(time.Millisecond<<min(max(steps, 0), 9), 500*time.Millisecond) / 2
}

// gaveUp reports whether the call ended with an answer for which it is to be sent again, instead of by its deadline,
// its context or a limit, or because there was no way.
func (r *resending) gaveUp(s *sent, why retry.Reason, answered time.Duration) bool {
	kind := meaningOf(s.same.op, s.status, s.cas).kind
	if !r.w.left(r.e.reasons) || !sentElsewhere(why) && !answeredReason(why) || cberr.KindOf(r.e.err) != kind ||
		errors.Is(r.e.err, retry.ErrClosed) || errors.Is(r.e.err, retry.ErrTooManyInRetry) ||
		errors.Is(r.e.err, context.Canceled) { // which is of the kind of the answer to a scan that was canceled
		return false
	}
	return sentElsewhere(why) || r.e.polite || slices.ContainsFunc(r.e.answers, func(a answer) bool {
		_, again := a.of.Delay()
		return a.at >= answered && a.at <= r.e.ended && a.why == why && again
	})
}

// overtaken reports whether a call that began after an instant has sent a request before another one, over the
// connection on which s was answered and for its vbucket and collection. Calls that wait for one place are in order.
// With small limits or several connections it cannot be told whether they do. Nor can it when a node has not known the
// collection: the client asks for its id, and not every call waits for that if it is the default collection.
func (r *resending) overtaken(s *sent, from, until time.Duration) bool {
	asked, doubted := r.asked[s.cid]
	if r.w.tight || r.w.connections > 1 || doubted && asked < until {
		return false
	}
	return slices.ContainsFunc(r.later[s.vbucket], func(o *sent) bool {
		return o.over == s.over && o.cid == s.cid && o.began > from && o.at.Sub(r.w.began) < until
	})
}

// left reports whether a request of the call has left for each reason in the set: the attempt before the retry was
// answered, or was in flight. What TLS has not written whole counts as in flight, too.
func (w *world) left(rs retry.Reasons) bool {
	for why := range rs.All() {
		if why == retry.SocketClosedWhileInFlight && !w.tls || why == retry.KVCollectionOutdated {
			continue
		}
		if why != retry.KVNotMyVBucket && !answeredReason(why) {
			return false
		}
	}
	return true
}

// retriesCounted counts the calls with retries that checkRetries has judged.
const retriesCounted = "a call had as many requests as it says"

// checkRetries judges how often a call says that it was tried again, by its requests (P15). It has one more where each
// retry has left the client; what a call says of its reasons tells where.
func (w *world) checkRetries() {
	of := map[identity]int{}
	for _, s := range w.facts.traffic {
		of[s.same]++
	}
	for _, e := range w.ledger {
		id, alone := e.identity()
		if !alone || !e.succeeded() || !w.left(e.reasons) {
			continue
		}
		if of[id] != e.retries+1 {
			w.report.violateWith("P15", func() []string { return w.history(e.key) },
				"%s: it says that it was tried again %d times, for %v, and %d requests of it have left", e, e.retries,
				e.reasons, of[id])
		}
		if e.retries > 0 {
			w.report.Reached[retriesCounted]++
		}
	}
}
