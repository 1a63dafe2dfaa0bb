package core_test

import (
	"context"
	"errors"
	"sync"
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

func breaker(c *core.Config) {
	c.Retry.CircuitBreaker = &core.CircuitBreaker{Volume: 10, SleepWindow: 3 * time.Second, CanaryTimeout: time.Second}
	c.Maps.PollInterval = time.Hour // its requests would find the silent node out first
}

// never is a strategy that gives up at once.
var never = retry.Func(func(context.Context, *retry.Request, retry.Reason) retry.Action { return retry.Stop() })

// trip lets calls to a node time out until its breaker opens.
func trip(t *testing.T, m *mock.Cluster, b *core.Bucket, key []byte) *mock.Injection {
	t.Helper()
	in := m.Inject(mock.Match{Nodes: []int{0}, Opcodes: []memd.Opcode{memd.OpGet, memd.OpSet, memd.OpNoop}},
		mock.Drop())
	for range 10 {
		_, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 20 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.NotErrorIs(t, err, cberr.CircuitBreakerOpen)
	}
	return in
}

// CB-68, D69: while a node's breaker is open its calls are not sent, and their strategy decides. Other nodes are
// served.
func TestAnOpenBreakerSendsNothing_CB68(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		sick, well := keyOn(t, b, m.Node(0).Addr()), keyOn(t, b, m.Node(1).Addr())
		trip(t, m, b, sick)
		sets, gets := m.Frames(memd.OpSet), m.Frames(memd.OpGet)
		began := time.Now()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: sick, Common: kv.Common{Retry: never}})
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
		require.NotErrorIs(t, err, cberr.AmbiguousTimeout)
		info, ok := retry.InfoOf(err)
		require.True(t, ok)
		require.Equal(t, retry.CircuitBreakerOpen, info.Reason)
		require.Zero(t, time.Since(began))
		_, err = kv.Do(ctx(t), b, kv.Get{Key: sick, Common: kv.Common{Timeout: 200 * time.Millisecond}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
		require.Equal(t, sets, m.Frames(memd.OpSet))
		require.Equal(t, gets, m.Frames(memd.OpGet))
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: well, Value: []byte("v")})
		require.NoError(t, err)
	}, breaker)
}

// B97: a canary that gets no answer opens the breaker again, one that gets one closes it and starts the counts anew. It
// is never a call of the user's.
func TestACanaryClosesTheBreaker_B97(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		in := trip(t, m, b, key)
		gets, noops := m.Frames(memd.OpGet), m.Frames(memd.OpNoop)
		time.Sleep(3 * time.Second)
		once := kv.Get{Key: key, Common: kv.Common{Retry: never}}
		_, err := kv.Do(ctx(t), b, once) // it is refused, and makes the canary fly
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
		time.Sleep(2 * time.Second) // the canary has had no answer, and the window begins again
		_, err = kv.Do(ctx(t), b, once)
		require.ErrorIs(t, err, cberr.CircuitBreakerOpen)
		require.Equal(t, noops+1, m.Frames(memd.OpNoop))
		require.Equal(t, gets, m.Frames(memd.OpGet))
		in.Remove()
		time.Sleep(3 * time.Second)
		began := time.Now()
		_, err = kv.Do(ctx(t), b, kv.Upsert{Key: key, Value: []byte("v")}) // the canary's answer wakes it
		require.NoError(t, err)
		require.Zero(t, time.Since(began))
		require.Equal(t, noops+2, m.Frames(memd.OpNoop))
		m.Inject(only(memd.OpGet, 1), mock.Drop())
		_, err = kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: time.Second}})
		require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		_, err = kv.Do(ctx(t), b, once) // one failure after that is no reason
		require.NoError(t, err)
	}, breaker)
}

// TestABreakerHearsOfAllLossesFirst_D254: when calls had no answer together, because their connection ended or at one
// deadline, what a program did as soon as the first had failed could meet a breaker that had not counted the others. It
// waited for the next connection, or was sent to the silent node.
func TestABreakerHearsOfAllLossesFirst_D254(t *testing.T) {
	const calls = 2000
	for name, end := range map[string]func(m *mock.Cluster) error{
		"the connection's end": func(m *mock.Cluster) error { return m.Kill(0) },
		"the deadline":         func(*mock.Cluster) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				get := kv.Get{Key: keyOn(t, b, m.Node(0).Addr()), Common: kv.Common{Retry: never, Timeout: time.Second}}
				m.Inject(only(memd.OpGet, 0), mock.Drop())
				var all sync.WaitGroup
				var refused atomic.Int64
				for range calls {
					all.Go(func() {
						_, _ = kv.Do(ctx(t), b, get) // has no answer
						if _, err := kv.Do(ctx(t), b, get); errors.Is(err, cberr.CircuitBreakerOpen) {
							refused.Add(1)
						}
					})
				}
				time.Sleep(100 * time.Millisecond)
				require.NoError(t, end(m))
				all.Wait()
				require.EqualValues(t, calls, refused.Load())
			}, breaker, func(c *core.Config) { c.Retry.CircuitBreaker.Volume = calls })
		})
	}
}

func TestBreakersCountWithinTheirWindow(t *testing.T) {
	withPolicy(t, "", func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		key := keyOn(t, b, m.Node(0).Addr())
		in := m.Inject(only(memd.OpGet, 0), mock.Drop())
		for range 15 {
			_, err := kv.Do(ctx(t), b, kv.Get{Key: key, Common: kv.Common{Timeout: 10 * time.Second}})
			require.ErrorIs(t, err, cberr.UnambiguousTimeout)
		}
		in.Remove()
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: key, Common: kv.Common{Retry: never}})
		require.NoError(t, err, "six failures a minute are below the volume")
	}, breaker)
}

func TestBadBreakersAreRefused(t *testing.T) {
	for _, b := range []core.CircuitBreaker{
		{Percentage: 101},
		{Percentage: -1},
		{Volume: -1},
		{SleepWindow: -1},
		{RollingWindow: -1},
		{CanaryTimeout: -1},
	} {
		_, err := core.Open(t.Context(), core.Config{Retry: core.RetryConfig{CircuitBreaker: &b}})
		var ce *core.ConfigError
		require.ErrorAs(t, err, &ce)
		require.Contains(t, ce.Field, "CircuitBreaker.")
	}
}
