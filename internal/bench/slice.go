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
	Callers int           `json:"callers"`
	Size    int           `json:"size"`
	Time    time.Duration `json:"time_ns"`
	Fresh   bool          `json:"fresh,omitempty"` // a context.WithTimeout for each call
	Busy    int           `json:"busy,omitempty"`  // other goroutines that never stop computing
	Rate    int           `json:"rate,omitempty"`  // arrivals per second; 0: a caller's next call follows its last
	Host    bool          `json:"host,omitempty"`  // measure how late an unrelated ticker and an unrelated echo are
}

// slice is what came of it. CPU and memory are those of the client's process. Times are in microseconds.
type slice struct {
	Ops     int64         `json:"ops"`
	Elapsed time.Duration `json:"elapsed_ns"`
	CPU     time.Duration `json:"cpu_ns"`
	AllCPU  time.Duration `json:"all_cpu_ns"` // warming up included
	Mallocs uint64        `json:"mallocs"`
	P50     float64       `json:"p50_us"`
	P99     float64       `json:"p99_us"`
	P999    float64       `json:"p999_us"`
	Ticker  float64       `json:"ticker_p99_us,omitempty"`
	Echo    float64       `json:"echo_p99_us,omitempty"`
	Errors  int64         `json:"errors,omitempty"`
	Error   string        `json:"error,omitempty"` // the first one

	Foreign float64 `json:"foreign"` // share of the cores that others used; -1 when not known
}

func (s *slice) rate() float64 {
	if s.Elapsed <= 0 {
		return 0
	}
	return float64(s.Ops) / s.Elapsed.Seconds()
}

// perOp is a total per operation; 0 when nothing was done.
func (s *slice) perOp(total float64) float64 {
	if s.Ops == 0 {
		return 0
	}
	return total / float64(s.Ops)
}

// client is one of the clients under test. work gives one caller's operation: each call of it does it once and says how
// many keys that were.
type client interface {
	work(j job, caller int) func() (int, error)
	close()
}

// Phases of a slice.
const (
	warming int32 = iota
	measuring
	over
)

// mostErrors is how many failures a caller makes: it would fail a million times a second.
const mostErrors = 100

// worker is what one caller counts. The padding keeps two of them off one cache line.
type worker struct {
	do     func() (int, error)
	hist   histogram
	ops    int64
	errors int64
	err    error
	_      [64]byte
}

// runner runs slices; its workers' memory is used again.
type runner struct {
	c       client
	lanes   func(callers int) int // how many goroutines stand for that many callers
	workers []*worker
}

// clock is what the goroutines of a slice share.
type clock struct {
	phase atomic.Int32
	base  time.Time
}

func (c *clock) now() time.Duration { return time.Since(c.base) }

// run has the callers work for a fifth of the time unmeasured and then for the time itself.
func (r *runner) run(j job) slice {
	n := j.Callers
	if r.lanes != nil {
		n = r.lanes(n)
	}
	r.prepare(j, n)
	all := processCPU()
	c := &clock{base: time.Now()}
	stop, late, err := beside(j, c)
	if err != nil {
		return slice{Errors: 1, Error: err.Error()}
	}
	wait, err := r.start(j, n, c)
	if err != nil {
		stop()
		return slice{Errors: 1, Error: err.Error()}
	}
	time.Sleep(j.Time / 5)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := processCPU(), time.Now()
	c.phase.Store(measuring)
	time.Sleep(j.Time)
	c.phase.Store(over)
	s := slice{Elapsed: time.Since(began), CPU: processCPU() - cpu}
	stop()
	runtime.ReadMemStats(&after)
	s.Mallocs = after.Mallocs - before.Mallocs
	wait()
	s.AllCPU = processCPU() - all
	s.Ticker, s.Echo = late.ticker.quantile(0.99), late.echo.quantile(0.99)
	r.collect(&s, n)
	return s
}

func (r *runner) prepare(j job, n int) {
	for len(r.workers) < n {
		r.workers = append(r.workers, &worker{})
	}
	for i, w := range r.workers[:n] {
		w.hist.reset()
		w.ops, w.errors, w.err = 0, 0, nil
		w.do = r.c.work(j, i)
	}
}

// start lets n callers begin, one after the other's end or by the clock, and gives what waits for their end.
func (r *runner) start(j job, n int, c *clock) (wait func(), err error) {
	if j.Rate > 0 {
		return arrivals(r.workers[:n], j.Rate, c)
	}
	var wg sync.WaitGroup
	for _, w := range r.workers[:n] {
		wg.Go(func() { w.loop(c) })
	}
	return wg.Wait, nil
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

// loop does one operation after the other.
func (w *worker) loop(c *clock) {
	last := c.now()
	for c.phase.Load() != over && w.errors <= mostErrors {
		last = w.once(last, c)
	}
}

// once does an operation whose time counts from when it was to begin, and gives when it ended. It counts in the phase
// in which it ends.
func (w *worker) once(due time.Duration, c *clock) time.Duration {
	n, err := w.do()
	now := c.now()
	if err != nil {
		w.errors++
		if w.err == nil {
			w.err = err
		}
		return now
	}
	if c.phase.Load() == measuring {
		w.hist.add(int64(now - due))
		w.ops += int64(n)
	}
	return now
}
