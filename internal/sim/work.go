package sim

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// startWork starts the workers.
func (w *world) startWork(workers *sync.WaitGroup) {
	for i := range w.workers {
		workers.Go(func() { w.work(i) })
	}
	if !w.visits() {
		return
	}
	for i := range visitors {
		workers.Go(func() { w.visit(i) })
	}
}

// work is one worker: it makes its share of the calls, one after the other or in bursts.
func (w *world) work(id int) {
	r := newSource(w.d, text("worker"), uint64(id))
	m := &memory{seen: map[string]*entry{}}
	for n := 0; n < w.Ops/w.workers; {
		sleep(context.Background(), r.between(time.Microsecond, 2*w.pause))
		if w.bursts && r.below(40) == 0 {
			n += w.burst(id, n, r)
			continue
		}
		e := w.next(id, n, r, m)
		w.call(e, r)
		m.notes(e)
		n++
	}
}

// enter puts a call into the ledger.
func (w *world) enter(e *entry) *entry {
	e.began = w.since()
	w.mu.Lock()
	w.ledger = append(w.ledger, e)
	if e.verb == read || e.verb == remove {
		w.latest[e.key] = e
	}
	w.calls++
	w.Progress.began(w.calls, e.began)
	sample := w.calls%16 == 0
	w.watchMap()
	elsewhere := verbTable[e.verb].copies || verbTable[e.verb].unseen
	if vb, nodes, ok := w.b.Locate([]byte(e.key)); ok && !elsewhere && !e.named {
		e.located, e.vbucket, e.node = true, vb, nodes[0]
	}
	w.mu.Unlock()
	if sample {
		w.sample()
	}
	return e
}

// finish enters the end of a call.
func (w *world) finish(e *entry, i retry.Info, err error) {
	_, nodes, ok := w.b.Locate([]byte(e.key))
	if e.finish(w.since(), i, err) {
		e.moved = ok && e.located && nodes[0] != e.node
	}
}

// sample looks at how many calls wait for their retry, and for a connection. In the calm phase calls come that may wait
// in greater numbers.
func (w *world) sample() {
	n, queued := w.c.RetryStats().Parked, 0
	for _, s := range w.b.Status() {
		queued = max(queued, s.Queued)
	}
	w.mu.Lock()
	w.parked = max(w.parked, n)
	if !w.settled {
		w.queued = max(w.queued, queued)
	}
	w.mu.Unlock()
}

// queueFull is what tight runs come to.
const queueFull = "as many calls as may have waited for a connection"

// checkQueued judges how many calls waited for one connection at one time: no more than the limit (P12).
func (w *world) checkQueued() {
	_, most, _ := w.limits()
	switch {
	case most == 0 || w.queued < most:
	case w.queued == most:
		w.report.Reached[queueFull]++
	default:
		w.report.violate("P12", "%d calls waited for one connection at one time, the limit is %d", w.queued, most)
	}
}

// next makes up a call.
func (w *world) next(id, n int, r *source, m *memory) *entry {
	e := &entry{worker: id, number: n, limit: r.between(5*time.Millisecond, 2500*time.Millisecond)}
	e.token = fmt.Sprintf("v-%d-%d", id, n)
	e.key, e.shared = fmt.Sprintf("k-%d", r.below(w.keys)), true
	switch pick := r.below(100); {
	case pick < 34:
		e.verb, e.token = read, ""
	case pick < 52:
		e.verb = upsert
	case pick < 60:
		e.verb = insert
	case pick < 66:
		e.verb = replace
	case pick < 74:
		e.verb = swap
		if old := m.seen[e.key]; old != nil {
			e.expect, e.cas = old.got, old.cas
		} else {
			e.verb = replace
		}
	case pick < 79:
		e.verb, e.token = remove, ""
	case pick < 86:
		e.verb, e.key, e.shared = increment, fmt.Sprintf("n-%d-%d", id, n), false
		e.token = ""
	case pick < 92 && !w.loses():
		e.verb, e.key, e.shared = appendTo, fmt.Sprintf("log-%d-%d", id, n/40), false
		e.token += ";"
	default:
		e.verb, e.key, e.shared = []verb{upsert, insert}[r.below(2)], fmt.Sprintf("u-%d-%d", id, n), false
		e.named = r.below(3) > 0
	}
	if e.verb == read || e.verb == remove {
		if key, ok := w.unread(r.below(w.keys)); ok {
			e.key = key
		} else {
			e.verb, e.token = upsert, fmt.Sprintf("v-%d-%d", id, n)
		}
	}
	w.setApart(e, m)
	if r.below(12) == 0 {
		e.cancelAt = r.between(0, 400*time.Millisecond)
	}
	return e
}

// call makes one call, in any of the forms, and waits for it.
func (w *world) call(e *entry, r *source) {
	in := kv.Common{Timeout: e.limit}
	if in.Retry = w.strategy(r, e); verbTable[e.verb].parts { // it has none: its calls would ask one after another
		in.Retry, e.polite, e.own = nil, false, false
	}
	e.addresses(&in)
	ctx := context.Background()
	w.enter(e)
	if e.cancelAt > 0 {
		var cancel context.CancelFunc
		if r.below(2) == 0 {
			ctx, cancel = context.WithTimeout(ctx, e.cancelAt)
		} else {
			ctx, cancel = context.WithCancel(ctx)
			t := time.AfterFunc(e.cancelAt, cancel)
			defer t.Stop()
		}
		defer cancel()
		e.cancelAt += e.began
	}
	durable := memd.DurabilityNone
	if w.replicas > 0 && r.below(25) == 0 && verbTable[e.verb].durable {
		durable = memd.DurabilityMajority
		e.durable = true
	}
	w.send(ctx, e, in, durable, r.below(4))
	if w.Break == EndsTwice && e.number == 7 {
		e.finish(w.since(), retry.Info{}, nil)
	}
}

// addresses says which collection the call is for.
func (e *entry) addresses(in *kv.Common) {
	if in.CollectionID = e.cid; e.named {
		in.Scope, in.Collection = "s", "c"
	}
}

// send makes the request that the entry describes.
func (w *world) send(ctx context.Context, e *entry, in kv.Common, durable memd.DurabilityLevel, form int) {
	key, value := []byte(e.key), w.body(e.token)
	if e.value != "" || e.verb == appendTo {
		value = []byte(cmp.Or(e.value, e.token))
	}
	switch e.verb {
	case read:
		one(w, ctx, e, kv.Get{Common: in, Key: key}, form, func(g kv.GetResult) retry.Info {
			e.took(w, g.Value, g.CAS)
			return g.RetryInfo()
		})
	case upsert:
		one(w, ctx, e, kv.Upsert{Common: in, Key: key, Value: value, Durability: durable}, form, mutated)
	case insert:
		one(w, ctx, e, kv.Insert{Common: in, Key: key, Value: value, Durability: durable}, form, mutated)
	case replace, swap:
		one(w, ctx, e, kv.Replace{Common: in, Key: key, Value: value, CAS: e.cas, Durability: durable}, form, mutated)
	case remove:
		one(w, ctx, e, kv.Remove{Common: in, Key: key}, form, mutated)
	case increment:
		first := uint64(firstCount)
		one(w, ctx, e, kv.Increment{Common: in, Key: key, Delta: 1, Initial: &first}, form,
			func(c kv.CounterResult) retry.Info { return e.counts(w, c) })
	case appendTo:
		one(w, ctx, e, kv.Append{Common: in, Key: key, Value: value}, form, mutated)
		if e.outcome == absent && !e.private { // the first of its document
			again := &entry{
				worker: e.worker, number: e.number, verb: insert, key: e.key, token: "first-" + e.token,
				limit: e.limit, polite: true, calm: e.calm,
			}
			in.Retry = nil
			sleep(context.Background(), w.d.between(time.Nanosecond, time.Microsecond, text("again"),
				text(again.token)))
			w.enter(again)
			one(w, context.Background(), again, kv.Insert{Common: in, Key: key, Value: []byte(again.token)}, 0, mutated)
		}
	default:
		w.sendMore(ctx, e, in, durable, form)
	}
}

func mutated(m kv.MutationResult) retry.Info { return m.RetryInfo() }

// one runs an operation in one of the forms and enters its end.
func one[R any, O kv.Op[R]](w *world, ctx context.Context, e *entry, op O, form int, info func(R) retry.Info) {
	ctx, ended := context.WithValue(ctx, callKey{}, e), make(chan struct{})
	end := func(res R, err error) {
		var i retry.Info
		if err == nil {
			i = info(res)
		}
		switch {
		case e.number != 7:
		case w.Break == LateEnd:
			sleep(context.Background(), 4*time.Second)
		case w.Break == NeverEnds:
			<-w.over
			return
		}
		w.finish(e, i, err)
		close(ended)
	}
	switch form {
	case 0:
		kv.Go(ctx, w.b, op, func(res R, err error) {
			end(res, err)
			w.behave(context.Background(), delivering, longestEnd)
		})
	case 1:
		f := kv.Start[R](ctx, w.b, op)
		go func() { end(f.Wait(context.Background())) }()
	case 2:
		go func() {
			o := kv.Batch[R](ctx, w.b, []O{op}, 0)[0]
			end(o.Result, o.Err)
		}()
	default:
		go func() { end(kv.Do[R](ctx, w.b, op)) }()
	}
	w.await(e, ended)
}

// stuckAfter is how long after its time a call is given up: it would never end.
const stuckAfter = 30 * time.Second

// await waits for the call's end, but not for ever.
func (w *world) await(e *entry, ended <-chan struct{}) {
	t := time.NewTimer(e.limit + stuckAfter)
	defer t.Stop()
	select {
	case <-ended:
	case <-t.C: // the ledger shows it
	}
}

// calmGrace is how long after the last fault calls may still fail: the longest wait for the next attempt to connect and
// the attempt itself. Where sockets have vanished without a word, that is noticed when a node's turn comes to be asked
// for a sign of life and it gives none; a turn may be spent on a map that is wanted.
func (w *world) calmGrace() time.Duration {
	const reconnect = 5 * time.Second
	if w.harsh {
		return reconnect + (maxNodes+2)*pollInterval
	}
	return reconnect
}

// calmDown makes calls for a while after the faults have stopped.
func (w *world) calmDown() {
	calls := 40
	if w.harsh {
		calls = 80
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		sleep(context.Background(), w.faulted+w.calmGrace()-w.since())
		w.calmBursts()
	})
	for id := range 6 {
		wg.Go(func() {
			r := newSource(w.d, text("calm"), uint64(id))
			for n := range calls {
				sleep(context.Background(), r.between(100*time.Millisecond, 1400*time.Millisecond))
				e := w.next(w.workers+id, n, r, &memory{})
				e.limit, e.cancelAt = 2500*time.Millisecond, 0
				e.calm = w.since() > w.faulted+w.calmGrace()
				e.polite = true
				in := kv.Common{Timeout: e.limit}
				e.addresses(&in)
				w.enter(e)
				w.send(context.Background(), e, in, memd.DurabilityNone, 3)
			}
		})
	}
	if w.visits() {
		wg.Go(func() { w.calmVisits() })
	}
	if w.asks {
		for of := range services {
			wg.Go(func() { w.askInCalm(of) })
		}
	}
	wg.Wait()
}

// calmBursts makes many calls at once when all is well, more than a connection takes at a time. Then every connection
// is lost once more: who has waited for another one is not to be forgotten. New ones take so long to make then that a
// call which knows a reason why its node cannot be reached does not wait for one: no such reason is left by now.
func (w *world) calmBursts() {
	r := newSource(w.d, text("calm bursts"))
	for n := range 4 {
		sleep(context.Background(), r.between(500*time.Millisecond, time.Second))
		if n == 3 {
			w.slow.Store(int64(r.between(0, 100*time.Millisecond)))
			w.breaks(everywhere)
			w.broken.from = w.since()
			w.reset(w.m.Network().Links())
			w.broken.to = w.since()
		}
		var es []*entry
		for i := range 100 {
			if key, ok := w.unread(i); ok {
				es = append(es, w.enter(&entry{
					worker: -100 - n, number: i, verb: read, shared: true, key: key,
					polite: true, calm: true, limit: 2500 * time.Millisecond,
				}))
			}
		}
		if len(es) == 0 {
			continue
		}
		for _, f := range w.readAll(es) {
			f()
		}
	}
}

// finalReads reads every document that others may have changed, for the end of its history.
func (w *world) finalReads() {
	r := newSource(w.d, text("final"))
	for i := range w.keys {
		sleep(context.Background(), r.between(time.Microsecond, time.Millisecond))
		e := &entry{
			worker: -1, number: i, verb: read, shared: true, key: fmt.Sprintf("k-%d", i),
			limit: 10 * time.Second, polite: true, calm: true, last: true,
		}
		w.enter(e)
		w.send(context.Background(), e, kv.Common{Timeout: e.limit}, memd.DurabilityNone, 3)
	}
	w.readLogs(r)
}

// readLogs reads the documents that calls have only added parts to.
func (w *world) readLogs(r *source) {
	w.logs = map[string]string{}
	for _, old := range slices.Clone(w.ledger) {
		if _, again := w.logs[old.key]; !verbTable[old.verb].extends || again {
			continue
		}
		sleep(context.Background(), r.between(time.Microsecond, time.Millisecond))
		e := &entry{
			worker: -1, verb: read, key: old.key, limit: 10 * time.Second, polite: true, calm: true,
			private: old.private,
		}
		w.enter(e)
		w.send(context.Background(), e, kv.Common{Timeout: e.limit}, memd.DurabilityNone, 3)
		w.logs[e.key] = e.got
	}
}

// last is a call that is under way when the client is closed, or comes later.
func (w *world) last(id int) {
	r := newSource(w.d, text("last"), uint64(id))
	sleep(context.Background(), r.between(time.Microsecond, 20*time.Millisecond))
	e := &entry{
		worker: -2 - id, verb: upsert, key: fmt.Sprintf("z-%d", id), token: fmt.Sprintf("z-%d", id),
		limit: 2500 * time.Millisecond, polite: true,
	}
	w.enter(e)
	w.send(context.Background(), e, kv.Common{Timeout: e.limit}, memd.DurabilityNone, 3)
}
