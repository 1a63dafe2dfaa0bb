package sim

import (
	"time"

	"github.com/couchcore/couchcore/memd"
)

// Connections that an answer has given up, by what the error map says of its status: the client makes another one in
// their place, and sends nothing more over them from then on (P6). When the other one cannot be made, the old one
// stays.

// renewals is how long a connection is kept at least before an answer has it replaced.
const renewals = time.Second

// givenUp is such an answer.
type givenUp struct {
	by   *sent // the answered request
	kept bool  // digests later the client had not begun to connect
}

// givesUp looks at an answer that may give its connection up. The lock is held.
func (w *world) givesUp(s *sent, p *memd.Packet) {
	if p.Status != statusBreaks || !s.over.mapped.Load() {
		return
	}
	now, addr := time.Now(), s.over.addr
	last := w.lastGivenUp[addr]
	w.lastGivenUp[addr] = now
	if now.Sub(last) < 2*renewals || w.dialed(addr) > s.over.number || !w.moods.polite() {
		return
	}
	if now.Sub(w.lastDial(addr)) < 2*renewals { // soon after a connection another one may have to wait
		return
	}
	g := &givenUp{by: s}
	w.given = append(w.given, g)
	w.later.call(digests, func() {
		g.kept = w.dialed(addr) == s.over.number && w.moods.polite()
	})
}

// lastDial is when a node was dialled last.
func (w *world) lastDial(addr string) time.Time {
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	at := w.tap.dials[addr]
	return at[len(at)-1] // there is a connection
}

// polite reports whether all callbacks behave at the moment.
func (m *moods) polite() bool {
	for c := range callbackCount {
		if manners(m.now[c].Load()) != polite {
			return false
		}
	}
	return true
}

// checkGivenUp judges them: the client need not look at answers to calls that have ended. Only requests of calls that
// began later count, because others may have waited for the network.
func (w *world) checkGivenUp() {
	began := map[identity]time.Time{}
	for _, e := range w.ledger {
		if id, alone := e.identity(); alone {
			began[id] = w.began.Add(e.began)
		}
	}
	for _, g := range w.given {
		from, replaced := w.replaced(g)
		if !replaced || !w.awaited(g.by) {
			continue
		}
		for _, s := range w.facts.traffic {
			if s.over == g.by.over && began[s.same].After(from) {
				w.report.violate("P6", "%v after the beginning an answer gave up a connection to %s, and a request "+
					"for %s went over it %v later", g.by.answered.Sub(w.began), g.by.over.addr, s.same.key,
					s.at.Sub(g.by.answered))
				return
			}
		}
	}
}

// replaced is from when on nothing may go over a connection that an answer has given up: at once, if the client has not
// begun to connect, and from the first request over the next connection. With several to a node that cannot be told
// from the others.
func (w *world) replaced(g *givenUp) (from time.Time, ok bool) {
	if g.kept {
		return g.by.answered.Add(digests), true
	}
	for _, s := range w.facts.traffic {
		if s.over.addr == g.by.over.addr && s.over.number > g.by.over.number {
			return s.at.Add(digests), w.connections == 1
		}
	}
	return from, false
}

// awaited reports whether a call waited for the answer to a request, which may have ended it.
func (w *world) awaited(s *sent) bool {
	at, answered := s.at.Sub(w.began), s.answered.Sub(w.began)
	for _, e := range w.ledger {
		if e.verb.op() == s.same.op && e.key == s.same.key && e.began <= at && e.ended >= answered {
			return true
		}
	}
	return false
}
