package sim

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// Visits: in half of the runs some workers make documents of their own and call for them one after another, with
// operations of every kind. A document has parts, each with the token of the call that has added it: an array of JSON,
// or a text. Because nothing else calls for it, what a call reads of it is known but for what is in doubt.

const (
	visitors    = 3
	visitorBase = 10_000 // their numbers begin here
	partEnd     = ";"
	lockFor     = 2 * time.Second
	expiryBase  = 2_000_000_000 // long after the run; no two touches set the same
)

// visits reports whether there are visits. Documents must not go with a bucket that is emptied.
func (p *plan) visits() bool { return p.private && !p.loses() }

// tour is what a worker that makes visits has to know.
type tour struct {
	id, n int // its own number, and its next call's
	r     *source
	calm  bool // the faults have stopped
}

// visit makes visits until the worker has made its share of the calls.
func (w *world) visit(id int) {
	t := &tour{id: visitorBase + id, r: newSource(w.d, text("visitor"), uint64(id))}
	for t.n < w.Ops/8/visitors {
		w.callOn(t)
	}
}

// calmVisits makes some when the faults have stopped.
func (w *world) calmVisits() {
	t := &tour{id: visitorBase + visitors, r: newSource(w.d, text("calm visitor")), calm: true}
	sleep(context.Background(), w.faulted+w.calmGrace()-w.since())
	for range 6 {
		w.callOn(t)
	}
}

// callOn is one visit.
func (w *world) callOn(t *tour) {
	key, array := fmt.Sprintf("own-%d-%d", t.id, t.n), t.r.below(2) == 0
	made := w.add(t, key, insert, array)
	if made.outcome != done && made.outcome != doubtful {
		return
	}
	locked, asked := false, inquired{}
	for range 2 + t.r.below(9) {
		switch pick := t.r.below(26); {
		case pick > 16:
			w.inquire(t, key, array, asked)
		case pick < 5:
			w.add(t, key, extension(array, t.r), array)
		case pick < 7 && !asked.again(lookUp):
			w.step(t, &entry{key: key, verb: lookUp})
		case pick < 8 && w.replicas > 0 && !t.calm:
			w.step(t, &entry{key: key + []string{"", "-none"}[t.r.below(2)], verb: readCopy, replica: t.copy(w)})
		case pick < 10:
			w.step(t, &entry{key: key, verb: touch, expiry: t.expiry()})
		case pick < 12:
			w.step(t, &entry{key: key, verb: getTouch, expiry: t.expiry()})
		case pick < 13 && !locked:
			locked = true
			if e := w.step(t, &entry{key: key, verb: lock}); e.outcome == done {
				if !t.calm && t.r.below(2) == 0 {
					w.add(t, key, extension(array, t.r), array)
				}
				w.step(t, &entry{key: key, verb: unlock, cas: e.cas})
			}
		case pick > 13 && w.replicas > 0 && !w.tight: // the last read begins on a goroutine of its own
			w.step(t, &entry{key: key, verb: readAny})
		default:
			w.step(t, &entry{key: fmt.Sprintf("c-%d-%d", t.id, t.n), verb: decrement})
		}
	}
}

// copy is a replica: one that there is, or in one of eight cases one that there is not.
func (t *tour) copy(w *world) int {
	if t.r.below(8) == 0 {
		return w.replicas + 1
	}
	return 1 + t.r.below(w.replicas)
}

// expiry is one that no other touch sets.
func (t *tour) expiry() int64 { return int64(expiryBase + (t.id-visitorBase)*100_000 + t.n) }

// extension is a verb that adds a part.
func extension(array bool, r *source) verb {
	switch {
	case array:
		return []verb{pushTo, pushTo, pushTo, pushTo, pushLast, pushFirst, insertAt, addUnique}[r.below(8)]
	case r.below(2) == 0:
		return appendTo
	}
	return prependTo
}

// add adds a part to a document, or makes it with one.
func (w *world) add(t *tour, key string, of verb, array bool) *entry {
	e := &entry{key: key, verb: of, token: fmt.Sprintf("v-%d-%d", t.id, t.n)}
	if of == pushTo && !t.calm {
		e.more = paths(t.r.below(int(pathKinds)))
	}
	switch {
	case !array:
		e.token += partEnd
		e.value = e.token
	case of == insert:
		e.value = fmt.Sprintf("[%c%s%c]", quote, e.token, quote)
	default:
		e.value = fmt.Sprintf("%c%s%c", quote, e.token, quote)
	}
	return w.step(t, e)
}

// step makes one call of a visit.
func (w *world) step(t *tour, e *entry) *entry {
	r := t.r
	sleep(context.Background(), r.between(time.Microsecond, 2*w.pause))
	e.worker, e.number, e.private = t.id, t.n, true
	t.n++
	if t.calm {
		e.limit, e.calm, e.polite = 2500*time.Millisecond, true, true
		w.enter(e)
		in := kv.Common{Timeout: e.limit}
		e.addresses(&in)
		w.send(context.Background(), e, in, memd.DurabilityNone, 3)
		return e
	}
	e.limit = r.between(5*time.Millisecond, 2500*time.Millisecond)
	if r.below(12) == 0 {
		e.cancelAt = r.between(0, 400*time.Millisecond)
	}
	w.call(e, r)
	return e
}

// sendMore makes the request of a verb that visits alone have.
func (w *world) sendMore(ctx context.Context, e *entry, in kv.Common, durable memd.DurabilityLevel, form int) {
	key, read := []byte(e.key), func(g kv.GetResult) retry.Info { return e.reads(w, g) }
	switch e.verb {
	case prependTo:
		one(w, ctx, e, kv.Prepend{Common: in, Key: key, Value: []byte(e.value)}, form, mutated)
	case pushTo:
		one(w, ctx, e, kv.MutateIn{Common: in, Key: key, Durability: durable, Specs: e.mutations()}, form, mutatedIn)
	case lookUp, lookUpCopy:
		one(w, ctx, e, kv.LookupIn{Common: in, Key: key, Specs: lookups(), Replica: e.replica}, form,
			func(l kv.LookupInResult) retry.Info { return e.looks(w, l) })
	case touch:
		one(w, ctx, e, kv.Touch{Common: in, Key: key, Expiry: kv.ExpireAt(time.Unix(e.expiry, 0))}, form, mutated)
	case getTouch:
		one(w, ctx, e, kv.GetAndTouch{Common: in, Key: key, Expiry: kv.ExpireAt(time.Unix(e.expiry, 0))}, form, read)
	case lock:
		one(w, ctx, e, kv.GetAndLock{Common: in, Key: key, LockTime: lockFor}, form, read)
	case unlock:
		one(w, ctx, e, kv.Unlock{Common: in, Key: key, CAS: e.cas}, form, kv.Result.RetryInfo)
	case readCopy:
		one(w, ctx, e, kv.GetReplica{Common: in, Key: key, Replica: e.replica}, form, read)
	case readAny:
		more := kv.Hedge{
			MaxAttempts: 2 + int(w.d.roll(text(e.key), uint64(e.number))%2),
			Delay:       w.d.between(0, 4*w.latency, text(e.key), uint64(e.number)),
		}
		one(w, ctx, e, kv.Get{Common: in, Key: key, Hedge: &more}, form, read)
	case decrement:
		first := uint64(firstCount)
		one(w, ctx, e, kv.Decrement{Common: in, Key: key, Delta: 1, Initial: &first}, form,
			func(c kv.CounterResult) retry.Info { return e.counts(w, c) })
	default:
		w.sendSeldom(ctx, e, in, durable, form)
	}
}

// countParts is how often each token is in a document that has several.
func countParts(value string) map[string]int {
	count := map[string]int{}
	between := func(c rune) bool { return strings.ContainsRune(`[]",`+partEnd, c) }
	for _, token := range strings.FieldsFunc(value, between) {
		count[token]++
	}
	return count
}

// checkVisits judges what calls have read of their own documents (P5): each part that was added before is there once,
// none that was not, and nothing else. The mock's replicas are never behind.
func (w *world) checkVisits() {
	visits := map[string][]*entry{}
	for _, e := range w.ledger {
		if e.private {
			visits[e.key] = append(visits[e.key], e)
		}
	}
	for _, es := range visits {
		for _, e := range es {
			if e.outcome == done && e.got != "" {
				w.checkVisit(e, es)
			}
			w.checkMissing(e)
		}
	}
}

// checkVisit judges what one call has read, by all calls of the visit.
func (w *world) checkVisit(e *entry, visit []*entry) {
	count := countParts(e.got)
	for _, o := range visit {
		if o.token == "" {
			continue
		}
		token := strings.TrimSuffix(o.token, partEnd)
		n := count[token]
		delete(count, token)
		missing := n == 0 && o.outcome == done && o.ended < e.began
		wrong := n > 0 && o.outcome != done && o.outcome != doubtful
		if n > 1 || missing || wrong {
			w.report.violateWith("P5", func() []string { return w.history(e.key) }, "%s: %s is in it %d times, and %s",
				e, token, n, o)
			return
		}
	}
	if len(count) > 0 {
		w.report.violateWith("P5", func() []string { return w.history(e.key) }, "%s: no call has written %v", e, count)
	}
}

// lateAttempt is what only hedged reads come to.
const lateAttempt = "an answer to an attempt when a later one of its call had left"

// lookAtHedges notes what hedged reads have come to.
func (w *world) lookAtHedges() {
	reads := map[string][]*sent{}
	for _, s := range w.facts.traffic {
		if s.same.op == memd.OpGet || s.same.op == memd.OpGetReplica {
			reads[s.same.key] = append(reads[s.same.key], s)
		}
	}
	for _, e := range w.ledger {
		if e.verb != readAny {
			continue
		}
		var last *sent
		for _, s := range reads[e.key] {
			if at := s.at.Sub(w.began); at < e.began || at > e.ended {
				continue
			}
			if last != nil && last.answered.After(s.at) {
				w.report.Reached[lateAttempt]++
			}
			last = s
		}
	}
}
