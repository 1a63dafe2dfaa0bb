package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// benchCmd makes load and says how long calls took. Without a cluster it starts a mock in this process.
type benchCmd struct {
	connectFlags
	Ops         int           `xor:"until" help:"How many calls (default: as many as there is time for)."`
	Duration    time.Duration `xor:"until" help:"For how long (default: 10s)."`
	Concurrency int           `default:"64" help:"How many callers, each with one call at a time (default: 64)."`
	Keys        int           `default:"10000" help:"How many documents; they are written first, and expire after an hour (default: 10000)."`
	ValueSize   int           `default:"256" help:"Bytes of a document (default: 256)."`
	ReadRatio   float64       `default:"0.5" help:"The share of calls that read; the others write (default: 0.5)."`
}

const (
	benchTime   = 10 * time.Second
	benchExpiry = time.Hour
	benchWidth  = 40 // of the longest bar
)

// benchReport is what a run has measured, as JSON.
type benchReport struct {
	Cluster     string         `json:"cluster"`
	Ops         int64          `json:"ops"`
	OpsPerS     float64        `json:"ops_per_s"`
	Reads       int64          `json:"reads"`
	Writes      int64          `json:"writes"`
	P50US       float64        `json:"p50_us"`
	P90US       float64        `json:"p90_us"`
	P99US       float64        `json:"p99_us"`
	P999US      float64        `json:"p999_us"`
	MaxUS       float64        `json:"max_us"`
	Errors      int64          `json:"errors"`
	ErrorKinds  map[string]int `json:"error_kinds"`
	Retries     int64          `json:"retries"`
	Reasons     map[string]int `json:"reasons"`
	Concurrency int            `json:"concurrency"`
	Keys        int            `json:"keys"`
	ValueSize   int            `json:"value_size"`
	ReadRatio   float64        `json:"read_ratio"`
	ElapsedUS   int64          `json:"elapsed_us"`
}

// bencher is one run.
type bencher struct {
	*app
	cmd    *benchCmd
	bucket *core.Bucket
	value  []byte

	times           histogram
	reads, writes   atomic.Int64
	errors, retries atomic.Int64

	mu      sync.Mutex // for what is rare
	kinds   map[string]int
	reasons map[string]int
	first   error
}

// Run implements the command.
func (c *benchCmd) Run(a *app) error {
	switch {
	case c.Ops < 0, c.Duration < 0:
		return usagef("bench: --ops and --duration are not negative")
	case c.Concurrency < 1 || c.Concurrency > 4096:
		return usagef("bench: --concurrency is 1 to 4096")
	case c.Keys < 1 || c.Keys > 10_000_000:
		return usagef("bench: --keys is 1 to 10000000")
	case c.ValueSize < 0 || c.ValueSize > kv.MaxValueLen:
		return usagef("bench: --value-size is 0 to %d", kv.MaxValueLen)
	case !(c.ReadRatio >= 0 && c.ReadRatio <= 1):
		return usagef("bench: --read-ratio is 0 to 1")
	}
	name := ""
	if c.Connect == "" && a.env("COUCHCORE_CONNECT") == "" {
		m, err := mock.New(mock.Nodes(3), mock.Replicas(1), mock.VBuckets(1024))
		if err != nil {
			return fmt.Errorf("bench: %w", err)
		}
		defer func() { _ = m.Close() }()
		c.Connect, c.Username, c.Password, c.Bucket = m.ConnString(), mock.DefaultUser, mock.DefaultPassword,
			mock.DefaultBucket
		name = "a mock of three nodes in this process"
	}
	cl, bucket, err := c.openTold(a)
	if err != nil {
		return err
	}
	name = or(name, hostsOf(a, c.Connect))
	b := &bencher{
		app: a, cmd: c, bucket: bucket, value: benchValue(c.ValueSize), kinds: map[string]int{},
		reasons: map[string]int{},
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	took, err := b.run(ctx)
	b.live("")
	if err == nil {
		err = b.show(name, took)
	}
	return errors.Join(err, cl.Close())
}

// hostsOf are the hosts of a cluster; the options of its connection string are left out.
func hostsOf(a *app, connect string) string {
	spec, err := core.ParseSpec(or(connect, a.env("COUCHCORE_CONNECT")))
	if err != nil {
		return ""
	}
	var hosts []string
	for _, h := range spec.Hosts {
		hosts = append(hosts, h.String())
	}
	return strings.Join(hosts, ",")
}

// benchValue are letters in no order, which do not become less when they are compressed.
func benchValue(n int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	value := make([]byte, n)
	for i := range value {
		value[i] = byte(' ' + 1 + random.IntN(94))
	}
	return value
}

func benchKey(n int) []byte { return fmt.Appendf(nil, "couchcore-bench-%08d", n) }

// run writes the documents, then makes load until it is enough or ctx ends.
func (b *bencher) run(ctx context.Context) (time.Duration, error) {
	var next, done atomic.Int64
	err := b.callers(ctx, func() {
		b.live("bench   %s of %s documents written", grouped(int(done.Load())),
			grouped(b.cmd.Keys))
	},
		func(int) func() error {
			return func() error {
				n := int(next.Add(1)) - 1
				if n >= b.cmd.Keys {
					return errEnough
				}
				done.Add(1)
				_, err := kv.Do(context.Background(), b.bucket, b.upsert(n))
				return err
			}
		})
	if err != nil {
		return 0, fmt.Errorf("bench: writing the documents: %w", err)
	}
	limit := b.cmd.Duration
	if b.cmd.Ops == 0 {
		limit = cmp.Or(limit, benchTime)
	}
	began := time.Now()
	var begun atomic.Int64
	err = b.callers(ctx, func() { b.progress(began) }, func(caller int) func() error {
		random := rand.New(rand.NewPCG(uint64(caller), 3))
		return func() error {
			if b.cmd.Ops > 0 && begun.Add(1) > int64(b.cmd.Ops) || limit > 0 && time.Since(began) >= limit {
				return errEnough
			}
			b.call(random.IntN(b.cmd.Keys), random.Float64() < b.cmd.ReadRatio)
			return nil
		}
	})
	return time.Since(began), err
}

// errEnough ends a caller.
var errEnough = errors.New("enough")

// callers runs as many as are wanted, each until its function fails or ctx ends, and tick now and then. The error is
// the first that is not errEnough.
func (b *bencher) callers(ctx context.Context, tick func(), caller func(int) func() error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for i := range b.cmd.Concurrency {
		wg.Go(func() {
			step := caller(i)
			for ctx.Err() == nil {
				if err := step(); err != nil {
					if !errors.Is(err, errEnough) {
						cancel(err)
					}
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	every := time.NewTicker(200 * time.Millisecond)
	defer every.Stop()
	for {
		select {
		case <-ended:
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
				return cause
			}
			return nil
		case <-every.C:
			tick()
		}
	}
}

func (b *bencher) common() kv.Common {
	return kv.Common{Scope: b.cmd.Scope, Collection: b.cmd.Collection, Timeout: b.cmd.Timeout}
}

func (b *bencher) upsert(n int) kv.Upsert {
	return kv.Upsert{Common: b.common(), Key: benchKey(n), Value: b.value, Expiry: kv.ExpireAfter(benchExpiry)}
}

// call makes one call and counts it.
func (b *bencher) call(n int, read bool) {
	var info retry.Info
	var err error
	began := time.Now()
	if read {
		var r kv.GetResult
		r, err = kv.Do(context.Background(), b.bucket, kv.Get{Common: b.common(), Key: benchKey(n)})
		info = r.RetryInfo()
	} else {
		var r kv.MutationResult
		r, err = kv.Do(context.Background(), b.bucket, b.upsert(n))
		info = r.RetryInfo()
	}
	b.times.add(time.Since(began))
	if read {
		b.reads.Add(1)
	} else {
		b.writes.Add(1)
	}
	if err != nil {
		info, _ = retry.InfoOf(err)
	}
	if err == nil && info.Retries() == 0 {
		return
	}
	b.retries.Add(int64(info.Retries()))
	b.mu.Lock()
	defer b.mu.Unlock()
	for r := range info.Reasons.All() {
		b.reasons[r.String()]++
	}
	if err != nil {
		b.errors.Add(1)
		b.kinds[failureOf(err).Kind]++
		b.first = cmp.Or(b.first, err)
	}
}

// progress rewrites the live line.
func (b *bencher) progress(began time.Time) {
	if !b.terminal || b.json {
		return
	}
	took, n, p := time.Since(began), b.times.total(), b.times.below(0.5, 0.99)
	b.live("[%4.1fs] %s ops  %s  p50 %s  p99 %s  max %s  retries %d  errors %d", took.Seconds(), grouped(int(n)),
		rate(n, took),
		short(p[0]), short(p[1]), short(b.times.longest()), b.retries.Load(), b.errors.Load())
}

func rate(n int64, took time.Duration) string {
	perSecond := float64(n) / max(took.Seconds(), 1e-9)
	if perSecond < 1000 {
		return fmt.Sprintf("%.0f/s", perSecond)
	}
	return fmt.Sprintf("%.1fk/s", perSecond/1e3)
}

// show writes the result. It fails when every call has.
func (b *bencher) show(cluster string, took time.Duration) error {
	n, p := b.times.total(), b.times.below(0.5, 0.9, 0.99, 0.999)
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	r := benchReport{
		Cluster: cluster, Ops: n, OpsPerS: float64(n) / max(took.Seconds(), 1e-9), Reads: b.reads.Load(),
		Writes: b.writes.Load(),
		P50US:  us(p[0]), P90US: us(p[1]), P99US: us(p[2]), P999US: us(p[3]), MaxUS: us(b.times.longest()),
		Errors: b.errors.Load(), ErrorKinds: b.kinds, Retries: b.retries.Load(), Reasons: b.reasons,
		Concurrency: b.cmd.Concurrency, Keys: b.cmd.Keys, ValueSize: b.cmd.ValueSize, ReadRatio: b.cmd.ReadRatio,
		ElapsedUS: took.Microseconds(),
	}
	if b.json {
		if err := b.emit(r); err != nil {
			return err
		}
	} else if err := b.forPeople(r, took, p); err != nil {
		return err
	}
	if n > 0 && r.Errors == n {
		return fmt.Errorf("bench: every call has failed: %w", b.first)
	}
	return nil
}

func (b *bencher) forPeople(r benchReport, took time.Duration, p []time.Duration) error {
	lines := []string{
		fmt.Sprintf("%s   %s ops   %s   %d callers   %d bytes   %.0f%% reads   %s", short(took), grouped(int(r.Ops)),
			rate(r.Ops, took),
			r.Concurrency, r.ValueSize, r.ReadRatio*100, r.Cluster),
		fmt.Sprintf("p50 %s   p90 %s   p99 %s   p99.9 %s   max %s   retries %d   errors %d", short(p[0]), short(p[1]),
			short(p[2]), short(p[3]),
			short(b.times.longest()), r.Retries, r.Errors),
	}
	if list := counts(r.Reasons); list != "" {
		lines = append(lines, "met "+list)
	}
	if list := counts(r.ErrorKinds); list != "" {
		lines = append(lines, "failed with "+list)
	}
	bars := b.times.bars()
	most := int64(1)
	for _, x := range bars {
		most = max(most, x.count)
	}
	for _, x := range bars {
		width := int((x.count*benchWidth + most - 1) / most) // what there is shows
		lines = append(lines, strings.TrimRight(fmt.Sprintf("%-9s %s", about3(x.from), strings.Repeat("\u2587", width)),
			" "))
	}
	return b.print("%s", strings.Join(lines, "\n"))
}

// about3 writes where a bar of the histogram begins.
func about3(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%d us", d.Microseconds())
	case d < time.Second:
		return fmt.Sprintf("%.3g ms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3g s", d.Seconds())
}
