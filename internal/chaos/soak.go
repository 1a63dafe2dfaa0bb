package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"sync/atomic"
	"time"

	"github.com/couchcore/couchcore/kv"
)

// Sample is what a client's process was like at a moment of a soak.
type Sample struct {
	At          float64 `json:"at"` // seconds since the start
	Goroutines  int     `json:"goroutines"`
	Descriptors int     `json:"descriptors"`
	Heap        int64   `json:"heap"`  // bytes that live
	Calls       int64   `json:"calls"` // so far
	Failed      int64   `json:"failed"`
	P50         float64 `json:"p50_ms"` // of the calls before it
	P99         float64 `json:"p99_ms"`
}

const (
	soakWorkers   = 16
	soakDocuments = 1000
	soakValue     = 256
	soakKept      = 4096 // durations of calls that each worker keeps
	soakFault     = 10 * time.Second
	soakBurst     = 64 // calls that are cancelled before each sample
)

// soaker is the client's process of a soak.
type soaker struct {
	*client
	failed atomic.Int64
	took   [soakWorkers][soakKept]atomic.Int64 // ns
	made   [soakWorkers]atomic.Int64
	slower atomic.Int64 // ns, planted
	grown  atomic.Int64 // steps of that
	broken atomic.Int64 // samples since it began, planted
	leaked leaks
}

// leaks is what planted defects keep.
type leaks struct {
	files  []*os.File
	memory [][]byte
}

// soak makes calls without a pause, opens and closes clients beside them, and samples what the process holds.
func (c *client) soak(said chan string) error {
	s := &soaker{client: c}
	o, err := c.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), startLimit)
	defer cancel()
	if err := o.b.WaitReady(ctx); err != nil {
		return err
	}
	for id := range soakWorkers {
		c.worker.Go(func() { s.work(o, id) })
	}
	c.to.send(message{Ready: true})
	began := time.Now()
	t := time.NewTicker(c.o.Every)
	defer t.Stop()
	for on := true; on; {
		select {
		case line, open := <-said:
			on = open && line != sayEnd
		case <-t.C:
			if err := s.beside(o); err != nil {
				return err
			}
			s.leak()
			sample := s.sample(began)
			c.to.send(message{Sample: &sample})
		}
	}
	c.stopped.Store(true)
	c.worker.Wait()
	return o.c.Close()
}

// work is a worker: it reads and writes the same documents.
func (s *soaker) work(o *opened, id int) {
	r := rand.New(rand.NewPCG(s.o.Seed, uint64(id)))
	value := make([]byte, soakValue)
	for !s.stopped.Load() {
		key := fmt.Appendf(nil, "soak-%d", r.IntN(soakDocuments))
		began := time.Now()
		var err error
		if r.IntN(4) == 0 {
			_, err = kv.Do(context.Background(), o.b, kv.Upsert{Key: key, Value: value})
		} else {
			_, err = kv.Do(context.Background(), o.b, kv.GetOrNull{Key: key})
		}
		err = s.worsened(err)
		n := s.made[id].Add(1)
		s.took[id][n%soakKept].Store(int64(time.Since(began)))
		if err != nil {
			s.failed.Add(1)
		}
	}
}

// worsened is the end of a call, as a planted defect has it.
func (s *soaker) worsened(err error) error {
	if d := s.slower.Load(); d > 0 {
		sleep(context.Background(), time.Duration(d))
	}
	if s.broken.Load() <= leastSamples {
		return err
	}
	for s.o.Plant == plantHanging && !s.stopped.Load() {
		time.Sleep(time.Millisecond)
	}
	return errPlanted
}

var errPlanted = errors.New("planted")

// beside does what leaks if anything does: another client is opened and closed, and calls are cancelled.
func (s *soaker) beside(o *opened) error {
	other, err := s.open()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	for i := range soakBurst {
		kv.Start(ctx, o.b, kv.Get{Key: fmt.Appendf(nil, "soak-%d", i)})
		kv.Start(ctx, other.b, kv.Get{Key: fmt.Appendf(nil, "soak-%d", i)})
	}
	cancel()
	return other.c.Close()
}

// leak does what a planted defect would.
func (s *soaker) leak() {
	switch s.o.Plant {
	case plantGoroutine:
		leakGoroutine()
	case plantDescriptor:
		s.leaked.files = append(s.leaked.files, leakDescriptor()...)
	case plantHeap:
		s.leaked.memory = append(s.leaked.memory, make([]byte, 1<<20))
	case plantLatency: // faster and faster: a loaded machine is as slow at the beginning as some steps would be
		n := s.grown.Add(1)
		s.slower.Store(min(n*n*int64(4*time.Millisecond), int64(2*time.Second)))
	case plantFailing, plantHanging:
		s.broken.Add(1)
	}
}

func (s *soaker) sample(began time.Time) Sample {
	out := Sample{At: time.Since(began).Seconds(), Failed: s.failed.Load()}
	var took []time.Duration
	for id := range soakWorkers {
		n := s.made[id].Load()
		out.Calls += n
		for i := range min(n, soakKept) {
			took = append(took, time.Duration(s.took[id][i].Load()))
		}
	}
	slices.Sort(took)
	at := func(share float64) float64 {
		if len(took) == 0 {
			return 0
		}
		return took[int(share*float64(len(took)-1))].Seconds() * 1000
	}
	out.P50, out.P99 = at(0.5), at(0.99)
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	out.Heap = int64(live[0].Value.Uint64())
	out.Goroutines, out.Descriptors = runtime.NumGoroutine(), descriptors()
	return out
}

// Soak lets a client's process work for the time, with a node's connections reset every few seconds, and judges whether
// what it holds grows. The error is that of a run that could not be made.
func Soak(ctx context.Context, o Options) (*SoakReport, error) {
	if err := Supported(); err != nil {
		return nil, err
	}
	s := &supervisor{o: o, report: newReport(o.Seed), started: map[*process]struct{}{}}
	defer s.killAll()
	rd := &round{
		supervisor: s, sc: new(scenario), tls: o.Seed%2 == 0,
		soaks: min(max(o.Duration/200, 200*time.Millisecond), 30*time.Second),
	}
	if err := rd.build(); err != nil {
		return nil, err
	}
	defer func() { _ = rd.m.Close() }()
	if err := rd.m.LimitApplyLog(bucketName, 1); err != nil {
		return nil, err
	}
	if err := rd.startClient(); err != nil {
		return nil, err
	}
	began := time.Now()
	ctx, stop := context.WithTimeout(ctx, o.Duration)
	defer stop()
	go func() {
		<-ctx.Done()
		rd.client.say(sayEnd)
	}()
	go rd.soakFaults(ctx)
	r := &SoakReport{Seed: o.Seed}
	for {
		m, err := rd.client.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if m.Violation != nil {
			s.report.add(*m.Violation)
		}
		if m.Sample != nil {
			r.Samples = append(r.Samples, *m.Sample)
			s.live("soak   %v of %v   %d goroutines, %d descriptors, heap %.1f MB, p99 %.2f ms",
				time.Since(began).Round(time.Second), o.Duration, m.Sample.Goroutines, m.Sample.Descriptors,
				float64(m.Sample.Heap)/1e6, m.Sample.P99)
		}
	}
	if err := rd.client.finish(endLimit); err != nil {
		return nil, err
	}
	r.Took = time.Since(began).Round(time.Millisecond).String()
	r.judge()
	r.Failures = s.report.Failures
	r.OK = r.OK && len(r.Failures) == 0
	return r, nil
}

// soakFaults resets the connections of a node now and then.
func (rd *round) soakFaults(ctx context.Context) {
	for n := 0; ; n++ {
		sleep(ctx, min(soakFault, rd.soaks*4))
		if ctx.Err() != nil {
			return
		}
		rd.nodes[n%nodes].say(nodeReset)
	}
}
