package promises_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// ported is the RFC's pseudo-code of the best-effort strategy, word for word: a backoff of the number of retries.
type ported struct{ asked []int }

func (p *ported) calculateBackoff(attempts int) time.Duration {
	p.asked = append(p.asked, attempts)
	return min(ms<<min(attempts, 9), 500*ms)
}

func (p *ported) RetryAfter(_ context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if r.Idempotent || why.AllowsNonIdempotent() {
		return retry.After(p.calculateBackoff(r.Retries()))
	}
	return retry.Stop()
}

func counted(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

func TestRetryAttemptsReturnsTheNumberOfRetriesThatAlreadyHappened(t *testing.T) {
	t.Run("dispatch: the node is down", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			key := w.keyOn(1)
			require.NoError(t, w.m.Kill(1))
			time.Sleep(time.Second)
			p := &ported{}
			_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{
				Retry:   p,
				Timeout: 400 * ms,
			}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
			require.Greater(t, len(p.asked), 5)
			require.Equal(t, counted(len(p.asked)), p.asked, "it backs off, instead of asking for 1 ms each time")
			require.Less(t, len(p.asked), 15)
		})
	})
	t.Run("response: the server is busy", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 6, memd.StatusTmpFail)
			p := &ported{}
			took, info, err := w.upsert(p)
			require.NoError(t, err)
			require.Equal(t, counted(6), p.asked)
			require.Equal(t, 6, info.Retries())
			require.Equal(t, 63*ms, took, "1, 2, 4, 8, 16 and 32 ms")
		})
	})
	t.Run("network: the connection is lost", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			w.fails(memd.OpGet, 3, mock.CloseBefore())
			p := &ported{}
			_, info, err := w.get(p)
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			require.Equal(t, counted(len(p.asked)), p.asked)
			require.GreaterOrEqual(t, info.Retries(), 3)
		})
	})
	t.Run("stages by turns", func(t *testing.T) {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpGet, 1, memd.StatusLocked) // the newest acts first
			w.refuses(memd.OpGet, 1, memd.StatusNotMyVBucket)
			w.refuses(memd.OpGet, 2, memd.StatusTmpFail)
			w.fails(memd.OpGet, 1, mock.CloseBefore())
			s := &recorder{base: retry.BestEffort{}}
			_, info, err := w.get(s)
			require.ErrorIs(t, err, cberr.DocumentNotFound)
			last := s.asked()[len(s.asked())-1]
			require.Equal(t, retry.KVLocked, last.why)
			require.Equal(t, info.Retries()-1, last.Retries(),
				"those that no strategy was asked about are counted, too")
			require.Equal(t, last.Counted+last.Transparent, last.Retries())
		})
	})
}

func TestTheBackoffStepGrowsAtEveryStage(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(time.Second)
		s := &recorder{base: retry.BestEffort{}}
		_, err := kv.Do(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{
			Retry:   s,
			Timeout: 400 * ms,
		}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		for i, a := range s.asked() {
			require.Equal(t, i, a.BackoffStep)
			require.Zero(t, a.Counted, "nothing has reached a server")
		}
	})
}

func TestRetryReasonsArePreviousOnes(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 1, memd.StatusSyncWriteInProgress) // the newest acts first
		w.refuses(memd.OpSet, 1, memd.StatusLocked)
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		s := &recorder{base: retry.BestEffort{}}
		_, info, err := w.upsert(s)
		require.NoError(t, err)
		var sets []string
		for _, a := range s.asked() {
			sets = append(sets, fmt.Sprint(a.why, " after ", a.Reasons))
		}
		require.Equal(t, []string{
			"KV_TEMPORARY_FAILURE after ", "KV_LOCKED after KV_TEMPORARY_FAILURE",
			"KV_SYNC_WRITE_IN_PROGRESS after KV_LOCKED,KV_TEMPORARY_FAILURE",
		}, sets)
		require.True(t, info.Reasons.Has(retry.KVSyncWriteInProgress))
	})
}

func TestARequestHasAnAssociatedStrategy(t *testing.T) {
	own := &recorder{base: retry.BestEffort{}}
	global := &recorder{base: retry.BestEffort{}}
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err := w.upsert(nil)
		require.NoError(t, err)
		require.Same(t, retry.Strategy(global), global.asked()[0].Strategy, "the default one")
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		_, _, err = w.upsert(own)
		require.NoError(t, err)
		require.Same(t, retry.Strategy(own), own.asked()[0].Strategy, "the request's own")
		require.Len(t, global.asked(), 1)
	}, strategy(global))
}

func TestARequestSaysWhetherItIsIdempotent(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		for op, want := range map[memd.Opcode]bool{memd.OpGet: true, memd.OpSet: false} {
			w.refuses(op, 1, memd.StatusTmpFail)
			s := &recorder{base: retry.BestEffort{}}
			if op == memd.OpGet {
				_, _, _ = w.get(s)
			} else {
				_, _, _ = w.upsert(s)
			}
			require.Equal(t, want, s.asked()[0].Idempotent)
		}
	})
}

type robotKey struct{}

// unlessRobot is the RFC's example: a strategy that looks at what the user has attached to the request.
type unlessRobot struct{ retry.FastFailOnTerminalError }

func (s unlessRobot) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if r.Context.Value(robotKey{}) != nil {
		return retry.Stop()
	}
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

func TestAStrategyReachesUserDefinedDataOfTheRequest(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 2, memd.StatusTmpFail)
		robot := context.WithValue(within(t, time.Minute), robotKey{}, true)
		_, err := kv.Do(robot, w.b, kv.Upsert{Key: []byte("k")})
		require.ErrorIs(t, err, cberr.TemporaryFailure)
		_, _, err = w.upsert(nil)
		require.NoError(t, err, "otherwise it falls back to the strategy that it embeds")
	}, strategy(unlessRobot{}))
}

func TestTheStrategyIsToldWhatTheRequestIsAndWhatItMet(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 1, memd.StatusTmpFail)
		s := &recorder{base: retry.BestEffort{}}
		began := time.Now()
		_, _, err := w.upsert(s)
		require.NoError(t, err)
		r := s.asked()[0]
		require.Equal(t, retry.KV, r.Service)
		require.Equal(t, "upsert", r.Operation)
		require.Equal(t, "default", r.Bucket)
		require.NotEmpty(t, r.Endpoint)
		require.NotEmpty(t, r.ID)
		require.NotContains(t, fmt.Sprintf("%+v", r.ID), "k", "never a document's key")
		require.EqualValues(t, memd.StatusTmpFail, r.Code)
		require.Equal(t, retry.Throttling, r.Kind)
		require.ErrorIs(t, r.Err, cberr.TemporaryFailure)
		require.Equal(t, began, r.Started)
		require.Equal(t, began.Add(2500*ms), r.Deadline)
	})
}
