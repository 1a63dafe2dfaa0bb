package bench

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// job is what a client does in one slice.
type job struct {
	Op      operation     `json:"op"`
	Workers int           `json:"workers"`
	Size    int           `json:"size"`
	Time    time.Duration `json:"time_ns"`
}

// slice is what came of it. CPU and memory are those of the client's process.
type slice struct {
	Ops     int64         `json:"ops"`
	Elapsed time.Duration `json:"elapsed_ns"`
	CPU     time.Duration `json:"cpu_ns"`
	AllCPU  time.Duration `json:"all_cpu_ns"` // warming up included
	Mallocs uint64        `json:"mallocs"`
	Bytes   uint64        `json:"bytes"`
	P50     float64       `json:"p50_us"`
	P99     float64       `json:"p99_us"`
	P999    float64       `json:"p999_us"`
	Errors  int64         `json:"errors,omitempty"`
	Error   string        `json:"error,omitempty"` // the first one

	// What the orchestrator adds.
	ServerCPU time.Duration `json:"server_cpu_ns"`
	PerRead   float64       `json:"requests_per_server_read"`
	Foreign   float64       `json:"foreign"` // share of the cores that others used; -1 when not known
}

func (s *slice) rate() float64 { return float64(s.Ops) / s.Elapsed.Seconds() }

// perOp is a total per operation; 0 when nothing was done.
func (s *slice) perOp(total float64) float64 {
	if s.Ops == 0 {
		return 0
	}
	return total / float64(s.Ops)
}

// client is one of the clients under test. work gives one worker's operation: each call of it does it once and says how
// many keys that were.
type client interface {
	work(j job, worker int) func() (int, error)
	close()
}

// Phases of a slice.
const (
	warming int32 = iota
	measuring
	over
)

// worker is what one goroutine of a slice counts. The padding keeps two of them off one cache line.
type worker struct {
	hist   histogram
	ops    int64
	errors int64
	err    error
	_      [64]byte
}

// runner runs slices; its workers' memory is used again.
type runner struct {
	c       client
	lanes   func(workers int) int // how many goroutines stand for that many workers
	workers []*worker
}

// run has the workers work for a fifth of the time unmeasured and then for the time itself.
func (r *runner) run(j job) slice {
	n := j.Workers
	if r.lanes != nil {
		n = r.lanes(n)
	}
	for len(r.workers) < n {
		r.workers = append(r.workers, &worker{})
	}
	all := processCPU()
	var phase atomic.Int32
	base := time.Now()
	var wg sync.WaitGroup
	for i := range n {
		w := r.workers[i]
		w.hist.reset()
		w.ops, w.errors, w.err = 0, 0, nil
		do := r.c.work(j, i)
		wg.Go(func() { w.loop(do, &phase, base) })
	}
	time.Sleep(j.Time / 5)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := processCPU(), time.Now()
	phase.Store(measuring)
	time.Sleep(j.Time)
	phase.Store(over)
	s := slice{Elapsed: time.Since(began), CPU: processCPU() - cpu}
	runtime.ReadMemStats(&after)
	s.Mallocs, s.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	wg.Wait()
	if d, ok := r.c.(interface{ drain(job) error }); ok {
		if err := d.drain(j); err != nil {
			s.Errors, s.Error = 1, err.Error()
		}
	}
	s.AllCPU = processCPU() - all
	r.collect(&s, n)
	return s
}

func (r *runner) collect(s *slice, n int) {
	var h histogram
	for _, w := range r.workers[:n] {
		h.merge(&w.hist)
		s.Ops += w.ops
		s.Errors += w.errors
		if w.err != nil && s.Error == "" {
			s.Error = w.err.Error()
		}
	}
	s.P50, s.P99, s.P999 = h.quantile(0.50), h.quantile(0.99), h.quantile(0.999)
}

// loop does one operation after the other. An operation counts in the phase in which it ends.
func (w *worker) loop(do func() (int, error), phase *atomic.Int32, base time.Time) {
	last := time.Since(base)
	for {
		n, err := do()
		now := time.Since(base)
		if err != nil {
			w.errors++
			if w.err == nil {
				w.err = err
			}
			if w.errors > 100 {
				return // it would fail a million times a second
			}
		}
		switch phase.Load() {
		case measuring:
			w.hist.add(int64(now - last))
			w.ops += int64(n)
		case over:
			return
		}
		last = now
	}
}
