package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// facts are what the cluster has recorded.
type facts struct {
	applied []mock.Applied
	frames  []mock.Frame
	parked  int // most calls that waited for a retry at one time
	dials   map[string][]time.Time
	traffic []*sent
	logins  []login

	byToken map[string]int
	byKey   map[string]int  // counters
	removed map[string]int  // deletions by key
	touched map[request]int // expiries that were set, of documents of visits
	sent    map[request]int
}

// request is what tells requests of different calls apart, as far as their key does.
type request struct {
	op  memd.Opcode
	key string
}

// collect takes the records over from the cluster, before it ends.
func (w *world) collect() {
	f := &facts{
		applied: append(w.applied, w.m.ApplyLog(bucketName)...), frames: w.m.FrameLog(), parked: w.parked,
		dials: w.tap.dials, traffic: w.tap.traffic, logins: w.tap.logins,
		byToken: map[string]int{}, byKey: map[string]int{}, removed: map[string]int{}, touched: map[request]int{},
		sent: map[request]int{},
	}
	for i := range f.applied {
		a := &f.applied[i]
		a.Token = tokenOf([]byte(a.Token))
		switch a.Opcode {
		case memd.OpIncrement, memd.OpDecrement:
			f.byKey[a.Key]++
		case memd.OpDelete:
			f.removed[a.Key]++
		case memd.OpTouch, memd.OpGAT:
			f.touched[request{a.Opcode, a.Key}]++
		default:
			f.byToken[a.Token]++
		}
	}
	w.checkLogins(f.frames)
	for i := range f.frames {
		if slices.Contains(documentOps(), f.frames[i].Opcode) {
			f.frames[i].Key = f.frames[i].Document
		} else {
			f.frames[i].Key = "" // that of HELLO names the client, by an id that is random
		}
		f.sent[request{f.frames[i].Opcode, f.frames[i].Key}]++
	}
	w.finished = w.since()
	w.facts = f
	w.report.Frames = len(f.frames)
}

// documentKey takes the collection's prefix off a key.
func documentKey(k string) string {
	for i := range len(k) {
		if k[i] < 0x80 {
			return k[i+1:]
		}
	}
	return k
}

// count is how often a call's mutation was applied; false when it cannot be told from others'.
func (f *facts) count(e *entry) (int, bool) {
	switch e.verb {
	case increment, decrement:
		return f.byKey[e.key], true
	default:
		return f.byToken[e.token], e.token != ""
	}
}

// check judges the run. It runs outside of the bubble.
func (w *world) check() {
	r := w.report
	r.Plan, r.Encrypted = w.plan.String(), w.tls
	if w.facts == nil {
		return
	}
	for _, e := range w.ledger {
		w.checkCall(e)
		r.Outcomes[e.outcome.String()]++
	}
	r.Ops = len(w.ledger)
	w.checkRemovals()
	w.checkTouches()
	w.checkStatements()
	w.checkLooked()
	w.checkScans()
	w.checkSent()
	w.checkDurability()
	w.checkUnused()
	w.checkIDs()
	w.checkGivenUp()
	w.checkAnswers()
	w.checkResends()
	w.checkTerminal()
	w.checkWakes()
	w.checkErrors()
	w.checkTraffic()
	w.lookAtHedges()
	w.checkCertificates()
	w.checkAuthorized()
	w.checkDialled()
	w.checkInFlight()
	w.checkDials()
	w.checkClosings()
	w.checkDriven()
	if most, _, _ := w.limits(); most > 0 && w.facts.parked > most {
		r.violate("P12", "%d calls waited for a retry at one time, the limit is %d", w.facts.parked, most)
	}
	w.checkQueued()
	w.checkHistories()
	w.checkLogs()
	w.checkVisits()
	w.checkBalance()
	w.checkCounts()
	w.checkRetries()
	w.checkDurations()
	r.Trace, r.Virtual = w.hash(), w.virtual.Round(time.Millisecond).String()
	r.showEvents()
}

// ambiguousTimeout is before how often a call was applied that ended so.
const ambiguousTimeout = "an ambiguous timeout, how often applied: "

// checkCall judges one call: P1 to P4 and P9.
func (w *world) checkCall(e *entry) {
	r := w.report
	bad := func(property, format string, args ...any) {
		r.violateWith(property, func() []string { return w.history(e.key) }, "%s: %s", e, fmt.Sprintf(format, args...))
	}
	if n := e.ends.Load(); n != 1 {
		bad("P1", "it ended %d times", n)
		return
	}
	limit := e.limit
	if e.cancelAt > 0 {
		limit = min(limit, e.cancelAt-e.began+cancelSlack)
	}
	if took := e.ended - e.began; took > limit {
		bad("P1", "it took %v", took)
	}
	n, known := w.facts.count(e)
	if known {
		w.checkCount(e, n, bad)
	}
	lost := e.outcome == doubtful && e.began < w.broken.to && e.ended >= w.broken.from
	if e.calm && !e.succeeded() && !lost {
		bad("P9", "it failed %v after the last fault was over", e.began-w.faulted)
	}
	if e.outcome == doubtful && known {
		r.Reached[fmt.Sprintf("in doubt, applied %d times", n)]++
		if errors.Is(e.err, cberr.AmbiguousTimeout) {
			r.Reached[ambiguousTimeout+strconv.Itoa(n)]++
		}
	}
	w.checkOwn(e)
	w.checkID(e)
	if k := cberr.KindOf(e.err); k != nil {
		r.Reached[errorPrefix+k.Name()]++
	}
	if e.outcome == done {
		r.Reached[donePrefix+e.verb.String()]++
	}
	if errors.Is(e.err, retry.ErrClosed) {
		r.Reached["ended by Close"]++
	}
}

func (w *world) checkCount(e *entry, n int, bad func(property, format string, args ...any)) {
	switch {
	case n > 1:
		w.report.AppliedTwice++
		bad("P2", "it was applied %d times", n)
	case e.outcome == done && n == 0:
		w.report.Lost++
		bad("P3", "it was never applied")
	case e.outcome != done && e.outcome != doubtful && n > 0:
		bad("P4", "it was applied")
	}
}

// checkRemovals judges what cannot be told apart call by call: the deletions of a document.
func (w *world) checkRemovals() {
	least, most := map[string]int{}, map[string]int{}
	for _, e := range w.ledger {
		if e.verb != remove {
			continue
		}
		if e.outcome == done {
			least[e.key]++
		}
		if e.outcome == done || e.outcome == doubtful {
			most[e.key]++
		}
	}
	for key, n := range w.facts.removed {
		if n > most[key] {
			w.report.AppliedTwice++
			w.report.violateWith("P2", func() []string { return w.history(key) },
				"%s was removed %d times, by %d calls at most", key, n, most[key])
		}
	}
	for key, n := range least {
		if w.facts.removed[key] < n {
			w.report.Lost++
			w.report.violateWith("P3", func() []string { return w.history(key) },
				"%s was removed %d times, by %d calls at least", key, w.facts.removed[key], n)
		}
	}
}

// checkTouches judges by their number the expiries that calls of one kind have set for a document. No two of them set
// the same, so each that succeeded was applied (P3). A request of such a call may be sent again, and is applied again
// when another expiry was set meanwhile; what says that it failed was applied by none of them (P4).
func (w *world) checkTouches() {
	least, most, left := map[request]int{}, map[request]int{}, map[identity]int{}
	for _, s := range w.facts.traffic {
		left[s.same]++
	}
	for _, e := range w.ledger {
		if e.expiry == 0 {
			continue
		}
		rq := request{e.verb.op(), e.key}
		if e.outcome == done {
			least[rq]++
		}
		if id, _ := e.identity(); e.outcome == done || e.outcome == doubtful {
			most[rq] += left[id]
		}
	}
	for rq, n := range w.facts.touched {
		if n > most[rq] {
			w.report.violateWith("P4", func() []string { return w.history(rq.key) },
				"%v of %s: %d were applied, of %d requests that did not fail", rq.op, rq.key, n, most[rq])
		}
	}
	for rq, n := range least {
		if got := w.facts.touched[rq]; got < n {
			w.report.Lost++
			w.report.violateWith("P3", func() []string { return w.history(rq.key) },
				"%v of %s: %d were applied, and %d have succeeded", rq.op, rq.key, got, n)
		}
	}
}

// Bounds of P10.
const (
	politeMost  = 60 // retries of a call with a strategy of the client's own: all schedules wait longer and longer
	politeWhole = 60 // and this many more where nodes push whole maps: what waits for a way looks at each of them
)

// checkSent judges how many requests there were.
func (w *world) checkSent() {
	politest := politeMost
	if w.whole {
		politest += politeWhole
	}
	allowed := map[request]int{}
	for _, e := range w.ledger {
		allowed[request{e.verb.op(), e.key}] += e.retries + 1
		if verbTable[e.verb].parts { // it says nothing of its calls
			allowed[request{memd.OpGet, e.key}] += politest
			allowed[request{memd.OpGetReplica, e.key}] += w.replicas * politest
			allowed[request{memd.OpSubdocMultiLookup, e.key}] += (w.replicas + 1) * politest
		}
		if e.polite && e.retries > politest {
			w.report.violateWith("P10", func() []string { return w.history(e.key) }, "%s: it was tried again %d times",
				e, e.retries)
		}
	}
	for rq, n := range w.facts.sent {
		if most, ours := allowed[rq]; ours && n > most {
			w.report.violateWith("P10", func() []string { return w.history(rq.key) },
				"%v of %s: %d requests, by the calls' own account %d at most", rq.op, rq.key, n, most)
		}
	}
}

// checkDurability judges whether each request of a call asked for what the call did (P6).
func (w *world) checkDurability() {
	durable := map[string]bool{}
	for _, e := range w.ledger {
		if e.token != "" && verbTable[e.verb].durable {
			durable[e.token] = e.durable
		}
	}
	for _, f := range w.facts.frames {
		if asked, known := durable[tokenOf(f.Value)]; known && asked != (f.Durability != 0) {
			w.report.violateWith("P6", func() []string { return w.history(f.Key) },
				"%v of %s = %s, asked to be durable: %t: a request of it has durability %d", f.Opcode, f.Key,
				tokenOf(f.Value), asked, f.Durability)
			return
		}
	}
}

// checkLogs judges the documents that calls have only added parts to, as they were read last.
func (w *world) checkLogs() {
	for key, value := range w.logs {
		count := countParts(value)
		for _, e := range w.ledger {
			if e.key != key || e.token == "" {
				continue
			}
			n := count[strings.TrimSuffix(e.token, partEnd)]
			if e.outcome == done && n != 1 || n > 1 || e.outcome == failed && n > 0 {
				w.report.violateWith("P3", func() []string { return w.history(key) },
					"%s: it is %d times in the document", e, n)
			}
		}
	}
}

// history are the last lines of what happened to a document: the calls, the requests, and what was applied.
func (w *world) history(key string) []string {
	var ls []event
	add := func(at time.Duration, format string, args ...any) {
		ls = append(ls, event{at, fmt.Sprintf(format, args...)})
	}
	for _, e := range w.ledger {
		if e.key == key {
			add(e.began, "begins  %s", e)
			add(e.ended, "ends    worker %d: %s %s %s, %d retries %v", e.worker, e.verb, e.token, e.outcome, e.retries,
				e.reasons)
		}
	}
	for _, f := range w.facts.frames {
		if f.Key == key {
			add(f.At.Sub(w.began), "request %v to node %d on connection %d, vbucket %d, opaque %08x", f.Opcode, f.Node,
				f.Conn, f.VBucket, f.Opaque)
		}
	}
	for _, a := range w.facts.applied {
		if a.Key == key {
			add(a.At.Sub(w.began), "applied %v %s on node %d, CAS %x -> %x", a.Opcode, a.Token, a.Node, a.CASBefore,
				a.CASAfter)
		}
	}
	return lastLines(ls)
}

// lastLines are the last lines of a history, in their order.
func lastLines(ls []event) []string {
	slices.SortStableFunc(ls, func(a, b event) int { return int(a.at - b.at) })
	if len(ls) > maxHistory {
		ls = ls[len(ls)-maxHistory:]
	}
	out := make([]string, 0, len(ls))
	for _, l := range ls {
		out = append(out, l.String())
	}
	return out
}

// maxHistory is how many lines a history has.
const maxHistory = 50
