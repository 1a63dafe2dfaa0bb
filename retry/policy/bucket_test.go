package policy_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// TestFirstTriesCostNothing proves SM-6: the bucket is paid before retries and never before a first try; nor for what
// no server has seen.
func TestFirstTriesCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := policy.NewStore(20, 0, policy.Costs{})
		s := policy.Bucket{Base: schedule(10), Store: store}
		orc := retry.New(retry.Options{Default: s})
		for range 1000 {
			c := newCall(s, script(answer{ok: true}))
			c.orc, c.from, c.st.Deadline = orc, time.Now(), time.Now().Add(time.Second)
			c.Dispatch()
			c.ended(t)
			require.NoError(t, c.err)
		}
		require.Equal(t, 20, store.Tokens())
		none := answer{why: retry.NodeNotAvailable, none: true}
		require.NoError(t, newCall(s, script(none, none, none, answer{ok: true})).play().err)
		require.Equal(t, 20, store.Tokens())

		empty := policy.NewStore(0, 0, policy.Costs{})
		c := newCall(policy.Bucket{Base: schedule(10), Store: empty}, script(answer{ok: true})).play()
		require.NoError(t, c.err)
		require.Len(t, c.at, 1, "an empty bucket stops no first try")
	})
}

// TestSuccessReturnsWhatWasPaid proves SM-7.
func TestSuccessReturnsWhatWasPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := policy.NewStore(50, 0, policy.Costs{})
		s := policy.Bucket{Base: schedule(10), Store: store}
		busy := answer{why: retry.KVTemporaryFailure}
		paid := answer{ok: true, took: ms}
		c := newCall(s, script(busy, busy, paid))
		left := 0
		time.AfterFunc(20*ms+ms/2, func() { left = store.Tokens() })
		c.play()
		require.NoError(t, c.err)
		require.Equal(t, inMS(0, 10, 20), c.at)
		require.Equal(t, 30, left, "two retries were paid")
		require.Equal(t, 50, store.Tokens(), "and came back")

		failed := newCall(policy.Limit{MaxAttempts: 3, Base: s}, always(retry.KVTemporaryFailure, retry.Hint{})).play()
		failed.ended(t, retry.ErrExhausted)
		require.Equal(t, 30, store.Tokens(), "a failure forfeits them")
	})
}

// TestCosts proves SM-8: the kind of failure sets the cost, and throttling is dearest.
func TestCosts(t *testing.T) {
	kinds := []retry.Kind{retry.ServerSide, retry.ClientSide, retry.Throttling, retry.Timeout}
	for _, c := range []struct {
		costs policy.Costs
		want  []int
	}{
		{policy.Costs{}, []int{5, 5, 10, 5}},
		{policy.DefaultCosts(), []int{5, 5, 10, 5}},
		{policy.Costs{Server: 1, Client: 2, Throttling: 3, Timeout: 4}, []int{1, 2, 3, 4}},
	} {
		store := policy.NewStore(100, 0, c.costs)
		for i, k := range kinds {
			before := store.Tokens()
			cost, ok := store.Take(k)
			require.True(t, ok)
			require.EqualValues(t, c.want[i], cost, "%v", k)
			require.Equal(t, before-c.want[i], store.Tokens())
			store.Settle(cost, true)
			require.Equal(t, before, store.Tokens())
		}
	}
	synctest.Test(t, func(t *testing.T) { // the answer's own word for it wins over the reason's kind
		store := policy.NewStore(50, 0, policy.Costs{})
		s := policy.Limit{MaxAttempts: 2, Base: policy.Bucket{Base: schedule(10), Store: store}}
		run(s, retry.KVErrorMapRetryIndicated, retry.Hint{})
		require.Equal(t, 45, store.Tokens())
		run(s, retry.KVErrorMapRetryIndicated, retry.Hint{Overload: true})
		require.Equal(t, 35, store.Tokens())
	})
}

// TestBucketRefillsWithTime proves SM-9: whatever operations do, and fractions of a token go on counting.
func TestBucketRefillsWithTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := policy.NewStore(20, time.Second, policy.Costs{})
		for range 2 {
			_, ok := store.Take(retry.Throttling)
			require.True(t, ok)
		}
		_, ok := store.Take(retry.Throttling)
		require.False(t, ok)
		require.Zero(t, store.Tokens())
		time.Sleep(10*time.Second - time.Nanosecond)
		_, ok = store.Take(retry.Throttling)
		require.False(t, ok)
		time.Sleep(time.Nanosecond)
		require.Equal(t, 10, store.Tokens())
		_, ok = store.Take(retry.Throttling)
		require.True(t, ok)
		for range 10000 { // each of these is too short for a thousandth of a token
			time.Sleep(200 * time.Microsecond)
			if cost, ok := store.Take(retry.Throttling); ok {
				store.Settle(cost, true)
			}
		}
		require.Equal(t, 2, store.Tokens(), "fractions go on counting")
		time.Sleep(200 * 365 * 24 * time.Hour)
		require.Equal(t, 20, store.Tokens())
		_, ok = store.Take(retry.Throttling)
		require.True(t, ok)
		require.Equal(t, 10, store.Tokens(), "the years gave what there was room for")

		huge := policy.NewStore(math.MaxInt, 365*24*time.Hour, policy.Costs{})
		_, ok = huge.Take(retry.Throttling)
		require.True(t, ok)
		require.Positive(t, huge.Tokens())
		require.Zero(t, policy.NewStore(-1, -1, policy.Costs{}).Tokens())
	})
}

// TestTheBackoffComesBeforeThePayment proves SM-11: a retry that cannot be paid fails after its delay, not before.
func TestTheBackoffComesBeforeThePayment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := policy.Bucket{Base: schedule(10), Store: policy.NewStore(20, 0, policy.Costs{})}
		c := run(s, retry.KVTemporaryFailure, retry.Hint{})
		require.Equal(t, inMS(0, 10, 20), c.at)
		require.Equal(t, 30*ms, c.end)
		c.ended(t, retry.ErrThrottled, errCause)
	})
	d, ok := policy.Bucket{Base: schedule(5)}.RetryAfter(t.Context(), &retry.Request{Idempotent: true},
		retry.KVLocked).Delay()
	require.True(t, ok, "no store, no budget")
	require.Equal(t, 5*ms, d)
}

// ledger is a budget that writes down what the one below it does.
type ledger struct {
	retry.Budget
	paid, refunded, forfeited int32
	settled                   int
}

func (l *ledger) Take(k retry.Kind) (cost int32, ok bool) {
	if cost, ok = l.Budget.Take(k); ok {
		l.paid += cost
	}
	return cost, ok
}

func (l *ledger) Settle(cost int32, succeeded bool) {
	l.Budget.Settle(cost, succeeded)
	l.settled++
	if succeeded {
		l.refunded += cost
	} else {
		l.forfeited += cost
	}
}

// TestEveryTokenIsResolvedOnce proves SM-14 and I10: whatever happens to an operation, what it has paid is what it gets
// back and forfeits, in one settlement when it has ended and none before.
func TestEveryTokenIsResolvedOnce(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			capacity := rapid.IntRange(0, 60).Draw(t, "capacity")
			store := policy.NewStore(capacity, 0, policy.Costs{})
			books := &ledger{Budget: store}
			reasons := []retry.Reason{
				retry.KVTemporaryFailure, retry.KVLocked, retry.NodeNotAvailable, retry.SocketClosedWhileInFlight,
				retry.AuthenticationError,
			}
			s := retry.FastFailOnTerminalError{Base: policy.Limit{
				MaxAttempts: rapid.IntRange(0, 6).Draw(t, "attempts"), MaxElapsed: time.Minute,
				Base: policy.Bucket{Base: schedule(10), Store: books},
			}}
			// Drawn beforehand: the attempts run on other goroutines, where a draw may not panic.
			fates := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) answer {
				a := answer{
					why:  rapid.SampledFrom(reasons).Draw(t, "why"),
					took: time.Duration(rapid.IntRange(0, 5).Draw(t, "took")) * ms,
				}
				switch rapid.IntRange(0, 9).Draw(t, "fate") {
				case 0:
					a.ok = true
				case 1:
					a.lost = true
				case 2:
					a.none = true
				}
				return a
			}), 1, 30).Draw(t, "fates")
			c := newCall(s, func(n int) answer { return fates[n%len(fates)] })
			c.st.Idempotent = rapid.Bool().Draw(t, "idempotent")
			cancel := time.Duration(rapid.IntRange(1, 200).Draw(t, "canceled after")) * ms
			c.from = time.Now()
			c.st.Deadline = c.from.Add(time.Second)
			timer := time.AfterFunc(cancel, func() { c.orc.Cancel(c, nil) })
			defer timer.Stop()
			c.play()
			require.Equal(t, 1, c.done)
			require.Equal(t, books.paid, books.refunded+books.forfeited)
			require.LessOrEqual(t, books.settled, 1)
			require.Equal(t, books.paid > 0, books.settled == 1)
			require.Equal(t, capacity-int(books.forfeited), store.Tokens())
			if c.err == nil {
				require.Zero(t, books.forfeited)
			} else {
				require.Zero(t, books.refunded)
			}
		})
	})
}

// TestBucketNeverGivesMoreThanItHas is the property behind SM-9 and I10.
func TestBucketNeverGivesMoreThanItHas(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			capacity := rapid.IntRange(0, 50).Draw(t, "capacity")
			per := time.Duration(rapid.IntRange(0, 3000).Draw(t, "per token")) * ms
			s := policy.NewStore(capacity, per, policy.Costs{Server: 1, Client: 2, Throttling: 3, Timeout: 4})
			start := time.Now()
			taken := 0
			for range rapid.IntRange(0, 50).Draw(t, "events") {
				time.Sleep(time.Duration(rapid.IntRange(0, 5000).Draw(t, "pause")) * ms / 3)
				cost, ok := s.Take(retry.Kind(rapid.IntRange(0, 3).Draw(t, "kind")))
				if ok && rapid.Bool().Draw(t, "success") {
					s.Settle(cost, true)
				} else if ok {
					taken += int(cost)
				}
				require.GreaterOrEqual(t, s.Tokens(), 0)
				require.LessOrEqual(t, s.Tokens(), capacity)
				given := capacity
				if per > 0 {
					given += int(time.Since(start)/per) + 1
				}
				require.LessOrEqual(t, taken, given)
			}
		})
	})
}

// What takes longer than a Duration can say is waited for, too.
func TestADebtThatIsNeverPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := policy.NewStore(1, math.MaxInt64, policy.Costs{Server: math.MaxInt32})
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		first, err := s.Waiting().Acquire(ctx)
		require.NoError(t, err)
		began := time.Now()
		_, err = first.ScheduleRetry(ctx, retry.ServerSide)
		require.Error(t, err)
		require.Equal(t, time.Hour, time.Since(began))
	})
}
