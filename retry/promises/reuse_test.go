package promises_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// TestNothingOfAHedgedReadSurvivesIntoTheNextCall: reads that are hedged by a file, and unrelated writes between them,
// which keep their own policy, their timeout and the user's classification.
func TestNothingOfAHedgedReadSurvivesIntoTheNextCall(t *testing.T) {
	text := `{"operationConfig":[
		{"name":[{"service":"kv","operation":"get"}],"hedgingPolicy":{"maxAttempts":3,"nonFatalReasons":["KV_TEMPORARY_FAILURE"]}},
		{"name":[{"service":"kv"}],"timeout":"0.4s","retryPolicy":{"maxAttempts":3,"initialBackoff":"0.001s","maxBackoff":"0.001s",
			"backoffMultiplier":1,"retryableReasons":["KV_TEMPORARY_FAILURE"]}}]}`
	var classified atomic.Int64
	virtual(t, func(t *testing.T, w *world) {
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for i := range 100 {
			slow := w.fails(memd.OpGet, 1, mock.DelayReply(ms))
			_, _, err := w.get(nil)
			require.NoError(t, err)
			slow.Remove()

			busy := w.refuses(memd.OpSet, 0, memd.StatusTmpFail)
			_, _, err = w.upsert(nil)
			require.ErrorIs(t, err, retry.ErrExhausted, "write %d", i)
			require.Equal(t, 3, busy.Fired(), "write %d", i)
			busy.Remove()

			silent := w.fails(memd.OpSet, 0, mock.Drop())
			took, _, err := w.upsert(nil)
			require.ErrorIs(t, err, retry.ErrTimeout)
			require.Equal(t, 400*ms, took, "write %d", i)
			silent.Remove()

			before := classified.Load()
			odd := w.refuses(memd.OpSet, 1, memd.StatusDurabilityImpossible)
			_, _, err = w.upsert(nil)
			require.Error(t, err)
			require.Equal(t, before+1, classified.Load(), "write %d", i)
			odd.Remove()
		}
	}, file(t, text), func(c *core.Config) {
		c.Retry.Classify = func(core.Answer) retry.Reason { classified.Add(1); return retry.Unknown }
	})
}

// TestACallsOwnOptionsAreNotTheNextOnes: what one call sets, calls of the same memory after it do not have.
func TestACallsOwnOptionsAreNotTheNextOnes(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		_, err := kv.Do(t.Context(), w.b, kv.Upsert{Key: []byte("k"), Value: []byte("v")})
		require.NoError(t, err)
		for range 50 {
			in := w.refuses(memd.OpGet, 0, memd.StatusTmpFail)
			_, err := kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k"), Common: kv.Common{
				Timeout: 10 * ms,
				Retry:   stops{},
			}})
			require.Error(t, err)
			require.Equal(t, 1, in.Fired())
			in.Remove()
			in = w.refuses(memd.OpGet, 3, memd.StatusTmpFail)
			began := time.Now()
			_, err = kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k")})
			require.NoError(t, err, "the next one has the cluster's strategy")
			require.Equal(t, 3, in.Fired())
			in.Remove()
			slow := w.fails(memd.OpGet, 1, mock.DelayReply(time.Second))
			_, err = kv.Do(t.Context(), w.b, kv.Get{Key: []byte("k")})
			require.NoError(t, err, "and the cluster's timeout")
			require.Greater(t, time.Since(began), time.Second)
			slow.Remove()
		}
	})
}
