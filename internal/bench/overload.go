package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/retry"
)

// stopStrategy refuses every retry, on the spot.
type stopStrategy struct{}

func (stopStrategy) RetryAfter(context.Context, *retry.Request, retry.Reason) retry.Action {
	return retry.Stop()
}

func (stopStrategy) Inline() bool { return true }

var _ retry.Inline = stopStrategy{}

// arrivalTick is how often arrivals are caught up with the clock.
const arrivalTick = time.Millisecond

// offered is load beyond the capacity: operations start by the clock, whatever becomes of those before, without a
// caller each.
type offered struct {
	o *ours

	waiting, peakWaiting     atomic.Int64
	accepted, refused, wrong atomic.Int64
	mu                       sync.Mutex
	took, refusal            histogram
	firstWrong               error
}

// probeOverload measures the capacity in a closed loop and then offers twice as much by the clock. modePaced is the
// target's mode: its server has a capacity of its own, so that not the client's CPU is what runs out.
func probeOverload(t target, o probeOptions) (map[string]float64, error) {
	c, err := newOurs(t, formDo)
	if err != nil {
		return nil, err
	}
	defer c.close()
	r := runner{c: c}
	peak := r.run(job{Op: opGet, Callers: 1024, Size: 16, Time: o.Time / 4})
	if peak.Errors > 0 {
		return nil, errors.New(peak.Error)
	}
	a := &offered{o: c}
	rate := 2 * peak.rate()
	a.offer(rate, o.Time/4) // until the queue is full
	settled, refusedBefore := a.accepted.Load(), a.refused.Load()
	a.resetTimes()
	began := time.Now()
	started := a.offer(rate, o.Time)
	took := time.Since(began)
	done := a.accepted.Load() - settled
	refused := a.refused.Load() - refusedBefore
	for limit := time.Now().Add(5 * time.Second); a.waiting.Load() > 0 && time.Now().Before(limit); {
		time.Sleep(10 * time.Millisecond)
	}
	if a.firstWrong != nil && done == 0 {
		return nil, a.firstWrong
	}
	throughput := float64(done) / took.Seconds()
	bound := inFlightLimit / throughput * 1.5 * 1e6
	a.mu.Lock()
	defer a.mu.Unlock()
	return map[string]float64{
		"peak": peak.rate(), "offered": float64(started) / took.Seconds(), "throughput": throughput,
		"share": throughput / peak.rate(), "refused": float64(refused), "wrong": float64(a.wrong.Load()),
		"p99_us": a.took.quantile(0.99), "p99_share": a.took.quantile(0.99) / bound,
		"refusal_p99_us": a.refusal.quantile(0.99), "waiting_peak": float64(a.peakWaiting.Load()),
		"left": float64(a.waiting.Load()),
	}, nil
}

func (a *offered) resetTimes() {
	a.mu.Lock()
	a.took.reset()
	a.refusal.reset()
	a.mu.Unlock()
}

// starters is how many goroutines start operations: one may not keep up with the clock, since it writes, too.
const starters = 2

// offer starts rate operations per second for d and gives how many those were.
func (a *offered) offer(rate float64, d time.Duration) int {
	var started atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range starters {
		all.Go(func() { started.Add(int64(a.startAll(began, rate/starters, d))) })
	}
	all.Wait()
	return int(started.Load())
}

func (a *offered) startAll(began time.Time, rate float64, d time.Duration) (n int) {
	ks := keys(classOf(16))
	for {
		now := time.Since(began)
		if now >= d {
			return n
		}
		for due := int(rate * now.Seconds()); n < due; n++ {
			a.start(ks[n%len(ks)])
		}
		time.Sleep(arrivalTick)
	}
}

func (a *offered) start(key []byte) {
	began := time.Now()
	w := a.waiting.Add(1)
	for most := a.peakWaiting.Load(); w > most && !a.peakWaiting.CompareAndSwap(most, w); most = a.peakWaiting.Load() {
		continue
	}
	kv.Go(context.Background(), a.o.bucket, kv.Get{Common: kv.Common{Retry: stopStrategy{}}, Key: key},
		func(_ kv.GetResult, err error) {
			a.waiting.Add(-1)
			a.ended(time.Since(began), err)
		})
}

func (a *offered) ended(took time.Duration, err error) {
	info, _ := retry.InfoOf(err)
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case err == nil:
		a.accepted.Add(1)
		a.took.add(int64(took))
	case info.Reason == retry.EndpointNotWritable:
		a.refused.Add(1)
		a.refusal.add(int64(took))
	default:
		a.wrong.Add(1)
		if a.firstWrong == nil {
			a.firstWrong = err
		}
	}
}
