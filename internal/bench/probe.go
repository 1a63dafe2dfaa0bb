package bench

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/couchcore/couchcore/kv"
)

// probe measures what no slice can. It runs in a process of its own, in which no client has been opened.
type probe struct {
	name string
	run  func(t target, o probeOptions) (map[string]float64, error)
}

// probeOptions is how much a probe does.
type probeOptions struct {
	Count int           `json:"count,omitempty"`
	Time  time.Duration `json:"time_ns,omitempty"`
}

func allProbes() []probe {
	return []probe{
		{"allocs", probeAllocs},
		{"idle", probeIdle},
		{"inflight", probeInFlight},
		{"overload", probeOverload},
	}
}

// probeAllocs counts allocations of one operation, a fresh literal per call.
func probeAllocs(t target, o probeOptions) (map[string]float64, error) {
	c, err := newOurs(t, formDo)
	if err != nil {
		return nil, err
	}
	defer c.close()
	key, val := c.keys[classOf(valueSize)][0], c.values[classOf(valueSize)]
	buf := make([]byte, 0, valueSize)
	ctx := context.Background()
	out := map[string]float64{}
	for name, do := range map[string]func() error{
		"get": func() error { return c.get(ctx, key, valueSize) },
		"get_into": func() error {
			_, err := kv.Do(ctx, c.bucket, kv.Get{Key: key, Into: buf})
			return err
		},
		"upsert": func() error {
			_, err := kv.Do(ctx, c.bucket, kv.Upsert{Key: key, Value: val})
			return err
		},
	} {
		var failed error
		out[name] = testing.AllocsPerRun(max(o.Count, 100), func() {
			if err := do(); err != nil {
				failed = err
			}
		})
		if failed != nil {
			return nil, fmt.Errorf("%s: %w", name, failed)
		}
	}
	return out, nil
}

// live is what the process holds: heap in use after collection, and stacks.
func live() (bytes float64, goroutines int) {
	var m runtime.MemStats
	for range 2 { // pools give their contents up in two steps
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// settling is how many operations may fail while a client connects.
const settling = 20

// probeIdle opens a client, has every connection work once, waits, and counts what it holds then.
func probeIdle(t target, o probeOptions) (map[string]float64, error) {
	before, had := live()
	c, err := newOurs(t, formDo)
	if err != nil {
		return nil, err
	}
	defer c.close()
	do := c.work(job{Op: opGet, Callers: 1, Size: valueSize}, 0)
	for i, failed := 0, 0; i < 4*len(t.addrs); i++ {
		_, err := do()
		switch {
		case err == nil:
		case failed == settling:
			return nil, err
		default: // a client that has just read the map may still be replacing its first connections
			failed++
			time.Sleep(50 * time.Millisecond)
		}
	}
	time.Sleep(o.Time)
	after, has := live()
	n := float64(len(t.addrs))
	return map[string]float64{"bytes": max(after-before, 0) / n, "goroutines": float64(has - had), "connections": n},
		nil
}

// probeInFlight starts operations that are never answered and counts what each holds. modeMute is the target's mode.
func probeInFlight(t target, o probeOptions) (map[string]float64, error) {
	c, err := newOurs(t, formDo)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ks := keys(classOf(valueSize))
	before, _ := live()
	fs := make([]kv.Future[kv.GetResult], o.Count) // an application would keep them: they count
	for i := range fs {
		fs[i] = kv.Start(context.Background(), c.bucket, kv.Get{Key: ks[i%len(ks)]})
	}
	time.Sleep(200 * time.Millisecond) // for the writes
	after, _ := live()
	for _, f := range fs {
		f.Cancel()
	}
	return map[string]float64{"bytes": max(after-before, 0) / float64(o.Count)}, nil
}

// Names of probes as their results are kept.
const (
	probeNameAllocs = "allocations"
	probeNameIdle   = "idle"
	probeNameFewer  = "idle with fewer connections"
	probeNameFlight = "in flight"
	probeNameLoad   = "twice the capacity"
	probeNameMicro  = "observability"
)

// probeRun is one probe of the plan.
type probeRun struct {
	name  string // as its result is kept
	probe string
	nodes int
	mode  mode // "" is modePlain
	how   probeOptions
	timed bool // in rounds, judged as cells are
	short bool // less than what is to be judged
}

// silence is how long a connection has been idle when its memory is counted.
const silence = 30 * time.Second

// probeRuns are all probes. In a quick look they do less; what they find is no verdict then.
func probeRuns(quick bool) []probeRun {
	idle, load := silence, 6*time.Second
	if quick {
		idle, load = 200*time.Millisecond, 800*time.Millisecond
	}
	short := min(idle, time.Second)
	return []probeRun{
		{name: probeNameAllocs, probe: "allocs", nodes: 1, how: probeOptions{Count: 2000}},
		{name: probeNameFewer, probe: "idle", nodes: 20, how: probeOptions{Time: short}},
		{name: probeNameIdle, probe: "idle", nodes: 100, how: probeOptions{Time: idle}, short: quick},
		{name: probeNameFlight, probe: "inflight", nodes: 1, mode: modeMute, how: probeOptions{Count: 16000}},
		{
			name: probeNameLoad, probe: "overload", nodes: 1, mode: modePaced, how: probeOptions{Time: load},
			timed: true, short: quick,
		},
	}
}

// errProbe stands for the error of a probe, which the page names once.
var errProbe = errors.New("its probe has failed")

// probeResult is what a probe has found, once or in rounds.
type probeResult struct {
	rounds []map[string]float64
	clean  []bool
	timed  bool
	short  bool
	err    error
}

// sample is one field of what a probe has found, in its clean rounds or, when none is clean, in all.
func (p *probeResult) sample(field string) sample {
	if p == nil {
		return sample{}
	}
	f := sample{timed: p.timed, short: p.short, total: len(p.rounds)}
	if p.err != nil {
		f.err = errProbe
	}
	var all []float64
	for i, values := range p.rounds {
		v, ok := values[field]
		if !ok {
			continue
		}
		all = append(all, v)
		if p.clean[i] {
			f.clean++
			f.rounds = append(f.rounds, v)
		}
	}
	if f.clean == 0 || !p.timed {
		f.rounds = all
	}
	return f
}

// medians are a probe's findings.
func (p *probeResult) medians() map[string]float64 {
	out := map[string]float64{}
	if p == nil || len(p.rounds) == 0 {
		return out
	}
	for field := range p.rounds[0] {
		out[field] = finite(median(p.sample(field).rounds))
	}
	return out
}
