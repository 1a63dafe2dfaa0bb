package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/retry"
)

// readsPerWrite is how many of its own documents a worker reads after each write.
const readsPerWrite = 3

// outcome is how a write ended, as its caller saw it.
type outcome uint8

const (
	acknowledged outcome = iota
	inDoubt              // failed, and may have been applied
	refused              // failed, and was not applied
)

// demoLoad is the load and its record: what each worker saw, kept by the worker alone until all have ended.
type demoLoad struct {
	done    atomic.Int64 // operations ended, for the live line
	workers []*demoWorker
	took    time.Duration
	slots   [demoSlots]atomic.Int64 // operations per slice of the time
}

const demoSlots = 20

// demoWorker is one caller. Each write has a document and a token of its own: the same text.
type demoWorker struct {
	writes  []demoWrite
	times   []time.Duration
	sends   int
	retries int
	reasons map[retry.Reason]int
	errors  map[string]int // by kind
	wrong   int            // reads of acknowledged documents that gave something else
}

type demoWrite struct {
	token string
	out   outcome
}

// demoValue is a document of 128 bytes that begins with its token.
func demoValue(token string) []byte {
	return append([]byte(token), bytes.Repeat([]byte{'.'}, 128-len(token))...)
}

// load runs the workers through a rebalance and a node's death, and checks what became of their writes.
func (d *demo) load() error {
	l := &demoLoad{}
	total, rebalance, kill := d.cmd.Duration, d.cmd.Duration*2/5, d.cmd.Duration*7/10
	if err := d.print("load %-9s rebalance at %s, node killed at %s, %d callers", shown(total), shown(rebalance),
		shown(kill), d.cmd.Workers); err != nil {
		return err
	}
	if h := d.app.demo.beforeLoad; h != nil {
		h(d.m)
	}
	began := time.Now()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var wg sync.WaitGroup
	for i := range d.cmd.Workers {
		w := &demoWorker{reasons: map[retry.Reason]int{}, errors: map[string]int{}}
		l.workers = append(l.workers, w)
		wg.Go(func() { d.work(ctx, l, w, i, began) })
	}
	err := d.drive(l, began, []demoEvent{
		{rebalance, d.addAndRebalance},
		{kill, d.killNode},
		{total, func() error { return nil }},
	})
	stop()
	wg.Wait()
	l.took = time.Since(began)
	d.live("")
	if err != nil {
		return err
	}
	if h := d.app.demo.afterLoad; h != nil {
		h(d.m, d.bucket, l)
	}
	if err := d.sum(l); err != nil {
		return err
	}
	return d.check(l)
}

// demoEvent is what happens to the cluster at a time after the start.
type demoEvent struct {
	at time.Duration
	do func() error
}

// drive waits for each event in turn, with a live line on a terminal.
func (d *demo) drive(l *demoLoad, began time.Time, events []demoEvent) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for _, e := range events {
		t := time.NewTimer(e.at - time.Since(began))
		for waiting := true; waiting; {
			select {
			case <-t.C:
				waiting = false
			case <-tick.C:
				n := l.done.Load()
				d.live("[%4.1fs] %s ops  %.1fk/s", time.Since(began).Seconds(), grouped(int(n)),
					float64(n)/time.Since(began).Seconds()/1e3)
			}
		}
		if err := e.do(); err != nil {
			return err
		}
	}
	return nil
}

func (d *demo) addAndRebalance() error {
	if d.m.AddNode() < 0 {
		return errors.New("the mock could not open a fourth node")
	}
	return d.m.Rebalance()
}

// killNode kills a node, fails it over and rebalances, so that each document has a replica again.
func (d *demo) killNode() error {
	if err := d.m.FailoverHard(1); err != nil {
		return err
	}
	return d.m.Rebalance()
}

// work writes and reads until ctx ends; an operation that has begun is finished.
func (d *demo) work(ctx context.Context, l *demoLoad, w *demoWorker, worker int, began time.Time) {
	var mine []string // acknowledged
	for n := 0; ctx.Err() == nil; n++ {
		token := fmt.Sprintf("w%04d-%08d", worker, n)
		start := time.Now()
		res, err := kv.Do(context.Background(), d.bucket, kv.Upsert{
			Key: []byte(token), Value: demoValue(token), Durability: memd.DurabilityMajority,
		})
		w.note(start, res.RetryInfo(), err)
		d.count(l, began)
		out := acknowledged
		var e *kv.Error
		switch {
		case err == nil:
			mine = append(mine, token)
		case errors.As(err, &e) && !e.Ambiguous():
			out = refused
		default:
			out = inDoubt
		}
		w.writes = append(w.writes, demoWrite{token, out})
		for r := 0; r < readsPerWrite && len(mine) > 0 && ctx.Err() == nil; r++ {
			key := mine[(n*7+r*31)%len(mine)]
			start := time.Now()
			res, err := kv.Do(context.Background(), d.bucket, kv.Get{Key: []byte(key)})
			w.note(start, res.RetryInfo(), err)
			d.count(l, began)
			if err == nil && !bytes.HasPrefix(res.Value, []byte(key)) {
				w.wrong++
			}
		}
	}
}

func (d *demo) count(l *demoLoad, began time.Time) {
	l.done.Add(1)
	slot := int(time.Since(began) * demoSlots / d.cmd.Duration)
	l.slots[min(slot, demoSlots-1)].Add(1)
}

// note records how one operation went.
func (w *demoWorker) note(start time.Time, info retry.Info, err error) {
	w.times = append(w.times, time.Since(start))
	sends := info.Attempts()
	if err != nil {
		f := failureOf(err)
		w.errors[f.Kind]++
		sends = f.Attempts
		info, _ = retry.InfoOf(err)
	}
	w.sends += sends
	w.retries += info.Retries()
	for r := range info.Reasons.All() {
		w.reasons[r]++
	}
}

// sum adds up the workers' records and prints them.
func (d *demo) sum(l *demoLoad) error {
	r := &d.report
	r.Reasons = map[string]int{}
	var times []time.Duration
	kinds := map[string]int{}
	retries, wrong := 0, 0
	for _, w := range l.workers {
		times = append(times, w.times...)
		r.Attempts += w.sends
		retries += w.retries
		wrong += w.wrong
		for k, n := range w.reasons {
			r.Reasons[k.String()] += n
		}
		for k, n := range w.errors {
			kinds[k] += n
		}
		for _, x := range w.writes {
			switch x.out {
			case acknowledged:
				r.Acknowledged++
			case inDoubt:
				r.InDoubt++
			case refused:
				r.Refused++
			}
		}
	}
	r.Ops = len(times)
	if wrong > 0 {
		d.problem("%s gave something else than what was written", plural(wrong, "read"))
	}
	slices.Sort(times)
	failed := 0
	for _, n := range kinds {
		failed += n
	}
	if err := d.print("               %s ops   %.1fk/s   p50 %s   p99 %s   max %s   retries %s   errors %d   in "+
		"doubt %d",
		grouped(r.Ops), float64(r.Ops)/l.took.Seconds()/1e3, short(percentile(times, 50)), short(percentile(times, 99)),
		short(percentile(times, 100)), grouped(retries), failed-r.InDoubt, r.InDoubt); err != nil {
		return err
	}
	if list := counts(r.Reasons); list != "" {
		if err := d.print("               met %s", list); err != nil {
			return err
		}
	}
	if list := counts(kinds); list != "" {
		if err := d.print("               failed with %s", list); err != nil {
			return err
		}
	}
	return d.print("               %s", sparkline(l))
}

// percentile gives the value below which p percent of the sorted times are, or 0.
func percentile(times []time.Duration, p int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(len(times)*p/100, len(times)-1)]
}

// counts lists names with how often they occurred, most first.
func counts(m map[string]int) string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int {
		if m[a] != m[b] {
			return m[b] - m[a]
		}
		return strings.Compare(a, b)
	})
	for i, n := range names {
		names[i] = fmt.Sprintf("%s x%d", n, m[n])
	}
	return strings.Join(names, ", ")
}

// sparkline draws the throughput over time, the highest bar being the best slice's.
func sparkline(l *demoLoad) string {
	bars := []rune("\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588")
	best := int64(1)
	for i := range l.slots {
		best = max(best, l.slots[i].Load())
	}
	var b strings.Builder
	for i := range l.slots {
		b.WriteRune(bars[l.slots[i].Load()*int64(len(bars)-1)/best])
	}
	return b.String()
}

// shown writes a duration as a flag would have it.
func shown(d time.Duration) string {
	return fmt.Sprintf("%g s", d.Round(10*time.Millisecond).Seconds())
}
