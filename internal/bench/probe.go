package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/couchbase/gocbcore/v10"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
)

// probe measures what no slice can. It runs in a process of its own, in which no client has been opened.
type probe struct {
	name string
	run  func(t target, o probeOptions) (map[string]float64, error)
}

// probeOptions is how much a probe does.
type probeOptions struct {
	Peer  bool          `json:"peer,omitempty"` // of gocbcore instead of couchcore
	Count int           `json:"count,omitempty"`
	Time  time.Duration `json:"time_ns,omitempty"`
}

func allProbes() []probe {
	return []probe{
		{"allocs", probeAllocs},
		{"idle", probeIdle},
		{"inflight", probeInFlight},
		{"waiting", probeWaiting},
		{"futures", probeFutures},
		{"overload", probeOverload},
	}
}

func openFor(t target, o probeOptions) (client, error) {
	if o.Peer {
		return newPeer(t)
	}
	return newOurs(t, formDo)
}

// probeAllocs counts allocations of one operation, a fresh literal per call, on one processor.
func probeAllocs(t target, o probeOptions) (map[string]float64, error) {
	out := map[string]float64{}
	for _, f := range []struct {
		name string
		form form
		op   operation
		keys float64
	}{{"get", formDo, opGet, 1}, {"get_into", formInto, opGet, 1}, {"upsert", formDo, opUpsert, 1}, {"bulk_key", formBulk, opGet, bulkKeys}} {
		c, err := newOurs(t, f.form)
		if err != nil {
			return nil, err
		}
		do := c.work(job{Op: f.op, Workers: 1, Size: 256}, 0)
		out[f.name] = testing.AllocsPerRun(max(o.Count, 100), func() {
			if _, e := do(); e != nil {
				err = e
			}
		}) / f.keys
		c.close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", f.name, err)
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
	c, err := openFor(t, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	do := c.work(job{Op: opGet, Workers: 1, Size: 256}, 0)
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
	return map[string]float64{"bytes": max(after-before, 0) / n, "goroutines": float64(has - had), "connections": n}, nil
}

// probeInFlight starts operations that are never answered and counts what each holds. modeMute is the target's mode.
func probeInFlight(t target, o probeOptions) (map[string]float64, error) {
	c, err := openFor(t, o)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ks := keys(classOf(256))
	before, _ := live()
	cancel, err := startAll(c, o.Count, ks)
	if err != nil {
		return nil, err
	}
	time.Sleep(200 * time.Millisecond) // for the writes
	after, _ := live()
	cancel()
	return map[string]float64{"bytes": max(after-before, 0) / float64(o.Count)}, nil
}

// startAll starts n gets without waiting and gives what ends them. The handles that an application would keep count.
func startAll(c client, n int, ks [][]byte) (cancel func(), err error) {
	switch c := c.(type) {
	case *ours:
		fs := make([]kv.Future[kv.GetResult], n)
		for i := range fs {
			fs[i] = kv.Start(context.Background(), c.bucket, kv.Get{Key: ks[i%len(ks)]})
		}
		return func() {
			for _, f := range fs {
				f.Cancel()
			}
		}, nil
	case *peer:
		ops := make([]gocbcore.PendingOp, n)
		for i := range ops {
			ops[i], err = c.agent.Get(gocbcore.GetOptions{Key: ks[i%len(ks)]}, func(*gocbcore.GetResult, error) {})
			if err != nil {
				return nil, err
			}
			if i%1024 == 1023 {
				time.Sleep(5 * time.Millisecond) // its queue holds 2,048
			}
		}
		return func() {
			for _, op := range ops {
				op.Cancel()
			}
		}, nil
	}
	return nil, errors.New("no such client")
}

// probeWaiting starts operations while there is no connection yet, and counts what each holds.
func probeWaiting(_ target, o probeOptions) (map[string]float64, error) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // nothing to wait for on the loopback interface
	if err != nil {
		return nil, err
	}
	defer silent.Close()
	cluster, err := core.Open(context.Background(), core.Config{Hosts: []string{silent.Addr().String()}})
	if err != nil {
		return nil, err
	}
	c := &ours{cluster: cluster, bucket: cluster.Bucket(bucketName), cancel: func() {}}
	defer c.close()
	before, _ := live()
	cancel, err := startAll(c, o.Count, keys(classOf(256)))
	if err != nil {
		return nil, err
	}
	after, _ := live()
	cancel()
	return map[string]float64{"bytes": max(after-before, 0) / float64(o.Count)}, nil
}

// futuresWindow is how many futures are under way at a time: half of what one connection takes.
const futuresWindow = 16384

// probeFutures starts many gets, keeps all futures, waits for all, and counts what each completed one holds.
func probeFutures(t target, o probeOptions) (map[string]float64, error) {
	c, err := newOurs(t, formDo)
	if err != nil {
		return nil, err
	}
	defer c.close()
	ctx, ks := context.Background(), keys(classOf(16))
	before, _ := live()
	began := time.Now()
	fs := make([]kv.Future[kv.GetResult], o.Count)
	for i := range fs {
		if i >= futuresWindow {
			<-fs[i-futuresWindow].Done()
		}
		fs[i] = kv.Start(ctx, c.bucket, kv.Get{Key: ks[i%len(ks)]})
	}
	for i := range fs {
		<-fs[i].Done()
	}
	took := time.Since(began)
	after, _ := live()
	for i := range fs {
		res, err := fs[i].Wait(ctx)
		if err := gotten(res.Value, err, 16, false); err != nil {
			return nil, fmt.Errorf("future %d: %w", i, err)
		}
	}
	return map[string]float64{"bytes": (after - before) / float64(len(fs)), "per_second": float64(len(fs)) / took.Seconds()}, nil
}
