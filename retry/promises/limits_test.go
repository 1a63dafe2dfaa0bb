package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// These are the numbers of the third document. A limit says nothing about its fit unless a test says so.

// of is a strategy that waits the given milliseconds in turn, and then the last of them again.
func of(delays ...int) retry.Strategy {
	return retry.BestEffort{Backoff: retry.Schedule(in(delays...)...)}
}

// exhaust lets a write fail until the limit ends it, and gives the delays between its attempts.
func exhaust(t *testing.T, l policy.Limit) (waited []time.Duration, took time.Duration, err error) {
	t.Helper()
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		began := time.Now()
		_, err = kv.Do(within(t, time.Minute), w.b, kv.Upsert{
			Key: []byte("k"), Common: kv.Common{Retry: l, Timeout: 20 * time.Second},
		})
		took = time.Since(began)
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		waited = delays(info)
	})
	return waited, took, err
}

func exhausted(t *testing.T, want []time.Duration, l policy.Limit) {
	t.Helper()
	waited, took, err := exhaust(t, l)
	require.ErrorIs(t, err, retry.ErrExhausted)
	require.ErrorIs(t, err, cberr.DocumentLocked, "the error is what the last attempt met")
	require.Equal(t, want, waited)
	var sum time.Duration
	for _, d := range want {
		sum += d
	}
	require.Equal(t, sum, took, "what a limit drops is not waited for")
}

func TestTheZeroValueOfTheFitDrops(t *testing.T) {
	require.Equal(t, policy.Drop, policy.Limit{}.Fit)
}

func TestATotalBelowTheMaximumIsLeft(t *testing.T) {
	exhausted(t, in(150, 300, 500), policy.Limit{Base: of(150, 300, 500), MaxAttempts: 4, Hard: time.Second})
	exhausted(t, in(150, 300, 500), policy.Limit{Base: of(150, 300, 500), Hard: time.Second})
}

func TestATotalBelowTheMaximumMayBeFilledToExactlyTheMaximum(t *testing.T) {
	l := policy.Limit{Base: of(150, 300, 500), MaxAttempts: 4, Hard: time.Second, Fit: policy.Stretch}
	exhausted(t, in(150, 300, 550), l)
}

func TestATotalAboveTheMaximumMayBeTruncated(t *testing.T) {
	exhausted(t, in(150, 300, 550), policy.Limit{Base: of(150, 300, 600), Hard: time.Second, Fit: policy.Truncate})
}

func TestATotalAboveTheMaximumMayBeLetPass(t *testing.T) {
	exhausted(t, in(150, 300, 600), policy.Limit{Base: of(150, 300, 600), Hard: time.Second, Fit: policy.Overflow})
}

func TestTheSoftLimitStopsTheSubsequentRetryButAllowsTheOverflow(t *testing.T) {
	exhausted(t, in(150, 300, 600), policy.Limit{Base: of(150, 300, 600, 100), Soft: time.Second})
	exhausted(t, in(150, 300, 500, 100), policy.Limit{Base: of(150, 300, 500, 100), Soft: time.Second})
}

func TestTheHardLimitRestrictsTheTotal(t *testing.T) {
	exhausted(t, in(150, 300), policy.Limit{Base: of(150, 300, 600), Hard: time.Second})
}

func TestSoft1SecondAndHard2SecondsDropTheFourthDelay(t *testing.T) {
	exhausted(t, in(150, 300, 500), policy.Limit{
		Base: of(150, 300, 500, 1150), Soft: time.Second,
		Hard: 2 * time.Second,
	})
}

func TestFiveRetriesAtMostOf100To1600Milliseconds(t *testing.T) {
	l := policy.Limit{MaxAttempts: 6, Base: retry.BestEffort{Backoff: retry.Exponential(100*ms, time.Hour, 2)}}
	exhausted(t, in(100, 200, 400, 800, 1600), l)
}

func TestLinearRetrySleepsForTheSameAmountOfTime(t *testing.T) {
	exhausted(t, in(100, 100, 100), policy.Limit{MaxAttempts: 4, Base: every(100 * ms)})
}

func TestJitterIsARandomAmountOfHalfTheRetryPeriod(t *testing.T) {
	for roll, want := range map[float64][]time.Duration{
		0: in(100, 200), 0.5: in(125, 250),
		0.9999: {149995 * time.Microsecond, 299990 * time.Microsecond},
	} {
		b := retry.AddJitter(retry.Exponential(100*ms, time.Hour, 2), 0.5, func() float64 { return roll })
		exhausted(t, want, policy.Limit{MaxAttempts: 3, Base: retry.BestEffort{Backoff: b}})
	}
}

func TestTheTotalTimeIsPredictable(t *testing.T) {
	curve := func(roll float64) retry.Backoff {
		return retry.AddJitter(retry.Exponential(100*ms, time.Hour, 2), 0.5, func() float64 { return roll })
	}
	for _, l := range []policy.Limit{
		{MaxAttempts: 6},
		{MaxAttempts: 6, Hard: time.Second},
		{MaxAttempts: 6, Soft: time.Second},
		{MaxAttempts: 6, Soft: time.Second, Hard: 2 * time.Second},
		{Hard: 3 * time.Second, Fit: policy.Overflow},
		{MaxAttempts: 4, Hard: 2 * time.Second, Fit: policy.Stretch},
		{Hard: time.Second, Fit: policy.Truncate},
		{MaxElapsed: time.Second, Fit: policy.GiveUp},
		{Hard: time.Second, Fit: policy.Cap},
	} {
		plan := l.Plan(curve(0.9999))
		for _, roll := range []float64{0, 0.5, 0.9999} {
			l.Base = retry.BestEffort{Backoff: curve(roll)}
			_, took, err := exhaust(t, l)
			require.Error(t, err)
			require.LessOrEqual(t, took, plan, "%+v", l)
		}
	}
}

func TestALimitsCapWaitsUntilTheLimitAndTimesOut(t *testing.T) {
	_, took, err := exhaust(t, policy.Limit{Base: of(150, 300, 600), Hard: time.Second, Fit: policy.Cap})
	require.ErrorIs(t, err, retry.ErrTimeout)
	require.ErrorIs(t, err, cberr.DocumentLocked)
	require.Equal(t, time.Second, took)
}

// TestGivingUpLooksAtTheDeadlineToo: to wait for a deadline and then to send nothing helps no caller; a limit that
// gives up fails at once.
func TestGivingUpLooksAtTheDeadlineToo(t *testing.T) {
	for fit, want := range map[policy.Fit]time.Duration{policy.GiveUp: 2 * time.Second, policy.Drop: 2500 * ms} {
		virtual(t, func(t *testing.T, w *world) {
			w.refuses(memd.OpSet, 0, memd.StatusLocked)
			took, _, err := w.upsert(policy.Limit{Base: every(time.Second), Fit: fit})
			require.Equal(t, want, took)
			require.ErrorIs(t, err, cberr.DocumentLocked)
		})
	}
}

// TestARetryThatSleepsDoesNotBlockOtherCalls: the document's motive. Ten thousand wait, and a call beside them takes no
// longer.
func TestARetryThatSleepsDoesNotBlockOtherCalls(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		w.refuses(memd.OpSet, 0, memd.StatusLocked)
		var waiting []kv.Future[kv.MutationResult]
		for range 10_000 {
			waiting = append(waiting, kv.Start(within(t, time.Minute), w.b, kv.Upsert{
				Key: []byte("k"), Common: kv.Common{Retry: every(time.Hour), Timeout: time.Second, Block: true},
			}))
		}
		time.Sleep(100 * ms)
		took, _, err := w.get(nil)
		require.ErrorIs(t, err, cberr.DocumentNotFound)
		require.Zero(t, took)
		require.Equal(t, 10_000, w.c.RetryStats().Parked)
		for _, f := range waiting {
			_, err := f.Wait(within(t, time.Minute))
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		require.Zero(t, w.c.RetryStats().Parked)
		require.Zero(t, w.c.RetryStats().Bytes)
	})
}

// TestTransparentRetriesAreOutsideTheSumOfDelays: while nothing leaves the client, nothing of the policy's is used up.
func TestTransparentRetriesAreOutsideTheSumOfDelays(t *testing.T) {
	virtual(t, func(t *testing.T, w *world) {
		key := w.keyOn(1)
		require.NoError(t, w.m.Kill(1))
		time.Sleep(100 * ms)
		w.m.Inject(mock.Match{Opcodes: []memd.Opcode{memd.OpSet}, Times: 2}, mock.Status(memd.StatusTmpFail))
		f := kv.Start(within(t, time.Minute), w.b, kv.Upsert{Key: key, Common: kv.Common{
			Timeout: 10 * time.Second, Retry: policy.Limit{
				Base: every(50 * ms), MaxAttempts: 3, Soft: 150 * ms,
				Hard: 150 * ms,
			},
		}})
		time.Sleep(3 * time.Second)
		require.NoError(t, w.m.Respawn(1))
		res, err := f.Wait(within(t, time.Minute))
		require.NoError(t, err)
		require.Equal(t, 2, res.RetryInfo().Counted)
		require.Greater(t, res.RetryInfo().Transparent, 3)
	})
}
