package promises_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
	"github.com/couchcore/couchcore/retry/policy"
)

// wrapsDefault is a strategy as the guide recommends it: it embeds the default one and adds to it.
type wrapsDefault struct {
	retry.FastFailOnTerminalError
}

func (s wrapsDefault) RetryAfter(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
	return s.FastFailOnTerminalError.RetryAfter(ctx, r, why)
}

// embedsPatience waits for terminal conditions, too.
type embedsPatience struct{ retry.BestEffort }

// patient is a strategy that gives up at the third terminal failure.
func patient(_ context.Context, r *retry.Request, why retry.Reason) retry.Action {
	if why.Terminal() && r.Retries() >= 2 {
		return retry.StopTerminal()
	}
	return retry.After(100 * ms)
}

// waits are what waits for the cluster.
var waits = map[string]func(ctx context.Context, c *core.Cluster) error{
	"upsert":      calls["upsert"],
	"query":       calls["query"],
	"raw request": calls["raw request"],
	"WaitReady":   func(ctx context.Context, c *core.Cluster) error { return c.WaitReady(ctx) },
	"WaitReady, degraded": func(ctx context.Context, c *core.Cluster) error {
		return c.WaitReady(ctx, core.Ready{State: core.Degraded})
	},
	"WaitReady of a bucket": func(ctx context.Context, c *core.Cluster) error {
		return c.Bucket("default").WaitReady(ctx)
	},
}

// A strategy that embeds the default one, or has it inside, fails as fast as it does, whatever waits.
func TestAStrategyThatWrapsTheDefaultKeepsFastFailureEverywhere(t *testing.T) {
	for name, s := range map[string]retry.Strategy{
		"default":              nil,
		"embedded":             wrapsDefault{},
		"embedded, by pointer": &wrapsDefault{},
		"embedded, nothing added": struct {
			retry.FastFailOnTerminalError
		}{},
		"Limit":              policy.Limit{MaxAttempts: 4},
		"Limit of the embed": policy.Limit{Base: wrapsDefault{}, MaxAttempts: 4},
		"Only":               policy.Only{},
		"Pushback":           policy.Pushback{},
		"Bucket":             policy.Bucket{},
		"Throttle":           policy.Throttle{},
		"asks what it has no": retry.Func(func(ctx context.Context, r *retry.Request, why retry.Reason) retry.Action {
			return r.Ask(ctx, nil, why)
		}),
	} {
		for what, wait := range waits {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					cl := client(t, m, strategy(s), wrongPassword)
					cl.Bucket("default")
					failsAtOnce(t, cberr.AuthenticationFailure, atOnce,
						func(ctx context.Context) error { return wait(ctx, cl) })
				})
			})
		}
	}
}

// A strategy that waits for terminal conditions, by embedding or as it is, makes all wait, and each of them ends well
// when the condition has gone.
func TestAStrategyThatWaitsForTerminalConditionsMakesAllWait(t *testing.T) {
	for name, s := range map[string]retry.Strategy{
		"BestEffort": retry.BestEffort{}, "embedded": embedsPatience{}, "Limit": policy.Limit{
			Base:        embedsPatience{},
			MaxAttempts: 1000,
		},
	} {
		for what, wait := range waits {
			t.Run(name+", "+what, func(t *testing.T) {
				inBubble(t, func(t *testing.T, m *mock.Cluster) {
					cl := client(t, m, strategy(s), wrongPassword)
					cl.Bucket("default")
					time.AfterFunc(time.Second, func() {
						_ = cl.SetCredentials(core.Credentials{
							Username: mock.DefaultUser,
							Password: core.NewSecret(mock.DefaultPassword),
						})
					})
					began := time.Now()
					require.NoError(t, wait(within(t, 2*time.Second), cl))
					require.GreaterOrEqual(t, time.Since(began), time.Second)
				})
			})
		}
	}
}

// A strategy that gives up after some retries ends a wait as it ends a call.
func TestAStrategyThatGivesUpLaterEndsAWaitLater(t *testing.T) {
	for what, wait := range waits {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m, strategy(retry.Func(patient)), wrongPassword)
				cl.Bucket("default")
				began := time.Now()
				require.ErrorIs(t, wait(within(t, 10*time.Second), cl), cberr.AuthenticationFailure)
				require.GreaterOrEqual(t, time.Since(began), 100*ms) // a call is woken by what happens meanwhile
				require.Less(t, time.Since(began), 300*ms)
			})
		})
	}
}

// A strategy that panics, blocks or ends its goroutine harms no wait but its own, which ends with its context at the
// latest.
func TestAStrategyThatMisbehavesEndsItsWaitOnly(t *testing.T) {
	blocks := func(ctx context.Context, _ *retry.Request, _ retry.Reason) retry.Action {
		<-ctx.Done()
		return retry.Stop()
	}
	for name, f := range map[string]retry.Func{
		"panics": func(context.Context, *retry.Request, retry.Reason) retry.Action { panic("in a strategy") },
		"blocks": blocks,
		"ignores its context": func(context.Context, *retry.Request, retry.Reason) retry.Action {
			time.Sleep(10 * time.Second)
			return retry.Stop()
		},
		"ends": func(context.Context, *retry.Request, retry.Reason) retry.Action {
			runtime.Goexit()
			return retry.Stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, m *mock.Cluster) {
				cl := client(t, m, strategy(f), wrongPassword)
				b := cl.Bucket("default")
				began := time.Now()
				err := b.WaitReady(within(t, time.Second))
				require.ErrorIs(t, err, cberr.AuthenticationFailure)
				if name == "blocks" || name == "ignores its context" {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.Equal(t, time.Second, time.Since(began))
					time.Sleep(10 * time.Second) // the strategy comes back
					return
				}
				require.Less(t, time.Since(began), atOnce)
				if name == "panics" {
					var panicked *retry.PanicError
					require.ErrorAs(t, err, &panicked)
				} else {
					require.ErrorContains(t, err, "ended its goroutine")
				}
				_, err = kv.Do(within(t, time.Second), b, kv.Get{
					Key:    []byte("k"),
					Common: kv.Common{Retry: retry.FastFailOnTerminalError{}},
				})
				require.ErrorIs(t, err, cberr.AuthenticationFailure)
			})
		})
	}
}
