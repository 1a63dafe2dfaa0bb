package promises_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

func TestTheBucketIsDecrementedBeforeRetriesButNotBeforeTheFirstTry(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(20, 0, policy.Costs{})
		for range 1000 {
			_, err := retry.Do(t.Context(), retry.Loop{Bucket: store}, again(retry.ServerSide), failing(0).run)
			require.NoError(t, err)
			require.Equal(t, 20, store.Tokens())
		}
		_, err := retry.Do(t.Context(), retry.Loop{Bucket: store, MaxAttempts: 3}, again(retry.ServerSide),
			failing(forever).run)
		require.ErrorIs(t, err, retry.ErrExhausted)
		require.Equal(t, 10, store.Tokens(), "two retries for 5 tokens each; what fails gives nothing back")
	})
}

func TestDifferentErrorTypesAreDecrementedAtDifferentAmounts(t *testing.T) {
	const quota = retry.OwnKind
	costs := policy.Costs{Server: 1, Client: 2, Throttling: 10, Timeout: 4, Own: map[retry.Kind]int32{quota: 30}}
	for k, want := range map[retry.Kind]int{
		retry.ServerSide: 1, retry.ClientSide: 2, retry.Throttling: 10, retry.Timeout: 4, quota: 30, quota + 1: 1,
	} {
		bubble(t, func(t *testing.T) {
			store := policy.NewStore(100, 0, costs)
			_, err := retry.Do(t.Context(), retry.Loop{Bucket: store, MaxAttempts: 2}, again(k), failing(forever).run)
			require.ErrorIs(t, err, retry.ErrExhausted)
			require.Equal(t, 100-want, store.Tokens(), "%v", k)
		})
	}
	d := policy.DefaultCosts()
	require.Greater(t, d.Throttling, max(d.Server, d.Client, d.Timeout), "throttling errors are more expensive")
}

func TestSuccessfulTriesReturnCapacityToTheBucket(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(20, 0, policy.Costs{})
		_, err := retry.Do(t.Context(), retry.Loop{Bucket: store}, again(retry.ServerSide), failing(2).run)
		require.NoError(t, err)
		require.Equal(t, 20, store.Tokens(), "what was paid is back")

		_, err = retry.Do(t.Context(), retry.Loop{Bucket: store, MaxAttempts: 4}, again(retry.ServerSide),
			failing(forever).run)
		require.Error(t, err)
		require.Equal(t, 5, store.Tokens())
		for range 3 {
			_, err = retry.Do(t.Context(), retry.Loop{Bucket: store}, again(retry.ServerSide), failing(0).run)
			require.NoError(t, err)
		}
		require.Equal(t, 8, store.Tokens(), "first tries that succeed, too")
	})
}

func TestTheTokenBucketRefillsOverTimeRegardlessOfSuccess(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(10, time.Second, policy.Costs{})
		_, err := retry.Do(t.Context(), retry.Loop{Bucket: store}, again(retry.Throttling), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.ErrorIs(t, err, errFlaky, "the error is that of the last try")
		require.Zero(t, store.Tokens())
		time.Sleep(7 * time.Second)
		require.Equal(t, 7, store.Tokens())
		time.Sleep(time.Minute)
		require.Equal(t, 10, store.Tokens())
	})
}

func TestTheTokenBucketIsSharedByCallers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(10, 0, policy.Costs{})
		l := retry.Loop{Bucket: store, Strategy: every(ms)}
		_, first := retry.Do(t.Context(), l, again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, first, retry.ErrThrottled)
		b := failing(forever)
		_, second := retry.Do(t.Context(), l, again(retry.ServerSide), b.run)
		require.ErrorIs(t, second, retry.ErrThrottled)
		require.Len(t, b.at, 1, "nothing is left for the other caller's retries")
		info, _ := retry.InfoOf(second)
		require.Zero(t, info.Retries(), "a retry that was not paid is not counted")
	})
}

func TestAnEmptyBucketFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(5, time.Second, policy.Costs{})
		b := failing(forever)
		_, err := retry.Do(t.Context(), retry.Loop{Bucket: store, Strategy: every(10 * ms)}, again(retry.ServerSide),
			b.run)
		require.ErrorIs(t, err, retry.ErrThrottled)
		require.Equal(t, in(0, 10), b.at)
	})
}

func TestAnEmptyBucketMayDelayInstead(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(5, time.Second, policy.Costs{})
		b := failing(3)
		n, err := retry.Do(t.Context(), retry.Loop{Bucket: store.Waiting(), Strategy: every(10 * ms)},
			again(retry.ServerSide), b.run)
		require.NoError(t, err)
		require.Equal(t, 42, n)
		require.Equal(t, in(0, 10, 5010, 10010), b.at, "each retry waits until five tokens are there")

		empty := policy.NewStore(5, time.Hour, policy.Costs{})
		began := time.Now()
		_, err = retry.Do(t.Context(), retry.Loop{Bucket: empty.Waiting(), MaxElapsed: time.Minute},
			again(retry.ServerSide), failing(forever).run)
		require.ErrorIs(t, err, retry.ErrTimeout, "no longer than the work may take")
		require.ErrorIs(t, err, errFlaky)
		require.Equal(t, time.Minute, time.Since(began))
		require.Zero(t, empty.Tokens())
		time.Sleep(5 * time.Hour)
		require.Equal(t, 5, empty.Tokens(), "who gave up waiting has used nothing")

		never := policy.NewStore(5, 0, policy.Costs{})
		_, err = retry.Do(t.Context(), retry.Loop{Bucket: never.Waiting()}, again(retry.ServerSide),
			failing(forever).run)
		require.ErrorIs(t, err, retry.ErrThrottled, "a bucket that never fills keeps no caller waiting")
	})
}

func TestThoseWhoWaitForTheBucketAreServedInTheirOrder(t *testing.T) {
	bubble(t, func(t *testing.T) {
		store := policy.NewStore(5, time.Second, policy.Costs{})
		done := make(chan int, 3)
		for i := range 3 {
			go func() {
				_, err := retry.Do(t.Context(), retry.Loop{
					Bucket:   store.Waiting(),
					Strategy: every(time.Duration(i+1) * ms),
				},
					again(retry.ServerSide), failing(1).run)
				if err == nil {
					done <- i
				}
			}()
		}
		time.Sleep(time.Minute)
		for want := range 3 {
			require.Equal(t, want, <-done)
		}
	})
}
