package sim

import (
	"bytes"
	"errors"
	"slices"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Terminal causes (P6): a call with the default strategy ends when it is told of one, and it is told when it cannot be
// sent because its node refuses the login or the bucket. What nodes have answered to logins is seen by the client's end
// of each connection.

// cause has the reasons for which the default strategy gives up, and the errors of calls that end for them.
var cause = map[retry.Reason]error{
	retry.AuthenticationError: cberr.AuthenticationFailure,
	retry.TLSError:            cberr.TLSFailure,
	retry.BucketAccessError:   cberr.BucketAccess,
	retry.ScopeNotFound:       cberr.ScopeNotFound,
	retry.CollectionNotFound:  cberr.CollectionNotFound,
}

// tells notes that the strategy of all was told why a call's attempt has failed.
func (w *world) tells(e *entry, why retry.Reason) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e.told.why == retry.Unknown && cause[why] != nil {
		e.told = answer{at: w.since(), why: why}
	}
}

// login is a node's answer to a step of a login, of which the last one selects the bucket.
type login struct {
	at      time.Time
	over    *wire
	bucket  bool // it is about the bucket
	refused bool
	auths   int // logins that had been begun over the connection
}

// logsIn notes an answer to a step of a login.
func (w *wire) logsIn(op memd.Opcode, st memd.Status, packet []byte) {
	l := login{at: time.Now(), over: w, bucket: op == memd.OpSelectBucket}
	switch op {
	case memd.OpSASLListMechs:
		w.noneElse = !bytes.Contains(packet, []byte("SCRAM"))
		return
	case memd.OpSASLAuth, memd.OpSASLStep:
		l.refused = st == memd.StatusAuthError
	case memd.OpSelectBucket:
		l.refused = st == memd.StatusAccess
	default:
		return
	}
	if !l.refused && st != memd.StatusSuccess || w.aside {
		return
	}
	w.tap.mu.Lock()
	defer w.tap.mu.Unlock()
	l.auths = w.auths
	w.tap.logins = append(w.tap.logins, l)
}

// withoutWay is since when a node has been without a connection at an instant; false: it has one.
func (w *world) withoutWay(addr string, at time.Duration) (since time.Duration, ok bool) {
	for _, l := range w.facts.logins {
		closed := l.over.ended
		switch {
		case !l.of(addr) || !l.bucket || l.refused || l.at.Sub(w.began) > at:
		case closed.IsZero() || closed.Sub(w.began) >= at:
			return 0, false
		default:
			since = max(since, closed.Sub(w.began))
		}
	}
	return since, true
}

// of reports whether the answer is that of a node.
func (l login) of(addr string) bool { return addr == everywhere || l.over.addr == addr }

// refusedAt is since when a node has refused logins, or the bucket, at an instant: until it accepts one, or for the
// bucket until any node lets it be selected. Only connections count that were begun to be made after from. Answers of a
// node that takes passwords in the clear alone do not count, nor those after which the client has tried another
// mechanism: it was not the login that was refused.
func (w *world) refusedAt(addr string, bucket bool, from, at time.Duration) (since time.Duration, refused bool) {
	for _, l := range w.facts.logins {
		switch {
		case l.at.Sub(w.began) > at || l.bucket != bucket || l.refused && (l.over.noneElse || l.over.auths > l.auths):
		case !l.refused && (bucket || l.of(addr)):
			refused = false
		case l.refused && !refused && l.of(addr) && l.over.began.Sub(w.began) >= from:
			since, refused = l.at.Sub(w.began), true
		}
	}
	return since, refused
}

// What a large set of seeds comes to.
const (
	toldAtOnce = "a call ended when it was told of a terminal cause"
)

// noWays are the terminal causes that keep calls from a node, or from all of them.
var noWays = []retry.Reason{retry.AuthenticationError, retry.TLSError, retry.BucketAccessError}

// refusedFor is what a large set of seeds comes to for each of those.
func refusedFor(why retry.Reason) string {
	return "a call that had no way ended soon for " + why.String()
}

// How long a call waits at most when its way has been refused.
const (
	handshakesMost = 250 * time.Millisecond          // for handshakes that go on
	terminalMost   = bestEffortMost + handshakesMost // before that for a retry, if it had begun to wait for it already
)

// checkTerminal judges all calls with the default strategy.
func (w *world) checkTerminal() {
	left := map[request][]time.Duration{}
	for _, s := range w.facts.traffic {
		rq := request{s.same.op, s.same.key}
		left[rq] = append(left[rq], s.at.Sub(w.began))
	}
	for _, e := range w.ledger {
		if e.own || e.batch || verbTable[e.verb].parts || e.ends.Load() != 1 {
			continue
		}
		w.checkTold(e)
		if !slices.ContainsFunc(left[request{e.verb.op(), e.key}], func(at time.Duration) bool {
			return at >= e.began && at <= e.ended
		}) {
			w.checkRefused(e)
		}
	}
}

// doubted is when a node has first not known a collection.
func (w *world) doubted() time.Duration {
	at := w.finished
	for _, s := range w.facts.traffic {
		if s.status == memd.StatusUnknownCollection {
			at = min(at, s.at.Sub(w.began))
		}
	}
	return at
}

// moved reports whether a call's vbucket has had another node since the call began, or none, as it or later calls have
// found.
func (w *world) moved(e *entry) bool {
	return e.moved || e.reasons.Has(retry.NodeNotAvailable) || slices.ContainsFunc(w.ledger, func(o *entry) bool {
		return o.located && o.vbucket == e.vbucket && o.node != e.node && o.began >= e.began && o.began <= e.ended
	})
}

// checkTold judges what became of a call whose strategy was told of a terminal cause.
func (w *world) checkTold(e *entry) {
	if e.told.why == retry.Unknown {
		return
	}
	if e.ended-e.told.at > callbackSlack {
		w.report.violateWith("P6", func() []string { return w.history(e.key) },
			"%s: at %v it was told of %v, and it went on", e, e.told.at, e.told.why)
		return
	}
	if !errors.Is(e.err, cause[e.told.why]) && !e.endedElse() {
		w.report.violateWith("P6", func() []string { return w.history(e.key) },
			"%s: at %v it was told of %v, and its error does not say that", e, e.told.at, e.told.why)
		return
	}
	w.report.Reached[toldAtOnce]++
}

// endedElse reports whether the call's end came from outside.
func (e *entry) endedElse() bool {
	return errors.Is(e.err, cberr.Timeout) || errors.Is(e.err, cberr.RequestCanceled) ||
		errors.Is(e.err, retry.ErrClosed)
}

// checkRefused judges how long a call took of which nothing was sent because its node refuses logins, because no node
// lets the bucket be selected, or because the client refuses what its node shows in the handshake of TLS.
func (w *world) checkRefused(e *entry) {
	if e.node == "" {
		return
	}
	w.endsSoon(e, e.node, retry.AuthenticationError, func(from time.Duration) (time.Duration, bool) {
		return w.refusedAt(e.node, false, from, e.ended)
	})
	w.endsSoon(e, e.node, retry.TLSError, func(from time.Duration) (time.Duration, bool) {
		return w.distrustedAt(e.node, from, e.ended)
	})
	if !w.topology && !w.loses() { // a node that has left has refused nothing
		w.endsSoon(e, everywhere, retry.BucketAccessError, func(from time.Duration) (time.Duration, bool) {
			return w.refusedAt(everywhere, true, from, e.ended)
		})
	}
}

// distrustedAt is since when the client has ended handshakes with a node by an alert, at an instant: until one is
// finished. Only connections count that were begun to be made after from.
func (w *world) distrustedAt(addr string, from, at time.Duration) (since time.Duration, distrusted bool) {
	var trusted time.Duration
	ways := slices.DeleteFunc(slices.Clone(w.tap.secret), func(c *wire) bool { return c.addr != addr || c.aside })
	for _, c := range ways {
		if t := c.secret.finished.Sub(w.began); t <= at {
			trusted = max(trusted, t)
		}
	}
	since = at
	for _, c := range ways {
		t := c.secret.refused.Sub(w.began)
		if !c.secret.refused.IsZero() && c.began.Sub(w.began) >= from && t > trusted && t <= since {
			since, distrusted = t, true
		}
	}
	return since, distrusted
}

// endsSoon judges a call whose way to a node, or to any, has been refused; at says since when, by connections that were
// begun to be made after an instant. What was refused to a connection that was begun to be made while another one
// worked does not count: it was to take the place of that one. Nor does what was refused to another password.
func (w *world) endsSoon(
	e *entry, addr string, why retry.Reason, at func(from time.Duration) (time.Duration, bool),
) {
	from, none := w.withoutWay(addr, e.ended)
	for _, at := range w.renewed {
		if at <= e.ended {
			from = max(from, at)
		}
	}
	since, refused := at(from)
	refused = refused && (addr == everywhere || w.staysMember(addr, since, e.ended))
	most := terminalMost
	if since < e.began {
		since, most = e.began, handshakesMost
	}
	switch {
	case !refused || !none || since > e.ended || w.moved(e):
	case e.ended-since > most:
		w.report.violateWith("P6", func() []string { return w.history(e.key) },
			"%s: its way to %q has been refused since %v, and it ended at %v", e, addr, since, e.ended)
	case e.told.why == why:
		w.report.Reached[refusedFor(why)]++
	}
}
