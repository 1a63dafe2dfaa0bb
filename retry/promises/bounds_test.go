package promises_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// These are statements of the fifth document about the memory of retries, about its hedges, and what must hold under
// any strategy.

// parkWrites starts n writes of size bytes that wait for a retry.
func (w *world) parkWrites(n, size int) (waiting []kv.Future[kv.MutationResult]) {
	for range n {
		waiting = append(waiting, kv.Start(within(w.t, time.Minute), w.b, kv.Upsert{
			Key: []byte("k"), Value: make([]byte, size), Common: kv.Common{
				Retry:   every(time.Hour),
				Timeout: time.Second, Block: true,
			},
		}))
	}
	time.Sleep(10 * ms)
	return waiting
}

// TestTheCallsThatWaitForARetryAreBounded: the next one fails with what it met, instead of waiting.
func TestTheCallsThatWaitForARetryAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		waiting := w.parkWrites(10, 1)
		require.Equal(t, 10, w.c.RetryStats().Parked)
		took, _, err := w.upsert(nil)
		require.ErrorIs(t, err, retry.ErrTooManyInRetry)
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		require.Zero(t, took)
		w.fails(memd.OpGet, 0, mock.NotMyVBucket(false, nil))
		_, _, err = w.get(nil)
		require.ErrorIs(t, err, retry.ErrTooManyInRetry, "always-retried reasons are inside of the bound")
		for _, f := range waiting {
			_, err := f.Wait(within(t, time.Minute))
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		require.Zero(t, w.c.RetryStats().Parked)
	}, func(c *core.Config) { c.Limits.Parked = 10 })
}

func TestTheTotalMemoryForRetriesIsLimitedAndFreed(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		waiting := w.parkWrites(5, 1000)
		require.Equal(t, 4, w.c.RetryStats().Parked)
		require.Greater(t, w.c.RetryStats().Bytes, int64(4000))
		full := 0
		for _, f := range waiting {
			if _, err := f.Wait(within(t, time.Minute)); err != nil {
				require.ErrorIs(t, err, cberr.TemporaryFailure)
				if tooMany(err) {
					full++
				}
			}
		}
		require.Equal(t, 1, full)
		require.Zero(t, w.c.RetryStats().Bytes, "the memory is free again")
		in.Remove()
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
	}, func(c *core.Config) { c.Limits.ParkedBytes = 5000 })
}

func tooMany(err error) bool {
	info, ok := retry.InfoOf(err)
	return ok && info.Retries() == 0 && !info.Parked
}

// TestARequestThatDoesNotFitIsSentButNotRetried: the limit of one operation's memory.
func TestARequestThatDoesNotFitIsSentButNotRetried(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for size, want := range map[int]int{5000: 1, 100: 2} {
			in := w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
			before := w.m.Frames(memd.OpSet)
			_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: []byte("k"), Value: make([]byte, size)})
			require.Equal(t, want, w.m.Frames(memd.OpSet)-before)
			require.Equal(t, want == 1, err != nil)
			in.Remove()
		}
		sc := w.manager(answered(429, ""), done())
		_, err := w.do(core.HTTPRequest{Method: "PUT", Body: make([]byte, 5000)})
		require.Error(t, err)
		require.Equal(t, 1, sc.Fired())
	}, func(c *core.Config) { c.Limits.CallBytes = 1000 })
}

func TestWithoutADelayAllHedgesAreSentAtOnce(t *testing.T) {
	text := `{"operationConfig":[{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":{"maxAttempts":3}}]}`
	hedged(t, text, func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.fails(memd.OpGet, 0, mock.Drop())
		w.fails(memd.OpGetReplica, 0, mock.DelayReply(5*ms))
		active, replicas := w.frames()
		r, took, err := get()
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Equal(t, 5*ms, took)
		a, reps := w.frames()
		require.Equal(t, []int{1, 2}, []int{a - active, reps - replicas})
	})
}

// TestTheFirstGoodAnswerWinsAndTheOtherAttemptsAreCancelled: what answers later changes nothing, and the call has one
// outcome.
func TestTheFirstGoodAnswerWinsAndTheOtherAttemptsAreCancelled(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		w.fails(memd.OpGet, 1, mock.DelayReply(time.Second))
		r, took, err := get()
		require.NoError(t, err)
		require.True(t, r.FromReplica)
		require.Equal(t, hedgeDelay, took)
		active, replicas := w.frames()
		time.Sleep(2 * time.Second)
		a, reps := w.frames()
		require.Equal(t, []int{active, replicas}, []int{a, reps}, "no further copy is asked")
	})
}

func TestHedgesGoToDistinctNodes(t *testing.T) {
	hedged(t, hedgesGets(""), func(t *testing.T, w *world, get func() (kv.GetResult, time.Duration, error)) {
		seen := make([]atomic.Int32, 3)
		for i := range seen {
			w.m.Inject(mock.Match{Nodes: []int{i}, Func: func(p *memd.Packet) bool {
				if p.Opcode == memd.OpGet || p.Opcode == memd.OpGetReplica {
					seen[i].Add(1)
					return true
				}
				return false
			}}, mock.Status(memd.StatusTmpFail))
		}
		_, _, err := get()
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		for i := range seen {
			require.EqualValues(t, 1, seen[i].Load(), "node %d", i)
		}
	})
}

// TestACallCompletesExactlyOnce: answers, lost connections, deadlines and cancels race.
func TestACallCompletesExactlyOnce(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.fails(memd.OpSet, 300, mock.Twice())
		w.fails(memd.OpSet, 100, mock.DelayReply(50*ms))
		var ended [500]atomic.Int32
		for i := range ended {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i%100)*ms)
			kv.Go(ctx, w.b, kv.Upsert{Key: []byte{'k', byte(i)}, Common: kv.Common{Block: true}},
				func(kv.MutationResult, error) {
					ended[i].Add(1)
					cancel()
				})
			if i == 250 {
				w.m.DisconnectAll()
			}
		}
		time.Sleep(time.Minute)
		for i := range ended {
			require.EqualValues(t, 1, ended[i].Load(), "call %d", i)
		}
	})
}

func TestNothingIsSentOnceACallHasEnded(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		in := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
		ctx, cancel := context.WithCancel(t.Context())
		canceled := kv.Start(ctx, w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{Retry: every(time.Second)}})
		expires := kv.Start(t.Context(), w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Retry:   every(time.Second),
			Timeout: 500 * ms,
		}})
		closed := kv.Start(t.Context(), w.b, kv.Upsert{Key: []byte("k"), Common: kv.Common{
			Retry:   every(time.Second),
			Timeout: time.Minute,
		}})
		time.Sleep(100 * ms)
		require.Equal(t, 3, in.Fired())
		cancel()
		_, err := canceled.Wait(t.Context())
		require.ErrorIs(t, err, cberr.RequestCanceled)
		_, err = expires.Wait(t.Context())
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		began := time.Now()
		require.NoError(t, w.c.Close())
		_, err = closed.Wait(t.Context())
		require.ErrorIs(t, err, retry.ErrClosed, "close ends what waits")
		require.Zero(t, time.Since(began))
		time.Sleep(time.Minute)
		require.Equal(t, 3, in.Fired())
	})
}
