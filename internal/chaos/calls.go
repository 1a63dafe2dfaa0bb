package chaos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

const (
	keptDocuments = 16 // that a worker reads again, and removes
	batchSize     = 16
	neverLimit    = time.Minute // past its deadline a callback is given up
)

// worker makes calls one after the other.
type worker struct {
	*client
	id, n int
	r     *rand.Rand
	docs  []document
	own   [ownKinds]*own // once they are there
}

// document is one that was acknowledged.
type document struct {
	key     string
	size    int
	touched bool // a call has given it an expiry, or has tried to
}

// value is the document's: its key, and as much more as its size says.
func (d document) value() []byte {
	return append(append(make([]byte, 0, len(d.key)+1+d.size), d.key+"|"...), bytes.Repeat([]byte("x"), d.size)...)
}

func (w *worker) run() {
	time.Sleep(between(w.r, 0, min(w.sc.pause, beginTime)))
	for !w.stopped.Load() {
		w.one()
		t := time.NewTimer(between(w.r, 0, w.sc.pause))
		select {
		case <-t.C:
		case <-w.closed:
			t.Stop()
		}
	}
}

// attempt is a call under way.
type attempt struct {
	w     *worker
	on    *opened
	storm *storm
	ctx   context.Context
	in    kv.Common
	form  int
	limit time.Duration
	calm  bool
	// durable is the level of a write that can have one.
	durable memd.DurabilityLevel

	began, over time.Time // around what the client does
	// counts is when the client counted the time of the call, or of the first one of a batch, at the latest, in ns.
	counts atomic.Int64
}

type attemptKey struct{}

// start notes that the call begins.
func (a *attempt) start() {
	a.began = time.Now()
	a.counts.Store(0)
}

// entry is the time from when the caller begins until the client counts, as far as that is before an instant.
func (a *attempt) entry(before time.Time) (from, to time.Time) {
	to = a.began
	if at := time.Unix(0, a.counts.Load()); at.After(a.began) {
		to = at
	}
	if to.After(before) {
		to = before
	}
	return a.began, to
}

func (w *worker) one() {
	a := &attempt{
		w: w, on: w.opened[w.id%len(w.opened)].Load(), ctx: context.Background(), form: w.r.IntN(3),
		limit: between(w.r, 50*time.Millisecond, 2500*time.Millisecond),
	}
	if at := w.calmed.Load(); at > 0 && time.Now().UnixNano() > at+int64(calmGrace) {
		a.calm, a.limit = true, calmTimeout
	}
	if w.sc.cancels && !a.calm {
		a.storm = w.storm.Load()
		a.ctx = a.storm.ctx
	}
	a.ctx = context.WithValue(a.ctx, attemptKey{}, a)
	a.in = kv.Common{Timeout: a.limit, Retry: w.strategy(a.calm)}
	if w.r.IntN(durableEvery) == 0 {
		a.durable = memd.DurabilityMajority
	}
	switch k := w.r.IntN(32); {
	case k < 8 && len(w.docs) > 0:
		a.read()
	case k < 9 && len(w.docs) > 1:
		a.readMany()
	case k < 9 && w.sc.mocks: // what is read has to be there
		a.write(k%2 == 0)
	case k < 10 && w.sc.workers <= batchWorkers:
		a.writeMany()
	case k < 12 && len(w.docs) == keptDocuments:
		a.remove()
	case k < 14:
		a.count(k%2 == 0)
	case w.sc.mocks:
		a.write(k%2 == 0)
	case k < 17:
		a.extend()
	case k < 19:
		a.push()
	case k < 21:
		a.replace()
	case k < 24:
		a.readOwn()
	case k < 26:
		a.touch()
	default:
		a.write(k%2 == 0)
	}
}

// durableEvery is how many attempts there are for one that is durable, if it is a write.
const durableEvery = 8

// batchWorkers is how many may write batches, and have calls that retry at once whatever happens: each of those is
// retried a thousand times a second. With ten thousand workers that would be all that the process does.
const batchWorkers = 100

// strategy is one that a program could have: of ours, or one that retries at once whatever happens.
func (w *worker) strategy(calm bool) retry.Strategy {
	switch n := w.r.IntN(6); {
	case calm || n < 3:
		return nil
	case n < 5 || w.sc.workers > batchWorkers:
		return retry.BestEffort{}
	}
	return retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.After(0) })
}

// newDocument has a key that no other call has.
func (w *worker) newDocument() document {
	w.n++
	return document{key: fmt.Sprintf("k-%d-%d", w.id, w.n), size: w.r.IntN(w.sc.value)}
}

// keep remembers an acknowledged document, and at times forgets another one.
func (w *worker) keep(d document) {
	if w.sc.mocks {
		return
	}
	if len(w.docs) == keptDocuments {
		w.docs[w.r.IntN(len(w.docs))] = d
		return
	}
	w.docs = append(w.docs, d)
}

// perform makes a call in one of the three forms.
func perform[R any, O kv.Op[R]](a *attempt, op O) (R, error) {
	a.start()
	defer func() {
		a.w.late(a.began.Add(a.limit))
		a.over = time.Now()
	}()
	switch a.form {
	case 0:
		return kv.Do[R, O](a.ctx, a.on.b, op)
	case 1:
		return kv.Start[R, O](a.ctx, a.on.b, op).Wait(context.Background())
	}
	type end struct {
		r   R
		err error
	}
	done, ends := make(chan end, 1), new(atomic.Int32)
	kv.Go[R, O](a.ctx, a.on.b, op, func(r R, err error) {
		if n := ends.Add(1); n > 1 {
			a.w.violate("P1", endedNotOnce, "a callback was called %d times", n)
			return
		}
		done <- end{r, err}
	})
	never := make(chan struct{})
	t := afterRun(a.limit+neverLimit, func() { close(never) })
	defer t.stop()
	select {
	case e := <-done:
		return e.r, e.err
	case <-never:
		var none R
		a.w.violate("P1", endedNotOnce, "%T has not ended %v after its deadline", op, neverLimit)
		return none, errNever
	}
}

func (a *attempt) read() {
	d := a.w.docs[a.w.r.IntN(len(a.w.docs))]
	res, err := perform[kv.GetResult](a, kv.Get{Common: a.in, Key: []byte(d.key)})
	a.ended("get", "", err)
	a.judgeRead(d, res, err)
}

func (a *attempt) readMany() {
	keys := make([][]byte, len(a.w.docs))
	for i, d := range a.w.docs {
		keys[i] = []byte(d.key)
	}
	a.start()
	outs := kv.GetMulti(a.ctx, a.on.b, a.in, keys)
	a.over = time.Now()
	for i, o := range outs {
		a.ended("get", "", o.Err)
		a.judgeRead(a.w.docs[i], o.Result, o.Err)
	}
}

func (a *attempt) judgeRead(d document, res kv.GetResult, err error) {
	switch {
	case err == nil && !bytes.Equal(res.Value, d.value()):
		a.w.violate("P3", lost, "%q was acknowledged with %d bytes, and is read as %.80q (%d bytes)", d.key,
			len(d.value()), res.Value, len(res.Value))
	case errors.Is(err, cberr.DocumentNotFound):
		a.w.violate("P3", lost, "%q was acknowledged, and is not found", d.key)
	}
}

func (a *attempt) writeMany() {
	docs, ops := make([]document, batchSize), make([]kv.Upsert, batchSize)
	for i := range ops {
		docs[i] = a.w.newDocument()
		ops[i] = kv.Upsert{Common: a.in, Key: []byte(docs[i].key), Value: docs[i].value()}
	}
	a.start()
	outs := kv.UpsertMulti(a.ctx, a.on.b, ops)
	a.over = time.Now()
	for i, o := range outs {
		if a.ended("upsert", docs[i].key, o.Err) {
			a.w.keep(docs[i])
		}
	}
}

func (a *attempt) write(insert bool) {
	d := a.w.newDocument()
	verb := "upsert"
	var err error
	if insert {
		verb = "insert"
		_, err = perform[kv.MutationResult](a, kv.Insert{
			Common: a.in, Key: []byte(d.key), Value: d.value(), Durability: a.durable,
		})
	} else {
		_, err = perform[kv.MutationResult](a, kv.Upsert{
			Common: a.in, Key: []byte(d.key), Value: d.value(), Durability: a.durable,
		})
	}
	if a.ended(verb, d.key, err) {
		a.w.keep(d)
	}
}

func (a *attempt) remove() {
	i := a.w.r.IntN(len(a.w.docs))
	d := a.w.docs[i]
	a.w.docs = append(a.w.docs[:i], a.w.docs[i+1:]...)
	_, err := perform[kv.MutationResult](a, kv.Remove{Common: a.in, Key: []byte(d.key)})
	a.ended("remove", "-"+d.key, err)
}

func (a *attempt) count(down bool) {
	d, one := a.w.newDocument(), uint64(1)
	if down {
		_, err := perform[kv.CounterResult](a, kv.Decrement{Common: a.in, Key: []byte(d.key), Delta: 1, Initial: &one})
		a.ended("decrement", d.key, err)
		return
	}
	_, err := perform[kv.CounterResult](a, kv.Increment{Common: a.in, Key: []byte(d.key), Delta: 1, Initial: &one})
	a.ended("increment", d.key, err)
}

// ended judges the end of a call as far as this process can, and tells of a mutation's. It is true for a success.
func (a *attempt) ended(verb, id string, err error) bool {
	how := outcomeOf(err)
	a.w.plant(&how, &id)
	a.w.calls.Add(1)
	a.judgeTime(verb, err)
	if at := a.w.calmed.Load(); a.calm && at > 0 && err != nil && !errors.Is(err, cberr.DocumentNotFound) &&
		a.w.watch.stalled(a.began, a.over) < a.over.Sub(a.began)/2 {
		a.w.violate("P9", "", "%s failed that began %v after the last fault: %v", verb,
			a.began.Sub(time.Unix(0, at)), err)
	}
	text := ""
	if err != nil {
		text = err.Error()
		if a.w.secrets.In([]byte(text)) {
			a.w.violate("P13", "", "the password is in an error")
		}
	}
	if err == nil {
		a.w.succeeded(verb)
	}
	if id != "" {
		a.w.to.send(message{Ended: &ended{ID: id, Verb: verb, Outcome: how, Err: text}})
	}
	return err == nil
}

// judgeTime judges whether the call was in time: by its deadline, the end of its context, or Close.
func (a *attempt) judgeTime(verb string, err error) {
	const deadline = "its deadline"
	limit, by := a.began.Add(a.limit), deadline
	earlier := func(at int64, what string) {
		if t := time.Unix(0, at); at > 0 && t.Before(limit) {
			limit, by = t, what
		}
	}
	if a.storm != nil {
		earlier(a.storm.ended.Load(), "its context's end")
	}
	earlier(a.on.closed.Load(), "Close")
	from := limit
	if from.Before(a.began) { // it began after Close
		from = a.began
	}
	late := a.over.Sub(from)
	if late <= deadlineSlack {
		return
	}
	stalled, waited, entry := a.w.watch.stalled(from, a.over), time.Duration(0), time.Duration(0)
	begins, counts := a.began, a.began
	if by == deadline {
		begins, counts = a.entry(from)
		entry = a.w.watch.stalled(begins, counts)
	}
	own := late - hops*stalled - entry
	if own > deadlineSlack {
		waited = a.w.delays.waited(from, a.over)
		if counts.After(begins) {
			waited += min(entry+a.w.delays.waited(begins, counts), counts.Sub(begins)) - entry
		}
		own = late - hops*stalled - entry - min(waited, coarseSlack-deadlineSlack)
	}
	switch {
	case own <= deadlineSlack:
		a.w.busy.Add(1)
		return
	case own <= a.w.slack:
		a.w.between.Add(1)
		return
	}
	a.w.violate("P1", pastDeadline,
		"%s of %v ended %v after %s, of which the process was not run for %v, and its threads waited for %v; of the "+
			"%v before the client counted, %v: %v", verb, a.limit, late, by, stalled, waited, counts.Sub(begins), entry,
		err)
}

// slackOf is how late a call may end in a round, beside what its process and threads were not run for: 50 ms where all
// of that is seen.
func slackOf(processors int, delays bool) time.Duration {
	if processors > 1 && !delays {
		return coarseSlack
	}
	return deadlineSlack
}
