package promises_test

import (
	"context"
	"net"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock/scripted"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// The strategies of this file embed a shipped one, as the documents recommend, and then do what only a strategy that
// runs apart may do.

type embedsBestEffort struct {
	retry.BestEffort
	act func(ctx context.Context)
}

func (s embedsBestEffort) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.BestEffort.RetryAfter(ctx, r, why)
}

type embedsPointer struct {
	*retry.BestEffort
	act func(ctx context.Context)
}

func (s embedsPointer) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.BestEffort.RetryAfter(ctx, r, why)
}

type embedsFastFail struct {
	retry.FastFailOnTerminalError
	act func(ctx context.Context)
}

func (s embedsFastFail) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

type embedsLimit struct {
	policy.Limit
	act func(ctx context.Context)
}

func (s *embedsLimit) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.Limit.RetryAfter(ctx, r, why)
}

type embedsOnly struct {
	policy.Only
	act func(ctx context.Context)
}

func (s embedsOnly) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.Only.RetryAfter(ctx, r, why)
}

type embedsPushback struct {
	policy.Pushback
	act func(ctx context.Context)
}

func (s embedsPushback) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.Pushback.RetryAfter(ctx, r, why)
}

type embedsThrottle struct {
	policy.Throttle
	act func(ctx context.Context)
}

func (s embedsThrottle) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.Throttle.RetryAfter(ctx, r, why)
}

type embedsBucket struct {
	policy.Bucket
	act func(ctx context.Context)
}

func (s embedsBucket) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	s.act(ctx)
	return s.Bucket.RetryAfter(ctx, r, why)
}

type embedsTwice struct{ embedsBestEffort }

// embeddings are strategies that embed each of the shipped ones and call act first.
func embeddings(act func(ctx context.Context)) map[string]retry.Strategy {
	all := retry.Reasons(0).With(retry.KVTemporaryFailure)
	return map[string]retry.Strategy{
		"BestEffort":              embedsBestEffort{act: act},
		"*BestEffort":             embedsPointer{BestEffort: &retry.BestEffort{}, act: act},
		"pointer to an embedding": &embedsBestEffort{act: act},
		"an embedding embedded":   embedsTwice{embedsBestEffort{act: act}},
		"FastFailOnTerminalError": embedsFastFail{act: act},
		"Limit":                   &embedsLimit{act: act},
		"Only":                    embedsOnly{Only: policy.Only{Reasons: all}, act: act},
		"Pushback":                embedsPushback{act: act},
		"Throttle":                embedsThrottle{act: act},
		"Bucket":                  embedsBucket{act: act},
		"an embedding in a Base":  retry.FastFailOnTerminalError{Base: embedsBestEffort{act: act}},
		"an embedding in a Limit": policy.Limit{Base: policy.Only{Base: embedsFastFail{act: act}, Reasons: all}},
	}
}

// busyKey is a node of TCP that refuses "busy" the given number of times and answers everything else.
func busyKey(t *testing.T, times int64) *scripted.Cluster {
	t.Helper()
	s := scripted.New(t, 1)
	s.SetDocument("busy", []byte("1"))
	s.SetDocument("other", []byte("2"))
	var refused atomic.Int64
	s.Nodes[0].SetHook(func(x *scripted.Session, p *memd.Packet) bool {
		if p.Opcode != memd.OpGet || x.Key(p) != "busy" || refused.Add(1) > times {
			return false
		}
		x.Reply(p, memd.StatusTmpFail, nil, nil)
		return true
	})
	return s
}

// unharmed is an act that blocks until another key's call on the same connection has succeeded. Were it run by the
// connection's reader, that call could not end.
func unharmed(t *testing.T, b *core.Bucket, then func(ctx context.Context)) (act func(context.Context),
	harmed *atomic.Bool,
) {
	t.Helper()
	harmed = new(atomic.Bool)
	return func(ctx context.Context) {
		_, err := kv.Do(ctx, b, kv.Get{Key: []byte("other"), Common: kv.Common{Timeout: 3 * time.Second}})
		if err != nil {
			harmed.Store(true)
		}
		if then != nil {
			then(ctx)
		}
	}, harmed
}

func TestAStrategyThatEmbedsAShippedOneMaySleep(t *testing.T) {
	for name := range embeddings(nil) {
		t.Run(name, func(t *testing.T) {
			b := ready(t, busyKey(t, 1))
			act, harmed := unharmed(t, b, func(context.Context) { time.Sleep(20 * time.Millisecond) })
			_, err := kv.Do(within(t, 8*time.Second), b, kv.Get{
				Key: []byte("busy"), Common: kv.Common{Retry: embeddings(act)[name], Timeout: 8 * time.Second},
			})
			require.NoError(t, err)
			require.False(t, harmed.Load(), "another key's call on the same connection waited for the strategy")
		})
	}
}

func TestAStrategyThatEmbedsAShippedOneMayPanic(t *testing.T) {
	for name := range embeddings(nil) {
		t.Run(name, func(t *testing.T) {
			b := ready(t, busyKey(t, 1))
			act, harmed := unharmed(t, b, func(context.Context) { panic("a strategy of the user's") })
			_, err := kv.Do(within(t, 8*time.Second), b, kv.Get{
				Key: []byte("busy"), Common: kv.Common{Retry: embeddings(act)[name], Timeout: 8 * time.Second},
			})
			var failed *retry.PanicError
			require.ErrorAs(t, err, &failed)
			require.False(t, harmed.Load(), "another key's call on the same connection waited for the strategy")
			_, err = kv.Do(within(t, 8*time.Second), b, kv.Get{Key: []byte("other")})
			require.NoError(t, err, "the panic harmed its own call alone")
		})
	}
}

// One that ends its goroutine fails its own call, whose error says so.
func TestAStrategyThatEmbedsAShippedOneMayEndItsGoroutine(t *testing.T) {
	for name := range embeddings(nil) {
		t.Run(name, func(t *testing.T) {
			b := ready(t, busyKey(t, 1))
			act, harmed := unharmed(t, b, func(context.Context) { runtime.Goexit() })
			_, err := kv.Do(within(t, 8*time.Second), b, kv.Get{
				Key: []byte("busy"), Common: kv.Common{Retry: embeddings(act)[name], Timeout: 8 * time.Second},
			})
			require.ErrorContains(t, err, "the retry strategy ended its goroutine")
			require.ErrorIs(t, err, cberr.TemporaryFailure, "what the server has said")
			require.False(t, harmed.Load(), "another key's call on the same connection waited for the strategy")
			_, err = kv.Do(within(t, 8*time.Second), b, kv.Get{Key: []byte("other")})
			require.NoError(t, err, "the end harmed its own call alone")
		})
	}
}

func TestAStrategyThatEmbedsAShippedOneMayDoIO(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("go on"))
			c.Close()
		}
	}()
	for name := range embeddings(nil) {
		t.Run(name, func(t *testing.T) {
			b := ready(t, busyKey(t, 1))
			var heard atomic.Int64
			act, harmed := unharmed(t, b, func(ctx context.Context) {
				var d net.Dialer
				c, err := d.DialContext(ctx, "tcp", l.Addr().String())
				if err != nil {
					return
				}
				defer c.Close()
				n, _ := c.Read(make([]byte, 16))
				heard.Add(int64(n))
			})
			_, err := kv.Do(within(t, 8*time.Second), b, kv.Get{
				Key: []byte("busy"), Common: kv.Common{Retry: embeddings(act)[name], Timeout: 8 * time.Second},
			})
			require.NoError(t, err)
			require.False(t, harmed.Load(), "another key's call on the same connection waited for the strategy")
			require.EqualValues(t, 5, heard.Load())
		})
	}
}

func TestTheShippedStrategiesNeverBlockAndCostNoGoroutine(t *testing.T) {
	all := retry.Reasons(0).With(retry.KVTemporaryFailure)
	for _, s := range []retry.Strategy{
		nil,
		retry.BestEffort{},
		&retry.BestEffort{},
		retry.FastFailOnTerminalError{},
		&retry.FastFailOnTerminalError{Base: &retry.BestEffort{}},
		policy.Limit{MaxAttempts: 9},
		&policy.Limit{},
		policy.Only{Reasons: all},
		policy.Pushback{},
		policy.Throttle{},
		policy.Bucket{},
		policy.Graph(),
		policy.Only{Reasons: all, Base: &policy.Limit{Base: policy.Bucket{Base: policy.Throttle{}}}},
	} {
		require.True(t, retry.IsInline(s), "%T", s)
	}
	for name, s := range embeddings(func(context.Context) {}) {
		require.False(t, retry.IsInline(s), name)
	}
}

// saysSo is a strategy that says on itself that it never blocks.
type saysSo struct{ retry.BestEffort }

func (saysSo) Inline() bool { return true }

// inherits embeds one that says so, and does not say so itself.
type inherits struct{ saysSo }

func TestATypeThatSaysSoItselfIsAskedWhereTheFailureWasSeen(t *testing.T) {
	require.True(t, retry.IsInline(saysSo{}))
	require.True(t, retry.IsInline(&saysSo{}))
	require.True(t, retry.IsInline(policy.Limit{Base: saysSo{}}))
	require.False(t, retry.IsInline(inherits{}), "who embeds such a type has not said so")
	require.False(t, retry.IsInline(&inherits{}))
}

// TestALimitWithoutABaseAsksTheClustersStrategyApart: the cluster's own strategy may block, and a limit inherits it.
func TestALimitWithoutABaseAsksTheClustersStrategyApart(t *testing.T) {
	s := busyKey(t, 1)
	var act func(context.Context)
	b := ready(t, s, func(c *core.Config) {
		c.Retry.Strategy = embedsFastFail{act: func(ctx context.Context) { act(ctx) }}
	})
	act, harmed := unharmed(t, b, nil)
	_, err := kv.Do(within(t, 8*time.Second), b, kv.Get{
		Key: []byte("busy"), Common: kv.Common{Retry: policy.Limit{MaxAttempts: 3}, Timeout: 8 * time.Second},
	})
	require.NoError(t, err)
	require.False(t, harmed.Load())
}
