package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/internal/call"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// The apply log cannot show a request that was sent a second time while the first was lost on its way: it is applied
// once, by luck. Therefore the client's end of each connection keeps what it was given, whatever became of it: a
// request counts as sent when the network has taken its last byte, and as answered when the client has been handed the
// last byte of an answer with its opaque.

// sent is one request for a document, as the client has handed it to the network.
type sent struct {
	same     identity
	at       time.Time
	answered time.Time // zero when no answer was handed to the client
	over     *wire     // the connection
	cas      bool      // it has one
	copy     bool      // it asks a replica
	cid      uint32    // of its collection
	vbucket  uint16
	heading  string        // the host of the node that the vbucket moves to, as a refusal's map says; "" for none
	status   memd.Status   // of the answer
	named    named         // why it is sent again all the same
	began    time.Duration // of its call; checkResends sets it
	// The answer cannot be trusted: the client closes the connection, and takes the request for lost.
	distrusted bool
}

// identity tells the requests of one call from those of others, where that can be: it has a token, or a key for which
// no other call asks with its opcode.
type identity struct {
	op         memd.Opcode
	key, token string
}

// identity is that of the entry's requests; false when other calls' requests look alike.
func (e *entry) identity() (identity, bool) {
	id := identity{e.verb.op(), e.key, e.token}
	if e.expiry != 0 {
		id.token = fmt.Sprint(e.expiry)
	}
	return id, id.token != "" || e.alone || verbTable[e.verb].once
}

// outgoing takes what the network has accepted from the client.
func (w *wire) outgoing(b []byte) {
	w.out = append(w.out, b...)
	for !w.garbled {
		var p memd.Packet
		n, err := p.Parse(w.out, 0)
		if errors.Is(err, memd.ErrShort) {
			return
		}
		if w.garbled = err != nil; w.garbled {
			return
		}
		if p.Opcode == memd.OpSASLAuth {
			w.tap.mu.Lock()
			w.auths++
			w.tap.mu.Unlock()
		}
		document := slices.Contains(documentOps(), p.Opcode)
		if document || p.Opcode == memd.OpCollectionsGetID {
			w.leaving(&p, document)
		}
		w.out = w.out[n:]
	}
}

// leaving notes a request for a document, or for the id of a collection.
func (w *wire) leaving(p *memd.Packet, document bool) {
	s := &sent{same: identity{op: p.Opcode, key: string(p.Key)}, at: time.Now(), over: w, vbucket: p.VBucket}
	switch {
	case !document:
		s.same.key = string(p.Value)
	case !w.noPrefix.Load():
		s.cid, _, _ = memd.ParseLEB128(p.Key) // what the client makes is whole
		s.same.key = documentKey(s.same.key)
	}
	s.cas, s.copy = p.CAS != 0, asksCopy(p)
	if document {
		s.same.token = sentToken(p)
	}
	w.tap.mu.Lock()
	if w.busy = w.busy || document; document {
		w.tap.traffic = append(w.tap.traffic, s)
	}
	if w.waiting == nil {
		w.waiting = map[uint32]*sent{}
	}
	w.waiting[p.Opaque] = s
	w.tap.mu.Unlock()
	w.leaves(s)
}

// incoming notes that the client has been handed an answer, and gives the request that it answers, if it is one that
// leaving has noted.
func (w *wire) incoming(opaque uint32, status memd.Status) *sent {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	s := w.waiting[opaque]
	if s != nil {
		s.answered, s.status = time.Now(), status
		delete(w.waiting, opaque)
		w.tap.answers[place{w.LocalAddr().String(), opaque}] = s
	}
	return s
}

// checkTraffic judges from the requests that left what the calls say of themselves: a mutation is not sent again while
// an earlier request of it is without an answer (P2); a failure that claims that nothing was applied has no such
// request, and one in doubt has had some request (P4). The first two do not hold for what only reads.
func (w *world) checkTraffic() {
	of := map[identity][]*sent{}
	for _, s := range w.facts.traffic {
		of[s.same] = append(of[s.same], s)
	}
	for _, e := range w.ledger {
		id, alone := e.identity()
		if !alone {
			continue
		}
		bad := func(property, what string) {
			w.report.violateWith(property, func() []string { return w.history(e.key) }, "%s: %s", e, what)
		}
		open, changes := false, !verbTable[e.verb].reads
		for i, s := range of[id] {
			if changes && i > 0 && of[id][i-1].openAt(s.at) {
				bad("P2", "it was sent again while an earlier request of it had no answer")
			}
			open = open || s.openAt(w.began.Add(e.ended))
			if i > 0 && headed(of[id][i-1], s) {
				w.report.Reached[string(movedAhead)]++
			}
			if !s.answered.IsZero() && s.answered.After(w.began.Add(e.ended)) {
				w.report.Reached[string(afterItsCall)]++
				w.report.Reached[e.lateAnswer()]++
			}
		}
		if phase := e.endPhase(len(of[id]) > 0, open); phase != "" {
			w.report.Reached[phase]++
		}
		if e.endedInQueue(len(of[id]) > 0) {
			w.report.Reached[canceledQueued]++
		}
		if w.wentOn(e, of[id]) {
			w.report.Reached[rerouted]++
		}
		switch {
		case changes && e.outcome == failed && open:
			bad("P4", "it claims that it was not applied, but a request of it has no answer")
		case e.outcome == doubtful && len(of[id]) == 0:
			bad("P4", "it is in doubt, but no request of it has left")
		}
	}
}

// The phases of a call in which it is ended from outside: a large set of seeds has to come to each of them.
const (
	closedUnsent     = "ended by Close before it was sent"
	closedInFlight   = "ended by Close in flight"
	closedParked     = "ended by Close while it waited for its retry"
	canceledUnsent   = "canceled before anything of it was sent"
	canceledQueued   = "canceled between its queue and its write"
	canceledInFlight = "canceled in flight"
	canceledParked   = "canceled while it waited for its retry"
)

// What else a large set has to come to.
const (
	rerouted      = "went on from the queue of a node that left, without an attempt"
	afterCancel   = "an answer after its call was canceled"
	afterDeadline = "an answer after the deadline of its call"
	afterOther    = "an answer after another end of its call"
)

// lateAnswer is what an answer was late for.
func (e *entry) lateAnswer() string {
	switch {
	case errors.Is(e.err, context.Canceled):
		return afterCancel
	case errors.Is(e.err, cberr.Timeout):
		return afterDeadline
	}
	return afterOther
}

// endedInQueue reports whether the call's context was canceled while it waited for a connection, or for room on one.
func (e *entry) endedInQueue(sent bool) bool {
	var ke *call.Error
	return !sent && errors.Is(e.err, context.Canceled) && errors.As(e.err, &ke) &&
		(ke.Stage == call.StageConnection.String() || ke.Stage == call.StageRoom.String())
}

// wentOn reports whether the call waited for a node that then left, and succeeded on another one without a retry. Had
// its node been connected, its first request would have left at the call's beginning.
func (w *world) wentOn(e *entry, of []*sent) bool {
	if e.node == "" || len(of) != 1 || e.outcome != done || e.retries > 0 {
		return false
	}
	at := of[0].at.Sub(w.began)
	return at > e.began && of[0].over.addr != e.node && w.isMember(e.node, e.began) && !w.isMember(e.node, at)
}

// endPhase is the phase in which Close or its context has ended a call; "" for other calls. Sent says whether a
// request of it has left, open whether one has no answer.
func (e *entry) endPhase(sent, open bool) string {
	pick := func(unsent, inFlight, parked string) string {
		switch {
		case !sent:
			return unsent
		case open:
			return inFlight
		}
		return parked
	}
	switch {
	case errors.Is(e.err, retry.ErrClosed):
		return pick(closedUnsent, closedInFlight, closedParked)
	case errors.Is(e.err, context.Canceled):
		return pick(canceledUnsent, canceledInFlight, canceledParked)
	}
	return ""
}

// checkInFlight judges how many calls waited for an answer on one connection at one time: no more than the limit (P12).
// Of those that cannot be told from others', which are most reads, none is counted.
func (w *world) checkInFlight() {
	_, _, most := w.limits()
	if most == 0 {
		return
	}
	ends := map[identity]time.Time{}
	for _, e := range w.ledger {
		if id, alone := e.identity(); alone {
			ends[id] = w.began.Add(e.ended)
		}
	}
	type step struct {
		at time.Time
		by int
	}
	steps := map[*wire][]step{}
	for _, s := range w.facts.traffic {
		end, alone := ends[s.same]
		if !alone {
			continue
		}
		if !s.answered.IsZero() && s.answered.Before(end) {
			end = s.answered
		}
		if end.After(s.at) {
			steps[s.over] = append(steps[s.over], step{s.at, 1}, step{end, -1})
		}
	}
	worst := 0
	for _, l := range steps {
		slices.SortFunc(l, func(a, b step) int { return cmp.Or(a.at.Compare(b.at), a.by-b.by) })
		n := 0
		for _, st := range l {
			n += st.by
			worst = max(worst, n)
		}
	}
	if worst > most {
		w.report.violate("P12", "%d calls waited for an answer on one connection at one time, the limit is %d", worst,
			most)
	}
}

// openAt reports whether the request had no answer at an instant.
func (s *sent) openAt(at time.Time) bool { return s.answered.IsZero() || s.answered.After(at) }
