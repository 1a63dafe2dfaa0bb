package sim

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// burst starts many calls at once, so that a write of the client's has several requests, and then waits for all of
// them.
func (w *world) burst(id, n int, r *source) int {
	all := 5 + r.below(60)
	if w.tight {
		all *= 3
	}
	body := w.body
	if r.below(3) == 0 {
		defer w.cutShort(r)()
		if w.tls {
			body = w.long
		}
	}
	var wait []func()
	var together, writes []*entry
	// Over TLS a goroutine of the client's writes: how much of the burst is in its first write depends on when it gets
	// the processor, unless all come in one turn. With small limits each call has an instant of its own.
	multi, first := (r.below(2) == 0 || w.tls) && !w.tight, r.below(w.keys)
	for i := range all {
		if w.tight {
			sleep(context.Background(), until(r.between(time.Nanosecond, time.Microsecond), 4, 3))
		}
		key, free := w.unread(first + i)
		e := &entry{
			worker: id, number: n + i, verb: read, shared: true, key: key,
			polite: true, limit: 2500 * time.Millisecond,
		}
		in := kv.Common{Timeout: e.limit}
		if r.below(2) == 0 || !free {
			e.verb, e.key, e.shared, e.token = insert, fmt.Sprintf("u-%d-%d", id, n+i), false, fmt.Sprintf("v-%d-%d",
				id, n+i)
			if w.tls {
				writes = append(writes, e)
				continue
			}
			wait = append(wait, started(w, e, kv.Insert{Common: in, Key: []byte(e.key), Value: w.body(e.token)},
				mutated))
			continue
		}
		if multi {
			together = append(together, w.enter(e))
			continue
		}
		wait = append(wait, started(w, e, kv.Get{Common: in, Key: []byte(e.key)}, func(g kv.GetResult) retry.Info {
			e.took(w, g.Value, g.CAS)
			return g.RetryInfo()
		}))
	}
	if len(together) > 0 {
		wait = append(wait, w.readAll(together)...)
	}
	if len(writes) > 0 {
		sleep(context.Background(), r.between(time.Nanosecond, time.Microsecond))
		wait = append(wait, w.writeAll(writes, body)...)
	}
	w.sample()
	for _, f := range wait {
		f()
	}
	return all
}

// unread is the first key from the n-th on that no call is reading or removing: the requests of two that do look the
// same, and when both leave at one instant the run cannot tell which call sent which. A call that ends at this instant
// still counts: it may end after the look. ok is false without such a key.
func (w *world) unread(n int) (key string, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.keys {
		key = fmt.Sprintf("k-%d", (n+i)%w.keys)
		e := w.latest[key]
		if e == nil || e.over.Load() > 0 && e.over.Load() < int64(w.since()) {
			return key, true
		}
	}
	return "", false
}

// readAll starts one call for many reads, which wait for their turn, and gives what waits for them.
func (w *world) readAll(es []*entry) (wait []func()) {
	keys := make([][]byte, len(es))
	for i, e := range es {
		keys[i], e.batch = []byte(e.key), true
	}
	ended := make(chan struct{})
	go func() {
		in := kv.Common{Timeout: es[0].limit, Block: es[0].calm}
		for i, o := range kv.GetMulti(context.Background(), w.b, in, keys) {
			es[i].took(w, o.Result.Value, o.Result.CAS)
			es[i].finish(w.since(), o.Result.RetryInfo(), o.Err)
		}
		close(ended)
	}()
	for _, e := range es {
		wait = append(wait, func() { w.await(e, ended) })
	}
	return wait
}

// writeAll is readAll for insertions.
func (w *world) writeAll(es []*entry, body func(token string) []byte) (wait []func()) {
	ops := make([]kv.Insert, len(es))
	for i, e := range es {
		e.batch = true
		w.enter(e)
		ops[i] = kv.Insert{Common: kv.Common{Timeout: e.limit}, Key: []byte(e.key), Value: body(e.token)}
	}
	ended := make(chan struct{})
	go func() {
		for i, o := range kv.Batch[kv.MutationResult](context.Background(), w.b, ops, 0) {
			var info retry.Info
			if o.Err == nil {
				info = o.Result.RetryInfo()
			}
			es[i].finish(w.since(), info, o.Err)
		}
		close(ended)
	}()
	for _, e := range es {
		wait = append(wait, func() { w.await(e, ended) })
	}
	return wait
}

// shortWrites is the name of a fault that only bursts have.
const shortWrites = "10 short write of many requests"

// cutShort makes the next writes to a node fail somewhere, and gives what ends that.
func (w *world) cutShort(r *source) (end func()) {
	as := w.addresses()
	addr := as[r.below(len(as))]
	links := w.linksTo(addr)
	w.breaks(addr)
	most := 1500
	if w.tls { // behind the first of the records that a write makes, too
		most = 40_000
	}
	met := gained(failedWrites, ups(links)...)
	for _, l := range links {
		l.Up().FailAfter(r.below(most), syscall.EPIPE)
	}
	return func() {
		w.fired(shortWrites, met())
		w.breaks(addr)
		w.reset(links)
	}
}

// started starts a call, whose end is entered at its own instant, and gives what waits for it.
func started[R any, O kv.Op[R]](w *world, e *entry, op O, info func(R) retry.Info) (wait func()) {
	w.enter(e)
	f := kv.Start[R](context.WithValue(context.Background(), callKey{}, e), w.b, op)
	ended := make(chan struct{})
	go func() {
		res, err := f.Wait(context.Background())
		var i retry.Info
		if err == nil {
			i = info(res)
		}
		w.finish(e, i, err)
		close(ended)
	}()
	return func() { w.await(e, ended) }
}
