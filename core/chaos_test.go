package core_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// entry is a call's line in the workload's own ledger. The judge is the mock's apply log, never the client.
type entry struct {
	key, token string
	began      time.Time
	took       time.Duration
	limit      time.Duration
	err        error
	ends       int
}

// strategies that a call may bring: polite, reckless, blocking, panicking, random.
func anyStrategy(r *rand.Rand) retry.Strategy {
	random, seed := r.IntN(10), r.Uint64()
	switch {
	case random < 4:
		return nil
	case random < 6:
		return retry.BestEffort{}
	}
	return retry.Func(func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
		switch random {
		case 6:
			return retry.After(0)
		case 7:
			<-ctx.Done()
			return retry.After(0)
		case 8:
			panic("a strategy's own")
		}
		return retry.After(time.Duration(seed%50) * time.Millisecond)
	})
}

func anyFault(r *rand.Rand) mock.Fault {
	fs := []mock.Fault{
		mock.Status(memd.StatusTmpFail), mock.Status(memd.StatusLocked), mock.Status(memd.StatusSyncWriteInProgress),
		mock.Status(memd.StatusBusy), mock.Status(0x7fff), mock.Delay(time.Duration(r.IntN(300)) * time.Millisecond),
		mock.Drop(),
		mock.DropReply(), mock.CloseBefore(), mock.CloseAfter(), mock.Truncate(r.IntN(30)), mock.Twice(),
		mock.CorruptMagic(), mock.CorruptLength(), mock.CorruptParts(), mock.CorruptOpaque(), mock.NotMyVBucket(true,
			nil),
		mock.NotMyVBucket(false, nil), mock.DelayReply(time.Duration(r.IntN(300)) * time.Millisecond),
	}
	return fs[r.IntN(len(fs))]
}

// One seed: workers write under random faults, changes of the topology and strategies of any manners. Whatever
// happens, each call ends once and in time, and says the truth about what was applied: success once, unambiguous
// failure never, ambiguous at most once.
func chaos(t *testing.T, seed uint64, calls int, reached map[string]int) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(3), mock.Replicas(1), mock.Virtual(), mock.Bucket("default", 16,
			mock.WithCollection("s", "c")))
		c := open(t, m,
			func(cfg *core.Config) { cfg.Retry.JitterSource = guarded(rand.New(rand.NewPCG(seed, 2)).Float64) })
		b := c.Bucket("default")
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { disturb(ctx, m, rand.New(rand.NewPCG(seed, 3))) })
		var mu sync.Mutex
		var ledger []*entry
		var workers sync.WaitGroup
		for w := range 8 {
			wr := rand.New(rand.NewPCG(seed, 100+uint64(w)))
			workers.Go(func() {
				for i := range calls / 8 {
					time.Sleep(time.Duration(wr.IntN(20)) * time.Millisecond)
					e := &entry{key: fmt.Sprintf("k-%d-%d", w, i), began: time.Now()}
					e.token = "t" + e.key
					e.limit = time.Duration(1+wr.IntN(2500)) * time.Millisecond
					mu.Lock()
					ledger = append(ledger, e)
					mu.Unlock()
					write(ctx, b, wr, e)
				}
			})
		}
		over := make(chan struct{})
		rr := rand.New(rand.NewPCG(seed, 4))
		wg.Go(func() {
			for {
				select {
				case <-over:
					return
				case <-time.After(time.Duration(1+rr.IntN(60)) * time.Millisecond):
					readMany(ctx, t, b, rr, calls, reached, &mu)
				}
			}
		})
		workers.Wait()
		close(over)
		stop()
		wg.Wait()
		require.NoError(t, c.Close())
		synctest.Wait()
		check(t, seed, m, ledger, reached)
	})
}

func guarded(f func() float64) func() float64 {
	var mu sync.Mutex
	return func() float64 {
		mu.Lock()
		defer mu.Unlock()
		return f()
	}
}

// write runs one mutation in one of the three forms and enters its outcome.
func write(ctx context.Context, b *core.Bucket, r *rand.Rand, e *entry) {
	in := kv.Common{Timeout: e.limit, Retry: anyStrategy(r)}
	if r.IntN(3) == 0 {
		in.Scope, in.Collection = "s", "c"
	}
	if r.IntN(10) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(r.IntN(500))*time.Millisecond)
		defer cancel()
	}
	end := func(err error) { e.err, e.took = err, time.Since(e.began); e.ends++ }
	key, value := []byte(e.key), []byte(e.token)
	switch r.IntN(4) {
	case 0:
		_, err := kv.Do(ctx, b, kv.Insert{Common: in, Key: key, Value: value})
		end(err)
	case 1:
		_, err := kv.Start(ctx, b, kv.Upsert{Common: in, Key: key, Value: value}).Wait(context.WithoutCancel(ctx))
		end(err)
	case 2:
		done := make(chan error, 2)
		kv.Go(ctx, b, kv.Upsert{Common: in, Key: key, Value: value}, func(_ kv.MutationResult,
			err error,
		) {
			done <- err
		})
		end(<-done)
	default:
		one := uint64(1)
		_, err := kv.Do(ctx, b, kv.Increment{Common: in, Key: key, Delta: 1, Initial: &one})
		end(err)
	}
}

// readMany reads many documents, of which some may be there, and judges what comes: each in time, its own and no
// other's.
func readMany(ctx context.Context, t *testing.T, b *core.Bucket, r *rand.Rand, calls int, reached map[string]int,
	mu *sync.Mutex,
) {
	in := kv.Common{Timeout: time.Duration(1+r.IntN(2500)) * time.Millisecond, Retry: anyStrategy(r)}
	if r.IntN(3) == 0 {
		in.Scope, in.Collection = "s", "c"
	}
	limit := in.Timeout
	if r.IntN(4) == 0 {
		var cancel context.CancelFunc
		limit = min(limit, time.Duration(r.IntN(500))*time.Millisecond)
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	keys := make([][]byte, 1+r.IntN(30))
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "k-%d-%d", r.IntN(8), r.IntN(calls/8))
	}
	began := time.Now()
	for i, o := range kv.GetMulti(ctx, b, in, keys) {
		value, outcome := string(o.Result.Value), "read"
		var ke *kv.Error
		switch {
		case o.Err == nil && value != "t"+string(keys[i]) && value != "1":
			t.Errorf("%s is %q", keys[i], value)
		case o.Err == nil:
		case !errors.As(o.Err, &ke):
			t.Errorf("%s: %v is no kv.Error", keys[i], o.Err)
		case ke.Ambiguous():
			t.Errorf("%s: a read in doubt: %v", keys[i], o.Err)
		case errors.Is(o.Err, cberr.DocumentNotFound):
			outcome = "read nothing"
		default:
			outcome = "read in vain"
		}
		mu.Lock()
		reached[outcome]++
		mu.Unlock()
	}
	if took := time.Since(began); took > limit {
		t.Errorf("%d reads took %v, limit %v", len(keys), took, limit)
	}
}

// disturb injects faults and changes the topology until ctx ends, and then lets everything recover.
func disturb(ctx context.Context, m *mock.Cluster, r *rand.Rand) {
	ops := []memd.Opcode{
		memd.OpGet, memd.OpSet, memd.OpAdd, memd.OpIncrement, memd.OpCollectionsGetID,
		memd.OpGetClusterConfig, memd.OpHello, memd.OpSASLStep, memd.OpSelectBucket,
	}
	for ctx.Err() == nil {
		t := time.NewTimer(time.Duration(1+r.IntN(40)) * time.Millisecond)
		select {
		case <-t.C:
		case <-ctx.Done():
		}
		switch n := r.IntN(20); {
		case n < 13:
			m.Inject(mock.Match{Opcodes: ops[r.IntN(len(ops)):][:1], Times: 1 + r.IntN(4)}, anyFault(r))
		case n < 15:
			_ = m.MoveVBucket("default", r.IntN(16), r.IntN(3))
		case n < 16:
			_ = m.CloseConns(r.IntN(3))
		case n < 17:
			m.BumpRevision()
		case n < 18:
			_ = m.DropCollection("default", "s", "c")
			_, _ = m.CreateCollection("default", "s", "c")
		case n < 19:
			node := r.IntN(3)
			_ = m.Kill(node)
			time.Sleep(time.Duration(r.IntN(500)) * time.Millisecond)
			_ = m.Respawn(node)
		}
	}
}

func check(t *testing.T, seed uint64, m *mock.Cluster, ledger []*entry, reached map[string]int) {
	count := map[string]int{}
	for _, a := range m.ApplyLog("default") {
		count[a.Key]++
	}
	for _, e := range ledger {
		n := count[e.key]
		var ke *kv.Error
		bad := ""
		switch {
		case e.ends != 1:
			bad = fmt.Sprintf("ended %d times", e.ends)
		case e.took > e.limit:
			bad = fmt.Sprintf("took %v, limit %v", e.took, e.limit)
		case e.err == nil && n != 1:
			bad = fmt.Sprintf("succeeded, applied %d times", n)
		case e.err != nil && !errors.As(e.err, &ke):
			bad = "is no kv.Error"
		case e.err != nil && n > 1, e.err != nil && !ke.Ambiguous() && n != 0 &&
			!errors.Is(e.err, cberr.DocumentExists):
			bad = fmt.Sprintf("applied %d times", n)
		}
		switch {
		case e.err == nil:
			reached["success"]++
		case ke != nil && ke.Ambiguous():
			reached[fmt.Sprintf("in doubt, applied %d times", n)]++
		default:
			reached["failure that says so"]++
		}
		if bad != "" {
			t.Errorf("seed %d: %s: %s: %v", seed, e.key, bad, e.err)
		}
	}
}

// COUCHCORE_SEED replays one seed, COUCHCORE_SEEDS runs more of them.
func TestChaos(t *testing.T) {
	reached := map[string]int{}
	if s := os.Getenv("COUCHCORE_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
		chaos(t, seed, 400, reached)
		return
	}
	seeds := 20
	if testing.Short() || raceEnabled {
		seeds = 6
	}
	if n, err := strconv.Atoi(os.Getenv("COUCHCORE_SEEDS")); err == nil {
		seeds = n
	}
	for seed := range seeds {
		chaos(t, uint64(seed), 400, reached)
	}
	t.Log(reached)
	for _, what := range []string{
		"success", "in doubt, applied 0 times", "in doubt, applied 1 times",
		"failure that says so", "read", "read nothing", "read in vain",
	} {
		require.Positive(t, reached[what], "not reached: "+what)
	}
}
