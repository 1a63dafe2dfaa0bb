package core_test

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/couchcore/couchcore/cberr"
	"github.com/couchcore/couchcore/core"
	"github.com/couchcore/couchcore/kv"
	"github.com/couchcore/couchcore/memd"
	"github.com/couchcore/couchcore/mock"
	"github.com/couchcore/couchcore/retry"
)

// full runs f with a cluster of one node that takes four calls at a time and needs a second for each.
func full(t *testing.T, f func(t *testing.T, m *mock.Cluster, b *core.Bucket)) {
	synctest.Test(t, func(t *testing.T) {
		m := mock.Start(t, mock.Nodes(1), mock.Bucket("default", 16), mock.Virtual())
		b := open(t, m, func(c *core.Config) { c.Limits.InFlight = 4 }).Bucket("default")
		require.NoError(t, b.WaitReady(ctx(t)))
		m.Inject(only(memd.OpSet, 0), mock.Delay(time.Second))
		f(t, m, b)
	})
}

var blocking = kv.Common{Block: true, Timeout: time.Minute, Retry: retry.Func(func(context.Context, *retry.Request,
	retry.Reason,
) retry.Action {
	return retry.Stop() // without a question
})}

// A call that may block waits for its turn, in order, and asks no strategy.
func TestAFullConnectionBlocksWhoWantsIt(t *testing.T) {
	full(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		began := time.Now()
		for i := range 20 {
			go func() {
				r, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "%d", i), Common: blocking})
				if err != nil || r.RetryInfo().Retries() != 0 {
					t.Errorf("call %d: %v, %d retries", i, err, r.RetryInfo().Retries())
				}
			}()
			synctest.Wait()
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		log := m.ApplyLog("default")
		require.Len(t, log, 20)
		for i, a := range log { // four are executed at the same moment
			n, err := strconv.Atoi(a.Key)
			require.NoError(t, err)
			require.Equal(t, i/4, n/4, "in the order of the calls")
		}
		require.Equal(t, 5*time.Second, time.Since(began))
		_, err := kv.Do(ctx(t), b, kv.Upsert{Key: []byte("k")})
		require.NoError(t, err)
	})
}

// Start and Go return when the call is on its way.
func TestABlockingStartSlowsDownItsCaller(t *testing.T) {
	full(t, func(t *testing.T, _ *mock.Cluster, b *core.Bucket) {
		began := time.Now()
		var done atomic.Int32
		for i := range 4 {
			kv.Go(ctx(t), b, kv.Upsert{Key: []byte{'a' + byte(i)}, Common: blocking}, func(_ kv.MutationResult,
				err error,
			) {
				if err == nil {
					done.Add(1)
				}
			})
		}
		require.Zero(t, time.Since(began), "there was room")
		f := kv.Start(ctx(t), b, kv.Upsert{Key: []byte("x"), Common: blocking})
		require.Equal(t, time.Second, time.Since(began), "there was none until the others had ended")
		synctest.Wait()
		require.EqualValues(t, 4, done.Load())
		_, err := f.Wait(ctx(t))
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// Who waits for a turn waits until the deadline, the context's end, or Close, and nothing was sent.
func TestTheEndOfABlockedCall(t *testing.T) {
	for name, c := range map[string]struct {
		op   kv.Upsert
		ctx  func(context.Context) context.Context
		want error
	}{
		"deadline": {
			op:   kv.Upsert{Common: kv.Common{Block: true, Timeout: 200 * time.Millisecond}},
			want: cberr.UnambiguousTimeout,
		},
		"canceled": {
			op: kv.Upsert{Common: blocking}, want: cberr.RequestCanceled,
			ctx: func(ctx context.Context) context.Context {
				ctx, cancel := context.WithCancel(ctx)
				time.AfterFunc(200*time.Millisecond, cancel)
				return ctx
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			full(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
				for range 4 {
					kv.Start(ctx(t), b, kv.Upsert{Key: []byte("x")})
				}
				began, ctx := time.Now(), ctx(t)
				if c.ctx != nil {
					ctx = c.ctx(ctx)
				}
				c.op.Key = []byte("k")
				f := kv.Start(ctx, b, c.op)
				_, err := f.Wait(context.Background())
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, "its turn")
				require.Equal(t, 200*time.Millisecond, time.Since(began))
				time.Sleep(3 * time.Second)
				require.Len(t, m.ApplyLog("default"), 4)
			})
		})
	}
}

// The node dies while calls wait for their turn: they go over the next connection.
func TestBlockedCallsSurviveTheirConnection(t *testing.T) {
	full(t, func(t *testing.T, m *mock.Cluster, b *core.Bucket) {
		for range 4 {
			kv.Start(ctx(t), b, kv.Upsert{Key: []byte("x")})
		}
		var ended, failed atomic.Int32
		for i := range 12 {
			go func() {
				if _, err := kv.Do(ctx(t), b, kv.Upsert{Key: fmt.Appendf(nil, "%d", i), Common: blocking}); err != nil {
					failed.Add(1)
				}
				ended.Add(1)
			}()
		}
		synctest.Wait()
		m.DisconnectAll()
		time.Sleep(10 * time.Second)
		require.EqualValues(t, 12, ended.Load())
		require.Zero(t, failed.Load())
	})
}
