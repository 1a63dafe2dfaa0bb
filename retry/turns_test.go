package retry_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
)

// Operations fail one after the other, and their strategies answer on goroutines of their own, in any order. Those that
// are due at one moment go in the order in which they have failed.
func TestWhatIsDueTogetherGoesInTheOrderInWhichItFailed_D250(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orc := retry.New(retry.Options{Default: retry.Func(
			func(context.Context, *retry.Request, retry.Reason) retry.Action {
				return retry.After(10 * time.Millisecond)
			})})
		var order []int
		for i := range 20 {
			x := newOp(true, time.Minute)
			x.dispatch = func() { order = append(order, i) }
			x.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		if !slices.IsSorted(order) || len(order) != 20 {
			t.Errorf("they went in the order %v", order)
		}
	})
}

func TestTheDelayIsToldWhileTheOperationWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		orc := retry.New(retry.Options{MaxParked: 1, Default: retry.BestEffort{Backoff: retry.Constant(time.Second)}})
		waiting, refused := newOp(true, time.Minute), newOp(true, time.Minute)
		waiting.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		refused.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, time.Second, waiting.st.Info().Log[0].Delay)
		require.ErrorIs(t, refused.err, retry.ErrTooManyInRetry)
		require.Zero(t, refused.st.Info().Log[0].Delay)
		orc.Cancel(waiting, nil)
		require.Equal(t, time.Second, waiting.st.Info().Log[0].Delay)
	})
}

// stuck is a budget that blocks, which it must not do.
type stuck struct{ free chan struct{} }

func (b stuck) Take(retry.Kind) (int32, bool) {
	<-b.free
	return 1, true
}
func (stuck) Settle(int32, bool) {}

// A budget that blocks holds up those operations that are due at the same moment and have one, too, and no others.
func TestABudgetHoldsUpNoOperationWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := stuck{make(chan struct{})}
		orc := retry.New(retry.Options{})
		charged, free := newOp(true, time.Minute), newOp(true, time.Minute)
		charged.st.Strategy = after{retry.After(time.Second).Charged(b)}
		free.st.Strategy = after{retry.After(time.Second)}
		charged.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		free.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, free.sent(), 1)
		require.Empty(t, charged.sent())
		close(b.free)
		synctest.Wait()
		require.Len(t, charged.sent(), 1)
	})
}

// TestAnEndBeforeAnAnswerIsJudgedIsInDoubt_D266: between a reader's claim of an answer and the judgement of it, the end
// of an operation did not say that the server may have executed it.
func TestAnEndBeforeAnAnswerIsJudgedIsInDoubt_D266(t *testing.T) {
	orc := retry.New(retry.Options{})
	answered := func(idempotent bool) *op {
		x := newOp(idempotent, time.Minute)
		e, _ := x.st.Sent()
		require.True(t, x.st.Answered(e))
		return x
	}
	for idempotent, inDoubt := range map[bool]bool{true: false, false: true} {
		expired, canceled, claimed := answered(idempotent), answered(idempotent), answered(idempotent)
		require.True(t, orc.Expire(expired))
		require.True(t, orc.Cancel(canceled, nil))
		won, unjudged := claimed.st.Finish()
		require.True(t, won)
		require.Equal(t, []bool{inDoubt, inDoubt, inDoubt}, []bool{expired.inDoubt, canceled.inDoubt, unjudged})

		judged, waiting := answered(idempotent), answered(idempotent)
		require.True(t, judged.st.NotApplied())
		require.True(t, orc.Expire(judged))
		require.False(t, judged.st.NotApplied())
		waiting.st.Strategy = after{retry.After(time.Second)}
		orc.MaybeRetry(waiting, retry.KVTemporaryFailure, errCause, retry.Hint{})
		require.True(t, orc.Cancel(waiting, nil))
		require.False(t, judged.inDoubt || waiting.inDoubt)
	}
}

// What an ended operation's attempt was, and where, is told when its answer was claimed and not judged, too.
func TestAnEndBeforeAnAnswerIsJudgedNamesTheAttempt_D266(t *testing.T) {
	var attempts []retry.AttemptInfo
	orc := retry.New(retry.Options{
		Default: retry.BestEffort{Backoff: retry.Constant(time.Minute)},
		Observer: hooks{attempt: func(a retry.AttemptInfo) {
			attempts = append(attempts, a)
		}},
	})
	x := newOp(false, time.Hour)
	x.notSent(orc, retry.SocketNotAvailable)
	orc.Wake(nil)
	e, _ := x.st.Sent()
	require.True(t, x.st.Answered(e))
	require.True(t, orc.Expire(x))
	var end *retry.Error
	require.ErrorAs(t, x.err, &end)
	require.True(t, end.InDoubt)
	require.Equal(t, retry.StageResponse, end.Stage)
	require.Len(t, attempts, 2)
	require.Equal(t, retry.StageResponse, attempts[1].Stage)
}

// A program's observer that blocks in the end of an operation holds up no retry that is due at the same moment.
func TestAnObserverOfAnEndHoldsUpNoRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		orc := retry.New(retry.Options{
			Default:  after{retry.After(time.Second)},
			Observer: hooks{gaveUp: func(*retry.Request, retry.Reason, error) { <-release }},
		})
		ends, goesOn := newOp(true, time.Second), newOp(true, time.Minute)
		ends.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		goesOn.answer(orc, retry.KVTemporaryFailure, retry.Hint{})
		time.Sleep(2 * time.Second)
		synctest.Wait()
		require.Len(t, goesOn.sent(), 1)
		require.Zero(t, ends.ended())
		close(release)
		synctest.Wait()
		endedOnce(t, ends, retry.ErrTimeout)
	})
}
