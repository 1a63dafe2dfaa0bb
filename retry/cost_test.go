package retry_test

import (
	"context"
	"regexp"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

func TestStateIsSmall(t *testing.T) {
	require.LessOrEqual(t, unsafe.Sizeof(retry.State{}), uintptr(56))
}

// succeed is what an operation that never fails does with its State, and with the tokens of its node if there are any.
func succeed(s *retry.State, deadline time.Time, st retry.Strategy, node *policy.Tokens) bool {
	s.Idempotent, s.Deadline, s.Strategy = true, deadline, st
	e, ok := s.Sent()
	ok = ok && s.Succeeded(e)
	node.Success()
	return ok
}

// TestSuccessAllocatesNothing: all that a failure needs is made when something fails.
func TestSuccessAllocatesNothing(t *testing.T) {
	var s retry.State
	deadline := time.Now().Add(time.Second)
	var st retry.Strategy = retry.FastFailOnTerminalError{}
	ok := true
	for _, node := range []*policy.Tokens{nil, policy.NewTokens(10, 100)} {
		require.Zero(t, testing.AllocsPerRun(1000, func() { ok = ok && s.Reset() && succeed(&s, deadline, st, node) }))
	}
	require.True(t, ok)
}

// TestSuccessTakesNoLock proves this package's part of CB-8: nothing waits for a lock while nothing fails.
func TestSuccessTakesNoLock(t *testing.T) {
	old := runtime.SetMutexProfileFraction(1)
	defer runtime.SetMutexProfileFraction(old)
	before := contended(t)
	done, node := make(chan bool), policy.NewTokens(10, 100)
	for range 4 {
		go func() {
			var s retry.State
			ok := true
			for range 20000 {
				ok = ok && s.Reset() && succeed(&s, time.Time{}, nil, node)
			}
			done <- ok
		}()
	}
	for range 4 {
		require.True(t, <-done)
	}
	require.Equal(t, before, contended(t))
}

// contended returns how often someone waited for a lock of this package or of its policies. The profile also has the
// locks of the runtime, such as that of the channel done, which say nothing about ours.
func contended(t *testing.T) int64 {
	t.Helper()
	n, _ := runtime.MutexProfile(nil)
	records := make([]runtime.BlockProfileRecord, n+100)
	n, complete := runtime.MutexProfile(records)
	require.True(t, complete)
	var waits int64
	for _, r := range records[:n] {
		for frames, more := runtime.CallersFrames(r.Stack()), true; more; {
			var f runtime.Frame
			f, more = frames.Next()
			if ours.MatchString(f.Function) {
				waits += r.Count
				break
			}
		}
	}
	return waits
}

// ours finds the functions of retry and retry/policy, but not those of their tests.
var ours = regexp.MustCompile(`/retry(/policy)?\.`)

// BenchmarkSuccess is all that retrying costs an operation that does not fail: two atomic steps, below 15 ns.
func BenchmarkSuccess(b *testing.B) {
	deadline := time.Now().Add(time.Second)
	var st retry.Strategy = retry.FastFailOnTerminalError{}
	states, i, node := make([]retry.State, 64), 0, policy.NewTokens(10, 100)
	b.ReportAllocs()
	for b.Loop() {
		if i == len(states) {
			clear(states)
			i = 0
		}
		s := &states[i] // as in succeed, but without its call
		s.Idempotent, s.Deadline, s.Strategy = true, deadline, st
		if e, ok := s.Sent(); !ok || !s.Succeeded(e) {
			b.Fatal("not the first use")
		}
		node.Success()
		i++
	}
}

// BenchmarkSuccessReused is the same with a State that is used again, which takes a third step.
func BenchmarkSuccessReused(b *testing.B) {
	var s retry.State
	deadline := time.Now().Add(time.Second)
	var st retry.Strategy = retry.FastFailOnTerminalError{}
	b.ReportAllocs()
	for b.Loop() {
		s.Reset()
		succeed(&s, deadline, st, nil)
	}
}

// TestManyParkedOperations proves ADR-4, GR-13, GA6-39 and I11: no goroutine waits, and nothing is left afterwards.
func TestManyParkedOperations(t *testing.T) {
	const n = 10000
	for _, end := range []string{"time", "close", "wake", "cancel"} {
		bubble(t, func(t *testing.T) {
			start := time.Now()
			orc := retry.New(retry.Options{Default: retry.BestEffort{Backoff: retry.Constant(time.Second)}})
			ops := make([]*op, n)
			before := runtime.NumGoroutine()
			for i := range ops {
				x := newOp(true, time.Hour)
				x.size = 10
				ops[i] = x
				x.notSent(orc, retry.NodeNotAvailable)
			}
			requireGoroutines(t, before)
			require.Equal(t, n, orc.Stats().Parked)
			require.EqualValues(t, 10*n, orc.Stats().Bytes)
			dispatched := n
			switch end {
			case "time":
				pass(time.Second)
			case "wake":
				orc.Wake(func(o retry.Op) bool { return o.Context() != nil })
				require.Equal(t, start, time.Now())
			case "close":
				dispatched = 0
				orc.Close(nil)
				require.Equal(t, start, time.Now())
			case "cancel":
				dispatched = 0
				for _, x := range ops {
					require.True(t, orc.Cancel(x, nil))
				}
			}
			synctest.Wait()
			for _, x := range ops {
				require.Equal(t, dispatched/n, len(x.sent()))
				require.Equal(t, 1-dispatched/n, x.ended())
			}
			require.Zero(t, orc.Stats().Parked)
			require.Zero(t, orc.Stats().Bytes)
		})
	}
}

// TestAHundredThousandParkedOperations: they cost memory, and little of it, but no goroutine.
func TestAHundredThousandParkedOperations(t *testing.T) {
	const n, most = 100_000, 64 << 20
	bubble(t, func(t *testing.T) {
		orc := retry.New(retry.Options{MaxParked: n, Default: retry.BestEffort{Backoff: retry.Constant(time.Second)}})
		ops := make([]*op, n)
		for i := range ops {
			ops[i] = newOp(true, time.Hour)
		}
		goroutines, before := runtime.NumGoroutine(), heapInUse()
		for _, x := range ops {
			x.notSent(orc, retry.NodeNotAvailable)
		}
		took := heapInUse() - before
		require.Equal(t, n, orc.Stats().Parked)
		requireGoroutines(t, goroutines)
		require.Less(t, took, int64(most))
		t.Logf("%d parked operations: %d bytes each", n, took/n)
		pass(time.Second)
		require.Zero(t, orc.Stats().Parked)
		for _, x := range ops {
			require.Equal(t, 1, len(x.sent()))
		}
		orc.Close(nil)
	})
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestOneGoroutinePerBlockedStrategy checks that there are goroutines only while a strategy that may block runs.
func TestOneGoroutinePerBlockedStrategy(t *testing.T) {
	bubble(t, func(t *testing.T) {
		release := make(chan struct{})
		var running atomic.Int32
		orc := retry.New(retry.Options{Default: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action {
				running.Add(1)
				<-release
				return retry.After(time.Second)
			})})
		before := runtime.NumGoroutine()
		for range 10 {
			newOp(true, time.Hour).answer(orc, retry.KVLocked, retry.Hint{})
		}
		synctest.Wait()
		requireGoroutines(t, before+10)
		require.EqualValues(t, 10, running.Load())
		close(release)
		synctest.Wait()
		requireGoroutines(t, before)
		require.Equal(t, 10, orc.Stats().Parked)
		orc.Close(nil)
	})
}

// requireGoroutines waits for goroutines that have ended to be counted no more: the runtime counts one until its stack
// is put away, which may be after everybody could see its end.
func requireGoroutines(t *testing.T, most int) {
	t.Helper()
	for range 100000 {
		if runtime.NumGoroutine() <= most {
			return
		}
		runtime.Gosched()
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), most)
}
